//! What the leader answers, how a new one begins, and which reports it takes: one rule per test.

use super::super::leader::Leader;
use super::super::messages::{
    FullReport, LeaderAnswer, Message, Reply, Report, ReportAnswer, SessionReport, TableStatus,
};
use super::super::tracker::Tracker;
use super::super::{ClosedBy, LivenessOptions, RegistrationStatus, SessionId, SessionsFull, Strength};
use super::brokers::{assert_about, registered};
use super::world::{NODES, Proposals, STEP, World};
use super::{key, ms, secs};
use raft::NodeId;
use std::time::Duration;
use tokio::sync::oneshot::Receiver;

// Registration status.

/// A REGISTER of a broker asks for its status.
fn confirm(
    world: &mut World,
    node: NodeId,
    broker: usize,
) -> Result<RegistrationStatus, Receiver<RegistrationStatus>> {
    world.with_leader(node, |tracker, now, leader| tracker.confirm(now, &key(broker), leader))
}

/// The leader's answer, which must be there with the next step.
fn confirmed(world: &mut World, node: NodeId, broker: usize) -> RegistrationStatus {
    confirm(world, node, broker).unwrap_or_else(|mut answer| {
        world.run(STEP);
        answer.try_recv().unwrap()
    })
}

/// The status of broker 0.
fn status(world: &World) -> RegistrationStatus {
    let incarnation = world.table.live(&key(0)).unwrap().incarnation;
    RegistrationStatus::Registered { term: world.term, incarnation, applied: world.last_index() }
}

#[test]
fn every_node_gets_the_leaders_registration_status_at_once() {
    for node in NODES {
        let mut world = registered(secs(120), &[node]);
        assert_eq!(confirmed(&mut world, node, 0), status(&world));
        world.heartbeat(1, node, Strength::Weak).unwrap();
        assert_eq!(confirmed(&mut world, node, 1), RegistrationStatus::NotRegistered);
        let not_registered = |world: &mut World, broker| {
            world.with_leader(node, |tracker, _, leader| tracker.is_not_registered(&key(broker), leader))
        };
        assert_eq!([0, 1].map(|broker| not_registered(&mut world, broker)), [false, true]);
    }
}

#[test]
fn a_request_waits_while_the_removal_of_its_broker_is_proposed() {
    for node in NODES {
        let mut world = registered(secs(10), &[node]);
        world.proposals = Proposals::Pending;
        world.hang(0);
        world.run(secs(11));
        world.heartbeat(0, node, Strength::Strong).unwrap();
        let mut answer = confirm(&mut world, node, 0).unwrap_err();
        world.run(secs(2));
        assert!(answer.try_recv().is_err(), "the removal may be applied after the answer");
        let batch = world.pending.remove(0);
        world.carry_out(&batch);
        world.run(ms(250));
        assert_eq!(answer.try_recv(), Ok(RegistrationStatus::NotRegistered));
    }
}

#[test]
fn an_answer_of_an_older_term_confirms_nothing() {
    let mut world = registered(secs(120), &[2]);
    let mut answer = confirm(&mut world, 2, 0).unwrap_err();
    let former = {
        let now = world.now;
        let report = world.tracker(2).poll(now, 1).unwrap();
        world.with_leader(1, |tracker, now, leader| tracker.receive(now, 2, report, leader))
    };
    let term = world.term;
    world.elect(3);
    let now = world.now;
    world.tracker(2).answered(now, 1, former);
    assert!(answer.try_recv().is_err(), "the former leader's");
    world.tracker(2).poll(now, 3).unwrap();
    let incarnation = world.table.live(&key(0)).unwrap().incarnation;
    let statuses = vec![(key(0), TableStatus::Registered(incarnation))];
    let leader = Some(LeaderAnswer { term, statuses, ..LeaderAnswer::default() });
    world.tracker(2).answered(now, 3, Reply::Report(ReportAnswer { accepted: true, leader }));
    assert!(answer.try_recv().is_err(), "one of an earlier term");
    world.run(ms(250));
    assert_eq!(answer.try_recv(), Ok(status(&world)));
}

#[test]
fn a_leader_without_a_quorum_lease_confirms_nothing() {
    for node in NODES {
        let mut world = registered(secs(120), &[node]);
        world.lease_lost = true;
        let mut answer = confirm(&mut world, node, 0).unwrap_err();
        world.run(secs(2));
        assert!(answer.try_recv().is_err());
        world.lease_lost = false;
        world.run(ms(250));
        assert_eq!(answer.try_recv(), Ok(status(&world)));
    }
}

