use super::*;
use raft::{Lag, LeaderState, Member, MemberStatus, TickLateness};
use storage::LogId;

fn status(phase: Phase, leader: Option<u64>, voter: bool) -> Status {
    let member = Member { id: 1, address: "127.0.0.1:1".into() };
    Status {
        node_id: 1,
        cluster_id: Some(1),
        directory_id: 1,
        phase,
        leadership: LeaderState { term: 1, leader, leading: false },
        since_leader_contact: leader.map(|_| Duration::ZERO),
        members: vec![MemberStatus { member, voter, reachable: true, matched: None }],
        last: None,
        committed: None,
        applied: Some(LogId { term: 1, index: 1 }),
        lag: Lag::default(),
        purged: None,
        snapshot: None,
        log_bytes: 0,
        state_hash: None,
        diverged: Vec::new(),
        tick_lateness: TickLateness::default(),
        alerts: String::new(),
    }
}

const LONG: Duration = Duration::from_secs(31);

#[test]
fn only_a_recovered_member_answers_at_once() {
    let options = ReadinessOptions::default();
    for phase in [Phase::Waiting, Phase::Recovering, Phase::Removed, Phase::Stopping] {
        assert_eq!(decide(&status(phase, Some(2), true), LONG, &options), Ready::No, "{phase:?}");
    }
    assert_eq!(decide(&status(Phase::Recovered, Some(2), true), LONG, &options), Ready::Yes);
}

#[test]
fn a_voter_without_a_leader_waits_and_then_serves_its_committed_state() {
    let options = ReadinessOptions::default();
    let recovering = status(Phase::Recovering, None, true);
    assert_eq!(decide(&recovering, Duration::from_secs(29), &options), Ready::No);
    assert_eq!(decide(&recovering, LONG, &options), Ready::Stale);
    let learner = status(Phase::Recovering, None, false);
    assert_eq!(
        decide(&learner, LONG, &options),
        Ready::No,
        "a joining node has no committed state of its own"
    );
    let empty = Status { applied: None, ..recovering.clone() };
    assert_eq!(decide(&empty, LONG, &options), Ready::No);
    let never = ReadinessOptions { recovery_wait: None, ..options };
    assert_eq!(decide(&recovering, LONG, &never), Ready::No);
}

#[test]
fn a_node_that_hears_its_leader_and_does_not_keep_up_is_behind() {
    let options = ReadinessOptions::default();
    let mut behind = status(Phase::Recovered, Some(2), true);
    behind.lag = Lag { entries: 1, age: Duration::from_secs(2), ..Lag::default() };
    assert_eq!(decide(&behind, Duration::ZERO, &options), Ready::Yes, "for a moment");
    behind.lag = Lag { age: Duration::from_secs(60), is_behind: true, ..behind.lag };
    assert_eq!(decide(&behind, Duration::ZERO, &options), Ready::Behind);
    let bounded = ReadinessOptions { staleness_max: Some(Duration::from_secs(59)), ..options.clone() };
    assert_eq!(decide(&behind, Duration::ZERO, &bounded), Ready::No);
    let mut full = status(Phase::Recovered, Some(2), true);
    full.lag.disk_full = true;
    assert_eq!(decide(&full, Duration::ZERO, &options), Ready::Behind);
    full.leadership.leader = None;
    assert_eq!(decide(&full, Duration::ZERO, &options), Ready::Behind, "another node may know more");
}

#[test]
fn a_running_node_goes_on_without_a_leader_up_to_the_staleness_that_was_set() {
    let mut lost = status(Phase::Recovered, None, true);
    lost.since_leader_contact = Some(Duration::from_secs(60));
    assert_eq!(decide(&lost, Duration::ZERO, &ReadinessOptions::default()), Ready::Stale);
    let bounded =
        ReadinessOptions { staleness_max: Some(Duration::from_secs(59)), ..ReadinessOptions::default() };
    assert_eq!(decide(&lost, Duration::ZERO, &bounded), Ready::No);
    lost.since_leader_contact = Some(Duration::from_secs(58));
    assert_eq!(decide(&lost, Duration::ZERO, &bounded), Ready::Stale);
}
