//! `members`: the members of the Raft group, and changes of one member at a time.

use super::{Failure, advice, http, output, output::Format, target::Target};
use crate::admin::api::{MemberChangeRequest, MemberView, StatusView};
use crate::config::{parse_member, parse_node_id};
use clap::Subcommand;
use hyper::Method;
use indicatif::ProgressBar;
use raft::{Member, NodeId};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A learner has to catch up, and a change of voters takes two log entries.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// Flags of `members`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show all members
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Add a waiting node as a learner: it follows and serves look-ups, but does not vote
    Add {
        /// NEW_ID=HOST:PEERPORT, an id that was never used before
        #[arg(value_parser = parse_member)]
        member: Member,
        #[command(flatten)]
        target: Target,
    },
    /// Make a learner that has caught up a voter
    Promote {
        /// Id of the learner
        #[arg(value_parser = parse_node_id)]
        id: NodeId,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a member; its id is never used again (not the leader: transfer first)
    Remove {
        /// Id of the member
        #[arg(value_parser = parse_node_id)]
        id: NodeId,
        #[command(flatten)]
        target: Target,
    },
    /// Add a node, make it a voter once it has caught up, and remove the dead one
    Replace {
        /// Id of the dead node
        #[arg(value_parser = parse_node_id)]
        old: NodeId,
        /// NEW_ID=HOST:PEERPORT, an id that was never used before
        #[arg(value_parser = parse_member)]
        member: Member,
        #[command(flatten)]
        target: Target,
    },
}

/// Shows or changes the members.
///
/// # Errors
/// No node answers, or the change is refused.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let (change, target) = match &args.action {
        Action::List { target } => return list(target).await,
        Action::Add { member, target } => {
            (MemberChangeRequest::Add { id: member.id, address: member.address.clone() }, target)
        }
        Action::Promote { id, target } => (MemberChangeRequest::Promote { id: *id }, target),
        Action::Remove { id, target } => (MemberChangeRequest::Remove { id: *id }, target),
        Action::Replace { old, member, target } => {
            let (id, address) = (member.id, member.address.clone());
            (MemberChangeRequest::Replace { old: *old, id, address }, target)
        }
    };
    let body = serde_json::to_string(&change).map_err(|e| Failure::refused(e.to_string()))?;
    let progress = ProgressBar::new_spinner().with_message("changing the members");
    progress.enable_steady_tick(Duration::from_millis(250));
    let changed = request(body, target).await;
    progress.finish_and_clear();
    print(&changed?, target)
}

/// Sends a change to a node that answers: any node forwards it to the leader.
async fn request(body: String, target: &Target) -> Result<Vec<MemberView>, Failure> {
    let limit = target.timeout_or(CHANGE_TIMEOUT);
    let deadline = Instant::now() + limit;
    let (address, _) = reach(target).await?;
    let changed = http::api(address, Method::POST, "/api/v1/members", body, limit);
    timeout_at(deadline, changed).await.unwrap_or_else(|_| {
        Err(Failure::refused(format!(
            "{address}: no answer in {} ms; the change may have happened, `raft-namesrv members list` shows it",
            limit.as_millis()
        )))
    })
}

/// A node that answers, with its status. All are asked side by side, so that one that hangs holds nothing up.
async fn reach(target: &Target) -> Result<(&str, StatusView), Failure> {
    let limit = target.timeout();
    let asked = target
        .any(async |address| http::api(address, Method::GET, "/api/v1/status", String::new(), limit).await);
    timeout(limit, asked).await.unwrap_or_else(|_| {
        let addresses = target.addresses().join(", ");
        let failure = Failure::refused(format!("no answer from {addresses} in {} ms", limit.as_millis()));
        Err(failure.with(Some(advice::IS_IT_RUNNING)))
    })
}

async fn list(target: &Target) -> Result<(), Failure> {
    let (_, status) = reach(target).await?;
    print(&status.members, target)
}

fn print(members: &[MemberView], target: &Target) -> Result<(), Failure> {
    if target.format() == Format::Json {
        return Ok(output::json(&members)?);
    }
    let rows = members.iter().map(|m| {
        let role = if m.voter { "voter" } else { "learner" };
        let reachable = if m.reachable { "yes" } else { "no" };
        let matched = m.matched_index.map_or_else(|| "-".to_owned(), |index| index.to_string());
        [m.id.to_string(), m.address.clone(), role.to_owned(), reachable.to_owned(), matched]
    });
    Ok(output::table(["NODE", "PEER ADDRESS", "ROLE", "REACHABLE", "MATCHED"], rows.collect())?)
}
