//! One node: bootstraps at once, carries commands out, keeps everything over a restart.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::{Phase, ProposeError, SnapshotPolicy};
use std::time::Duration;
use storage::command::{Cause, Origin, Registration, Removal, RemoveBrokers};
use storage::{Change, Command, Outcome};
use tokio::time::Instant;

#[tokio::test]
async fn a_command_is_carried_out_and_published() {
    let cluster = Cluster::started(1, |_| ()).await;
    let node = cluster.node(1);
    let mut entries = node.entries();
    let done = node.propose(put("k", "v"), in_secs(5)).await.unwrap();
    assert_eq!(done.outcome, Outcome::Done { changed: true });
    assert_eq!(node.table().kv("test", "k").map(|v| &**v), Some("v"));
    let entry = entries.recv().await.unwrap();
    assert_eq!(entry.id.index, done.position.index);
    assert!(!entry.replay);
    assert_eq!(node.is_leader_with_lease(), Some(node.leadership().borrow().term));
    assert_eq!(node.read_barrier(in_secs(5)).await.unwrap(), done.position.index);
    assert_eq!(node.status().phase, Phase::Recovered);
    assert_eq!(node.status().alerts, "");

    // The same again changes nothing, so nothing is written.
    let last = node.status().last;
    let again = node.propose(put("k", "v"), in_secs(5)).await.unwrap();
    assert_eq!(again.outcome, Outcome::Done { changed: false });
    assert_eq!(node.status().last, last);
    cluster.stop().await;
}

#[tokio::test]
async fn equal_commands_in_flight_share_an_entry() {
    let cluster = Cluster::started(1, |_| ()).await;
    let node = cluster.node(1);
    let before = node.status().last.unwrap().index;
    let many = (0..300).map(|i| node.propose(put(&format!("k{}", i % 3), "v"), in_secs(5)));
    for done in futures_util::future::join_all(many).await {
        done.unwrap();
    }
    let entries = node.status().last.unwrap().index - before;
    assert!(entries <= 6, "{entries} entries for three different commands");
    cluster.stop().await;
}

/// Until commands that are proposed at the same time are in one entry.
const TRIES: usize = 50;

/// The table's entry of a broker does not count while its removal is in flight.
#[tokio::test]
async fn a_registration_behind_a_removal_is_not_lost() {
    let cluster = Cluster::started(1, |_| ()).await;
    let node = cluster.node(1);
    let known = || node.table().groups().len() == 1;
    node.propose(register("a:1"), in_secs(5)).await.unwrap();
    assert!(known());

    // In one entry, as they are unless a pause comes between them; the registration changes nothing in the table of before.
    let mut together = false;
    for _ in 0..TRIES {
        let (removed, registered) =
            tokio::join!(node.propose(remove("a:1"), in_secs(5)), node.propose(register("a:1"), in_secs(5)));
        let (removed, registered) = (removed.unwrap(), registered.unwrap());
        together = removed.position.index == registered.position.index
            && removed.outcome == Outcome::Removed { count: 1 }
            && registered.outcome == Outcome::Done { changed: true };
        if together {
            break;
        }
        node.propose(register("a:1"), in_secs(5)).await.unwrap();
    }
    assert!(together && known());

    // The same registration on both sides of a removal: the second does not share the first one's outcome.
    let mut shared = false;
    for _ in 0..TRIES {
        node.propose(remove("a:1"), in_secs(5)).await.unwrap();
        let (first, _, second) = tokio::join!(
            node.propose(register("a:1"), in_secs(5)),
            node.propose(remove("a:2"), in_secs(5)),
            node.propose(register("a:1"), in_secs(5))
        );
        shared = first.unwrap() == second.unwrap();
        if shared {
            break;
        }
    }
    assert!(shared, "the removal of another broker does not matter");
    assert!(known());
    cluster.stop().await;
}

fn register(address: &str) -> Command {
    let registration = Registration::of_master("c".into(), "b".into(), address.into());
    Command { origin: Origin::default(), change: Change::RegisterBroker(Box::new(registration)) }
}

fn remove(address: &str) -> Command {
    let removal = Removal {
        cluster: "c".into(),
        broker: "b".into(),
        address: address.into(),
        incarnation: None,
        cause: Cause::Asked,
    };
    let removals = RemoveBrokers { brokers: vec![removal], decided_in_term: None };
    Command { origin: Origin::default(), change: Change::RemoveBrokers(removals) }
}

