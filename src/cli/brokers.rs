//! `brokers`: every registered broker process, with the seconds since it was last heard.

use super::{Failure, http, output, output::Format, target::Target};
use crate::admin::api::{BrokerView, seconds};
use hyper::Method;

/// Flags of `brokers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this cluster
    #[arg(long)]
    cluster: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks the first node that answers.
///
/// # Errors
/// None answers.
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
        let heard = b.idle_ms.map_or_else(|| "-".to_owned(), seconds);
        [
            b.cluster.clone(),
            b.broker.clone(),
            b.id.to_string(),
            b.address.clone(),
            heard,
            format!("{} s", b.timeout_ms / 1000),
            b.topics.to_string(),
        ]
    });
    Ok(output::table(["CLUSTER", "BROKER", "ID", "ADDRESS", "HEARD", "TIMEOUT", "TOPICS"], rows.collect())?)
}
