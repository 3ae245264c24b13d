//! `status`: the account that each node gives of itself, side by side.

use super::{Failure, advice, http, output, output::Format, target::Target};
use crate::admin::api::{MemberView, StatusView};
use crate::config::{HTTP_PORT_DISTANCE, PEER_PORT_DISTANCE};
use futures_util::future::join_all;
use hyper::Method;
use serde::Serialize;
use std::time::Duration;

/// One line: clap breaks it where the terminal ends.
const ABOUT_MEMBERS: &str = "\
    With one address the command learns the other members from that node and shows them as well. It looks for a member at \
    the ports that follow from its peer address (RocketMQ port: 100 less, HTTP port: 100 more); if the ports of the cluster \
    are others, name all nodes with --addr. The command fails when an address that was named gives no answer, when no node \
    knows a leader, or when the tables of two nodes differ.";

/// Flags of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT_MEMBERS)]
pub(crate) struct Args {
    /// Have each node hash its tables, and compare the hashes of nodes at the same revision
    #[arg(long)]
    hash: bool,
    #[command(flatten)]
    target: Target,
}

/// What one node answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeReport {
    /// RocketMQ address.
    address: String,
    /// Whether the command line names the address; otherwise it follows from the list of members.
    #[serde(skip)]
    named: bool,
    /// The id of a member that gave no answer; `status` has that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<u64>,
    #[serde(flatten)]
    status: Option<StatusView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What each node is asked.
#[derive(Clone, Copy)]
struct Question {
    path: &'static str,
    timeout: Duration,
}

/// Asks each address, and each further member when there is one address.
///
/// # Errors
/// A named address gives no answer, no node knows a leader, or the tables of two nodes differ at one revision.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let path = if args.hash { "/api/v1/status?hash=true" } else { "/api/v1/status" };
    let question = Question { path, timeout: args.target.timeout() };
    let mut reports = join_all(args.target.addresses().iter().map(|address| question.ask(address))).await;
    if let [NodeReport { status: Some(status), .. }] = &reports[..] {
        let others = status.members.iter().filter(|member| member.id != status.node_id);
        let others = join_all(others.map(|member| question.ask_member(member, status))).await;
        reports.extend(others);
    }
    match args.target.format() {
        Format::Json => output::json(&reports)?,
        Format::Text => print(&reports)?,
    }
    check(&reports)
}

impl Question {
    async fn ask(self, address: &str) -> NodeReport {
        let answer = http::api(address, Method::GET, self.path, String::new(), self.timeout).await;
        let (status, error) = match answer {
            Ok(status) => (Some(status), None),
            Err(failure) => (None, Some(failure.message)),
        };
        NodeReport { address: address.to_owned(), named: true, node_id: None, status, error }
    }

    /// Asks a member of `asked`'s cluster.
    async fn ask_member(self, member: &MemberView, asked: &StatusView) -> NodeReport {
        let Some((address, http)) = addresses_of(&member.address) else {
            let error = format!("its address is unknown (peer address {})", member.address);
            return NodeReport::without_answer(member.address.clone(), member.id, error);
        };
        let answer = http::api_at(&http, Method::GET, self.path, String::new(), self.timeout).await;
        match answer {
            // Another cluster, or a port that this member does not have.
            Ok(StatusView { node_id, cluster_id, .. })
                if node_id != member.id || cluster_id != asked.cluster_id =>
            {
                let error =
                    format!("{http} is not this member but node {node_id}; name the nodes with --addr");
                NodeReport::without_answer(address, member.id, error)
            }
            Ok(status) => {
                NodeReport { address, named: false, node_id: None, status: Some(status), error: None }
            }
            Err(failure) => NodeReport::without_answer(address, member.id, failure.message),
        }
    }
}

/// The RocketMQ and the HTTP address of a member with the default distances between its ports.
fn addresses_of(peer: &str) -> Option<(String, String)> {
    let (host, port) = peer.rsplit_once(':')?;
    let client = port.parse::<u16>().ok()?.checked_sub(PEER_PORT_DISTANCE)?;
    let http = client.checked_add(HTTP_PORT_DISTANCE)?;
    Some((format!("{host}:{client}"), format!("{host}:{http}")))
}

impl NodeReport {
    fn without_answer(address: String, node_id: u64, error: String) -> Self {
        Self { address, named: false, node_id: Some(node_id), status: None, error: Some(error) }
    }

