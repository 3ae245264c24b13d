//! `status`: each node's own account, side by side.

use super::{Failure, http, output, output::Format, target::Target};
use crate::admin::api::StatusView;
use hyper::Method;
use serde::Serialize;

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Have each node hash its state, and compare those at one revision
    #[arg(long)]
    hash: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    address: String,
    #[serde(flatten)]
    status: Option<StatusView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Asks each address. Fails when a node does not answer, none leads, or two states differ at one revision.
///
/// # Errors
/// As said.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let path = if args.hash { "/api/v1/status?hash=true" } else { "/api/v1/status" };
    let mut reports = Vec::new();
    for address in args.target.addresses() {
        let answer = http::api(address, Method::GET, path, String::new(), args.target.timeout()).await;
        let (status, error) = match answer {
            Ok(status) => (Some(status), None),
            Err(failure) => (None, Some(failure.message)),
        };
        reports.push(NodeReport { address: address.clone(), status, error });
    }
    match args.target.format() {
        Format::Json => output::json(&reports)?,
        Format::Text => print(&reports)?,
    }
    judge(&reports)
}

fn print(reports: &[NodeReport]) -> Result<(), Failure> {
    let optional = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let rows = reports.iter().map(|report| match &report.status {
        None => [
            report.address.clone(),
            "-".into(),
            "no answer".into(),
            "-".into(),
            "-".into(),
            "-".into(),
            "-".into(),
        ],
        Some(s) => {
            let role = if s.leading { "leader" } else { s.role.as_str() };
            let ready = match (s.ready, s.stale) {
                (true, false) => "yes".to_owned(),
                (true, true) => "yes, without a leader".to_owned(),
                (false, _) => format!("no: {}", s.not_ready_because),
            };
            [
                report.address.clone(),
                s.node_id.to_string(),
                role.to_owned(),
                s.term.to_string(),
                optional(s.leader),
                optional(s.revision),
                ready,
            ]
        }
    });
    output::table(["ADDRESS", "NODE", "ROLE", "TERM", "LEADER", "REVISION", "READY"], rows.collect())?;
    for report in reports {
        if let Some(error) = &report.error {
            output::line(&format!("{}: {error}", report.address))?;
        }
        let notice = report.status.as_ref().map_or("", |s| s.notice.as_str());
        if !notice.is_empty() {
            output::line(&format!("{}: {notice}", report.address))?;
        }
        let hash = report.status.as_ref().and_then(|s| s.state_hash.as_ref());
        if let (Some(hash), Some(status)) = (hash, &report.status) {
            output::line(&format!(
                "{}: state {hash} at revision {}",
                report.address,
                optional(status.revision)
            ))?;
        }
    }
    Ok(())
}

fn judge(reports: &[NodeReport]) -> Result<(), Failure> {
    let silent: Vec<&str> =
        reports.iter().filter(|r| r.status.is_none()).map(|r| r.address.as_str()).collect();
    if !silent.is_empty() {
        return Err(Failure::refused(format!("no answer from {}", silent.join(", "))));
    }
    let statuses: Vec<&StatusView> = reports.iter().filter_map(|r| r.status.as_ref()).collect();
    if statuses.iter().all(|s| s.leader.is_none()) {
        return Err(Failure::refused("no node knows a leader".to_owned()));
    }
    for (number, a) in statuses.iter().enumerate() {
        for b in statuses.iter().skip(number + 1) {
            let comparable = a.revision == b.revision && a.state_hash.is_some() && b.state_hash.is_some();
            if comparable && a.state_hash != b.state_hash {
                return Err(Failure::refused(format!(
                    "nodes {} and {} hold different states at revision {:?}",
                    a.node_id, b.node_id, a.revision
                )));
            }
        }
    }
    Ok(())
}
