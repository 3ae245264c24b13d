//! `probe`: the health check of a container.

use super::{Failure, http, output};
use crate::config::{DEFAULT_PORT, HTTP_PORT_DISTANCE, check_address};
use hyper::{Method, StatusCode};
use std::time::Duration;

/// Flags of `probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// HOST:PORT of the node's HTTP port
    #[arg(long, env = "RAFT_NAMESRV_PROBE", value_name = "ADDRESS", default_value_t = default_address(), value_parser = parse_address)]
    http: String,
    /// Ask whether the process is alive instead of whether it is ready
    #[arg(long)]
    live: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// How long to wait for the answer, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    timeout_ms: u64,
}

fn default_address() -> String {
    format!("127.0.0.1:{}", DEFAULT_PORT + HTTP_PORT_DISTANCE)
}

fn parse_address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned())
}

/// Succeeds when the node is ready (or alive); fails with the node's reason otherwise.
///
/// # Errors
/// No answer, or not ready.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let path = if args.live { "/livez" } else { "/readyz" };
    let timeout = Duration::from_millis(args.timeout_ms);
    let answer = http::send(&args.http, Method::GET, path, String::new(), timeout).await?;
    let reason = answer.body.trim();
    let ok = answer.status == StatusCode::OK;
    if args.json {
        output::json(&serde_json::json!({ "ok": ok, "reason": reason }))?;
    }
    if !ok {
        return Err(Failure::refused(format!("GET http://{}{path}: {} {reason}", args.http, answer.status)));
    }
    if !args.json {
        output::line(reason)?;
    }
    Ok(())
}
