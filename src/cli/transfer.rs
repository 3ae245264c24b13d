//! `transfer`: hand the leadership over, before maintenance for instance.

use super::{Failure, http, output, output::Format, target::Target};
use hyper::Method;
use serde::{Deserialize, Serialize};

/// Flags of `transfer`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Node that shall lead; without it the follower that is furthest
    #[arg(long)]
    to: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Who leads now.
#[derive(Debug, Serialize, Deserialize)]
struct Transferred {
    leader: u64,
}

/// Asks the first node that answers; it works from any node.
///
/// # Errors
/// No node answers, or the node named did not take over.
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
