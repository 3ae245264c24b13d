//! `brokers`: every registered broker process, with its idle time: the seconds since its last sign of life.

use super::{Failure, http, output, output::Format, target::Target};
use crate::admin::api::{BrokerView, seconds};
use hyper::Method;

/// Flags of `brokers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the brokers of this RocketMQ cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks the first node that answers.
///
/// # Errors
/// No node answers.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let timeout = args.target.timeout();
    let mut brokers: Vec<BrokerView> = args
        .target
        .first(async |address| {
            http::api(address, Method::GET, "/api/v1/brokers", String::new(), timeout).await
        })
        .await?;
    brokers.retain(|b| args.cluster.as_ref().is_none_or(|cluster| *cluster == b.cluster));
    if args.target.format() == Format::Json {
        return Ok(output::json(&brokers)?);
    }
    let rows = brokers.iter().map(|b| {
        let idle = b.idle_ms.map_or_else(|| "-".to_owned(), seconds);
        [
            b.cluster.clone(),
            b.broker.clone(),
            b.id.to_string(),
            b.address.clone(),
            idle,
            format!("{} s", b.timeout_ms / 1000),
            b.topics.to_string(),
        ]
    });
    Ok(output::table(["CLUSTER", "BROKER", "ID", "ADDRESS", "IDLE", "TIMEOUT", "TOPICS"], rows.collect())?)
}