    fn row(&self) -> [String; 7] {
        let Some(s) = &self.status else {
            let [term, leader, revision, ready] = ["-"; 4].map(str::to_owned);
            let role = "no answer".to_owned();
            return [self.address.clone(), optional(self.node_id), role, term, leader, revision, ready];
        };
        let role = if s.leading { "leader" } else { s.role.as_str() };
        let ready = match (s.ready, s.stale) {
            (true, false) => "yes".to_owned(),
            (true, true) => "yes, without a leader".to_owned(),
            (false, _) => format!("no: {}", s.not_ready_because),
        };
        [
            self.address.clone(),
            s.node_id.to_string(),
            role.to_owned(),
            s.term.to_string(),
            optional(s.leader),
            optional(s.revision),
            ready,
        ]
    }

    /// What does not fit into the table.
    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.error.iter().cloned().collect();
        let Some(status) = &self.status else { return remarks };
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
}

fn print(reports: &[NodeReport]) -> Result<(), Failure> {
    let header = ["ADDRESS", "NODE", "ROLE", "TERM", "LEADER", "REVISION", "READY"];
    output::table(header, reports.iter().map(NodeReport::row).collect())?;
    for report in reports {
        for remark in report.remarks() {
            output::line(&format!("{}: {remark}", report.address))?;
        }
    }
    Ok(())
}

fn optional(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |n| n.to_string())
}

fn differed(status: &StatusView) -> String {
    let others: Vec<String> = status.diverged_from.iter().map(ToString::to_string).collect();
    format!("the tables of node {} differed from those of node {}", status.node_id, others.join(", "))
}

fn check(reports: &[NodeReport]) -> Result<(), Failure> {
    let unanswered = reports.iter().filter(|report| report.named && report.status.is_none());
    let unanswered: Vec<&str> = unanswered.map(|report| report.address.as_str()).collect();
    if !unanswered.is_empty() {
        let failure = Failure::refused(format!("no answer from {}", unanswered.join(", ")));
        return Err(failure.with(Some(advice::IS_IT_RUNNING)));
    }
    let statuses: Vec<&StatusView> = reports.iter().filter_map(|r| r.status.as_ref()).collect();
    if statuses.iter().all(|s| s.leader.is_none()) {
        let failure = Failure::refused("no node knows a leader".to_owned());
        // A node that waits for its cluster has never had a leader, and its remark says what it waits for.
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
        NodeReport { address: "a:1".into(), named: true, node_id: None, status: Some(status), error: None }
    }

    #[test]
    fn tables_that_differed_are_said_and_a_failure() {
        assert!(report(&[]).remarks().is_empty());
        assert!(check(&[report(&[])]).is_ok());
        let said = "the tables of node 1 differed from those of node 2, 3";
        assert_eq!(report(&[2, 3]).remarks(), [said]);
        assert_eq!(check(&[report(&[2, 3])]).unwrap_err().message, said);
    }

    #[test]
    fn a_member_without_an_answer_is_shown_and_only_a_named_one_is_a_failure() {
        let member = NodeReport::without_answer("b:9876".into(), 2, "refused".into());
        assert_eq!(member.row(), ["b:9876", "2", "no answer", "-", "-", "-", "-"]);
        assert_eq!(member.remarks(), ["refused"]);
        let shown = serde_json::to_value(&member).unwrap();
        assert_eq!(shown, json!({"address": "b:9876", "nodeId": 2, "error": "refused"}));
        assert!(check(&[report(&[]), member]).is_ok());
        let named = NodeReport { named: true, ..NodeReport::without_answer("b:9876".into(), 2, "x".into()) };
        assert_eq!(check(&[report(&[]), named]).unwrap_err().message, "no answer from b:9876");
    }

    #[test]
    fn the_ports_of_a_member_follow_from_its_peer_port() {
        let found = addresses_of("ns-2.example:9976").unwrap();
        assert_eq!(found, ("ns-2.example:9876".to_owned(), "ns-2.example:10076".to_owned()));
        assert_eq!(addresses_of("[::1]:9976").unwrap().0, "[::1]:9876");
        assert!(addresses_of("a:99").is_none() && addresses_of("a").is_none());
        assert!(addresses_of("a:65500").is_none(), "no such HTTP port");
    }
}
