//! `transfer`: transfer the leadership to another node, before maintenance for instance.

use super::{Failure, http, output, output::Format, target::Target};
use hyper::Method;
use serde::{Deserialize, Serialize};

/// Flags of `transfer`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the node that shall lead [default: the voter with the newest log]
    #[arg(long, value_name = "ID")]
    to: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// The answer: the leader after the transfer.
#[derive(Debug, Serialize, Deserialize)]
struct Transferred {
    leader: u64,
}

/// Asks the first node that answers: any node forwards it to the leader.
///
/// # Errors
/// No node answers, or the named node does not become leader in time.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let body = serde_json::json!({ "to": args.to }).to_string();
    let timeout = args.target.timeout();
    let done: Transferred = args
        .target
        .first(async |address| {
            http::api(address, Method::POST, "/api/v1/transfer", body.clone(), timeout).await
        })
        .await?;
    match args.target.format() {
        Format::Json => output::json(&done)?,
        Format::Text => output::line(&format!("node {} leads", done.leader))?,
    }
    Ok(())
}