// A new leader.

/// min(timeout, max(10 s, a quarter of the timeout)).
#[test]
fn a_new_leader_gives_each_lease_the_grace() {
    for (timeout, grace) in [(6, 6), (20, 10), (120, 30)] {
        let mut world = registered(secs(timeout), &NODES);
        world.hang(0);
        world.run(secs(timeout - 1));
        world.elect(2);
        assert_about(world.until_gone(0, secs(grace + 1)), secs(grace));
    }
}

#[test]
fn a_new_leader_decides_only_when_every_voter_has_reported_or_is_unreachable() {
    let mut world = registered(secs(20), &NODES);
    world.hang(0);
    world.run(secs(19));
    world.cut_off(3);
    world.elect(2);
    assert_about(world.until_gone(0, secs(12)), secs(1 + 10));

    for reports in [true, false] {
        let mut world = registered(secs(120), &[2, 3]);
        world.cut_off(3);
        world.close(0, 2, ClosedBy::Peer);
        world.elect(1);
        world.run(ms(900));
        assert_eq!(world.proposed, 0);
        if reports {
            world.cut.clear();
        }
        world.run(ms(400));
        assert_eq!(world.has(0), reports, "a session at a node that is unreachable does not hold it");
    }
}

/// The least that a node reports, departed brokers included.
#[test]
fn reported_idle_times_count_for_a_new_leader() {
    for closed in [false, true] {
        let mut world = registered(secs(120), &[2]);
        if closed {
            world.close(0, 2, ClosedBy::ThisNode);
        } else {
            world.hang(0);
        }
        world.run(secs(50));
        world.elect(3);
        world.run(secs(10));
        world.elect(1);
        assert_about(world.until_gone(0, secs(61)), secs(60));
    }
    for leader in NODES {
        let mut world = registered(secs(120), &[2, 3]);
        world.hang(0);
        world.run(secs(50));
        world.heartbeat(0, 3, Strength::Weak).unwrap();
        world.elect(leader);
        assert_about(world.until_gone(0, secs(121)), secs(120));
    }
}

#[test]
fn a_broker_that_no_node_reports_begins_at_zero() {
    let mut world = registered(secs(20), &[3]);
    world.hang(0);
    world.run(secs(15));
    world.kill(3);
    world.elect(2);
    assert_about(world.until_gone(0, secs(21)), secs(20));
}

// Reports.

/// The next report of node 2, as the leader would get it.
fn next_report(world: &mut World, after: Duration) -> Report {
    world.now += after;
    let now = world.now;
    match world.tracker(2).poll(now, 1).unwrap() {
        Message::Report(report) => report,
        other => panic!("{other:?}"),
    }
}

fn receive(world: &mut World, report: &Report) -> Reply {
    let message = Message::Report(report.clone());
    world.with_leader(1, |tracker, now, leader| tracker.receive(now, 2, message, leader))
}

const REFUSED: Reply = Reply::Report(ReportAnswer { accepted: false, leader: None });

#[test]
fn a_report_after_a_gap_is_refused_and_a_full_one_follows() {
    let mut world = registered(secs(120), &[2]);
    let report = next_report(&mut world, ms(200));
    assert!(matches!(report.sessions, SessionReport::Incremental(_)));
    let later = Report { sequence: report.sequence + 1, ..report.clone() };
    assert_eq!(receive(&mut world, &later), REFUSED);
    let now = world.now;
    assert_eq!(world.tracker(1).totals(now).counters.report_gaps, 1);
    world.tracker(2).answered(now, 1, REFUSED);
    let full = next_report(&mut world, ms(50));
    assert!(matches!(&full.sessions, SessionReport::Full(full) if full.sessions.len() == 1));
    assert_ne!(receive(&mut world, &full), REFUSED);
    assert_eq!(receive(&mut world, &report), REFUSED, "an older one");
}

/// It may not have read yet what waits in its sockets.
#[test]
fn a_node_that_was_unreachable_has_to_send_a_full_report() {
    let mut world = registered(secs(120), &[2]);
    let report = next_report(&mut world, ms(200));
    world.nodes.get_mut(&2).unwrap().paused = true;
    world.run(ms(1_200));
    assert_eq!(receive(&mut world, &report), REFUSED);
    let next = Report { sessions: SessionReport::Full(FullReport::default()), ..report };
    assert_ne!(receive(&mut world, &next), REFUSED);
}

