//! `probe`: the health check of a container.

use super::{Failure, http, output, target::check_address};
use hyper::{Method, StatusCode};
use std::time::Duration;

/// Flags of `probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// HTTP address of the node
    #[arg(long, env = "RAFT_NAMESRV_PROBE", default_value = "127.0.0.1:10076", value_parser = parse_address)]
    http: String,
    /// Ask whether the process is alive instead of whether it is ready
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How long to wait, milliseconds
    #[arg(long, default_value_t = 2000)]
    timeout_ms: u64,
}

fn parse_address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned())
}

/// Exit code 0 when the node is ready (or alive), else 1 with its reason.
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