#[tokio::test]
async fn a_restart_keeps_everything_and_needs_no_command() {
    let mut cluster = Cluster::started(1, |o| o.initial_commands = vec![put("initial", "yes")]).await;
    eventually("the first commands", || cluster.node(1).table().kv("test", "initial").is_some()).await;
    for i in 0..20 {
        cluster.node(1).propose(put(&format!("k{i}"), "v"), in_secs(5)).await.unwrap();
    }
    let hash = cluster.node(1).table().state_hash();
    let cluster_id = cluster.node(1).status().cluster_id;
    cluster.kill(1);
    cluster.start(1).await;
    cluster.leader().await;
    eventually("recovered", || cluster.node(1).status().phase == Phase::Recovered).await;
    assert_eq!(cluster.node(1).table().state_hash(), hash);
    assert_eq!(cluster.node(1).status().cluster_id, cluster_id);
    cluster.stop().await;
}

/// No snapshot is due.
const NEVER: SnapshotPolicy =
    SnapshotPolicy { log_bytes: u64::MAX, entries: u64::MAX, age: Duration::MAX, log_bytes_max: u64::MAX };

#[tokio::test]
async fn a_snapshot_is_made_after_so_many_bytes() {
    let policy = SnapshotPolicy { log_bytes: 10_000, ..NEVER };
    let cluster = Cluster::started(1, |o| o.snapshots = policy).await;
    let node = cluster.node(1);
    let put_kilobytes = async |keys: std::ops::Range<u64>| {
        for key in keys {
            node.propose(put(&key.to_string(), &"x".repeat(1000)), in_secs(5)).await.unwrap();
        }
    };
    let mut newest = None;
    for round in 0..3 {
        put_kilobytes(round * 20..round * 20 + 8).await;
        // Looked at several times a second. That nothing happens cannot be awaited.
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(node.status().snapshot, newest, "before its time");
        put_kilobytes(round * 20 + 8..round * 20 + 11).await;
        eventually("there is a new snapshot", || node.status().snapshot > newest).await;
        newest = node.status().snapshot;
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_snapshot_is_made_after_some_time_if_there_is_something_new() {
    let age = Duration::from_secs(1);
    let begun = Instant::now();
    let cluster = Cluster::started(1, |o| o.snapshots = SnapshotPolicy { age, ..NEVER }).await;
    let node = cluster.node(1);
    node.propose(put("k", "1"), in_secs(5)).await.unwrap();
    eventually("there is a snapshot", || node.status().snapshot.is_some()).await;
    assert!(begun.elapsed() >= age, "before its time");
    let first = node.status().snapshot;
    let made = Instant::now();
    assert_eq!(first, node.status().applied);
    // Long past its time, and nothing new.
    tokio::time::sleep(2 * age).await;
    assert_eq!(node.status().snapshot, first);
    node.propose(put("k", "2"), in_secs(5)).await.unwrap();
    eventually("there is a new snapshot", || node.status().snapshot > first).await;
    assert!(made.elapsed() >= age);
    cluster.stop().await;
}

#[tokio::test]
async fn impossible_commands_are_refused() {
    let cluster = Cluster::started(1, |_| ()).await;
    let node = cluster.node(1);
    let term = node.leadership().borrow().term;
    let other_term = node.propose_in_term(term + 1, put("k", "v"), in_secs(5)).await;
    assert!(matches!(other_term, Err(ProposeError::Refused(_))), "{other_term:?}");
    node.propose_in_term(term, put("k", "v"), in_secs(5)).await.unwrap();
    let too_large = node.propose(put("k", &"x".repeat(25 << 20)), in_secs(5)).await;
    assert!(matches!(too_large, Err(ProposeError::Refused(_))), "{too_large:?}");
    let late = node.propose(put("k", "late"), tokio::time::Instant::now()).await;
    assert!(matches!(late, Err(ProposeError::Refused(_))), "{late:?}");
    let node = node.clone();
    cluster.stop().await;
    let stopped = node.propose(put("k", "w"), in_secs(5)).await;
    assert!(matches!(stopped, Err(ProposeError::Refused(_))), "{stopped:?}");
    assert_eq!(node.status().phase, Phase::Stopping);
}
