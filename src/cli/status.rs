//! `status`: each node's own account, side by side.

use super::{Failure, advice, http, output, output::Format, target::Target};
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

/// Asks each address. Fails when a node does not answer, none leads, or the states of two nodes differ or differed at one
/// revision.
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
        for remark in remarks(report) {
            output::line(&format!("{}: {remark}", report.address))?;
        }
    }
    Ok(())
}

fn optional(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |n| n.to_string())
}

/// What does not fit into the table.
fn remarks(report: &NodeReport) -> Vec<String> {
    let mut remarks: Vec<String> = report.error.iter().cloned().collect();
    let Some(status) = &report.status else { return remarks };
    if !status.alert.is_empty() {
        remarks.push(status.alert.clone());
    }
    if !status.diverged_from.is_empty() {
        remarks.push(differed(status));
    }
    if let Some(hash) = &status.state_hash {
        remarks.push(format!("state {hash} at revision {}", optional(status.revision)));
    }
    remarks
}

fn differed(status: &StatusView) -> String {
    let others: Vec<String> = status.diverged_from.iter().map(ToString::to_string).collect();
    format!("the tables of node {} differed from those of node {}", status.node_id, others.join(", "))
}

fn judge(reports: &[NodeReport]) -> Result<(), Failure> {
    let silent: Vec<&str> =
        reports.iter().filter(|r| r.status.is_none()).map(|r| r.address.as_str()).collect();
    if !silent.is_empty() {
        let failure = Failure::refused(format!("no answer from {}", silent.join(", ")));
        return Err(failure.with(Some(advice::IS_IT_RUNNING)));
    }
    let statuses: Vec<&StatusView> = reports.iter().filter_map(|r| r.status.as_ref()).collect();
    if statuses.iter().all(|s| s.leader.is_none()) {
        let failure = Failure::refused("no node knows a leader".to_owned());
        // Those that wait to be born or taken in have never had one, and say what they wait for.
        let had_one = statuses.iter().any(|s| s.role != "waiting");
        return Err(failure.with(had_one.then_some(advice::NO_LEADER)));
    }
    if let Some(diverged) = statuses.iter().find(|s| !s.diverged_from.is_empty()) {
        return Err(Failure::refused(differed(diverged)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(diverged_from: &[u64]) -> NodeReport {
        let status = json!({
            "version": "0", "nodeId": 1, "clusterId": null, "directoryId": "1", "role": "voter", "ready": true,
            "notReadyBecause": "", "stale": false, "term": 1, "leader": 1, "leading": true, "sinceLeaderMs": 0,
            "revision": 1, "lastIndex": 1, "committedIndex": 1, "purgedIndex": null, "snapshotIndex": null,
            "logBytes": 1, "counts": {"topics": 0, "brokers": 0, "brokerNames": 0, "clusters": 0}, "members": [],
            "divergedFrom": diverged_from, "alert": "",
        });
        let status = serde_json::from_value(status).unwrap();
        NodeReport { address: "a:1".into(), status: Some(status), error: None }
    }

    #[test]
    fn tables_that_differed_are_said_and_a_failure() {
        assert!(remarks(&report(&[])).is_empty());
        assert!(judge(&[report(&[])]).is_ok());
        let said = "the tables of node 1 differed from those of node 2, 3";
        assert_eq!(remarks(&report(&[2, 3])), [said]);
        assert_eq!(judge(&[report(&[2, 3])]).unwrap_err().message, said);
    }
}