/// Reports of two processes that began one after the other can arrive in the wrong order.
#[test]
fn a_late_report_of_a_former_process_is_refused_for_ten_seconds() {
    let mut world = registered(secs(120), &[2]);
    let report = next_report(&mut world, ms(200));
    let full = Report { sessions: SessionReport::Full(FullReport::default()), ..report };
    world.kill(2);
    world.start(2);
    world.run(secs(9));
    assert_eq!(receive(&mut world, &full), REFUSED);
    world.run(secs(2));
    assert_ne!(receive(&mut world, &full), REFUSED);
}

#[test]
fn a_node_that_was_removed_is_not_waited_for() {
    let mut world = registered(secs(120), &[1, 2]);
    world.nodes.get_mut(&3).unwrap().paused = true;
    let now = world.now;
    [1, 2].into_iter().for_each(|node| world.tracker(node).set_members(now, &[(1, true), (2, true)]));
    world.kill_broker(0);
    world.run(STEP);
    assert!(!world.has(0));
}

#[test]
fn the_leader_knows_the_idle_times_of_all_brokers() {
    let mut world = registered(secs(120), &[2]);
    world.register(1, secs(120), &[3]);
    world.hang(0);
    world.run(ms(10_200));
    for (node, leads) in [(1, true), (2, false)] {
        let ask = |tracker: &mut Tracker, now, leader: Option<&Leader<'_>>| {
            tracker.receive(now, 3, Message::IdleTimes, leader)
        };
        let Reply::IdleTimes(idle) = world.with_leader(node, ask) else {
            assert!(!leads);
            continue;
        };
        let idle: Vec<_> = idle.into_iter().map(|(broker, ms)| (broker, ms / 1_000)).collect();
        assert_eq!((leads, idle), (true, vec![(key(0), 10), (key(1), 0)]));
    }
}

#[test]
fn a_full_table_of_sessions_refuses_a_broker_and_keeps_nothing_of_it() {
    let mut world = World::with(LivenessOptions { sessions_max: 2, ..LivenessOptions::new(0) });
    for node in NODES {
        for broker in 0..2 {
            world.heartbeat(broker, node, Strength::Weak).unwrap();
        }
        assert_eq!(world.heartbeat(2, node, Strength::Strong), Err(SessionsFull));
        world.heartbeat(0, node, Strength::Strong).unwrap();
        let now = world.now;
        assert_eq!(world.tracker(node).totals(now).counters.sessions_refused, 1);
        assert_eq!(world.tracker(node).idle(now, &key(2)), None);
    }
    world.elect(1);
    let SessionReport::Full(full) = next_report(&mut world, STEP).sessions else { panic!("not full") };
    assert_eq!(full.sessions.len(), 2);
}

/// Each node reports what it gathers; nothing is proposed.
#[test]
fn heartbeats_of_a_thousand_brokers_are_a_few_reports_and_no_proposal() {
    const BROKERS: usize = 1_000;
    let mut world = World::new();
    (0..BROKERS).for_each(|broker| world.register(broker, secs(120), &NODES));
    world.run(secs(1));
    let reports = |world: &mut World| {
        let now = world.now;
        [2, 3].map(|node| world.tracker(node).totals(now).counters.reports_sent)
    };
    let (entries, bytes, before) = (world.last_index(), world.bytes_sent, reports(&mut world));
    world.run(secs(5));
    let sent = reports(&mut world);
    assert_eq!([sent[0] - before[0], sent[1] - before[1]], [25, 25], "one every 200 ms");
    assert_eq!((world.last_index(), world.proposed), (entries, 0));
    let per_heartbeat = (world.bytes_sent - bytes) / (5 * BROKERS * 2);
    assert!(per_heartbeat < 30, "{per_heartbeat} bytes of reports for a heartbeat at one node");
}

/// A leader never reports, and must not gather what it would report.
#[test]
fn connections_that_come_and_go_at_the_leader_leave_nothing_behind() {
    let mut world = World::new();
    for n in 0..200 {
        let (now, session) = (world.now, SessionId(1_000_000 + n));
        world.tracker(1).heartbeat(now, session, &key(1), Strength::Weak, None).unwrap();
        world.tracker(1).close(now, session, ClosedBy::ThisNode);
        world.run(STEP);
    }
    world.elect(2);
    let now = world.now;
    let Ok(Message::Report(report)) = world.tracker(1).poll(now, 2) else { panic!("no report") };
    assert!(report.heartbeats.len() <= 1, "{} times the same broker", report.heartbeats.len());
}
