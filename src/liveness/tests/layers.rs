//! Several layers guard against the same fault, so that a cluster shows nothing when one of them is missing. Here each
//! is alone.

use super::super::core::{Core, Leader};
use super::super::report::{Answer, Cause, Change, Content, Full, Report, Silences, Word, Words};
use super::super::{ClosedBy, Heard, Known, LivenessOptions, SessionId};
use super::rules::{registered, world};
use super::world::{NODES, ms};
use std::time::Duration;
use storage::Position;
use storage::command::DataVersion;
use storage::route_info::{BrokerKey, BrokerLiveInfo};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

const AT: Position = Position { index: 1, number: 0 };
const TIMEOUT: Duration = Duration::from_secs(10);

fn key() -> BrokerKey {
    BrokerKey { cluster: "c".into(), address: "a:1".into() }
}

/// Node 1 of three, with a broker in its table.
fn core(start: Instant) -> Core {
    let live = BrokerLiveInfo {
        broker: "b".into(),
        id: 0,
        data_version: DataVersion::default(),
        timeout_ms: u64::try_from(TIMEOUT.as_millis()).unwrap(),
        ha_address: None,
        incarnation: AT,
    };
    let mut core = Core::new(&LivenessOptions::new(1), 1, start);
    core.members(start, &NODES.map(|node| (node, true)));
    core.follow(start, &key(), Some(&live), true);
    core
}

/// A report that has nothing to tell.
fn report(process: u64, sequence: u64, content: Content) -> Report {
    Report { process, sequence, answering: None, content, heard: Vec::new() }
}

/// Everything, or that nothing has changed.
fn nothing(sequence: u64) -> Content {
    if sequence == 1 { Content::Full(Full::default()) } else { Content::Changes(Vec::new()) }
}

/// A report of node 2.
fn takes(core: &mut Core, now: Instant, sequence: u64) -> bool {
    core.receive(now, 2, report(2, sequence, nothing(sequence)), None).accepted
}

/// As the leader that it takes itself for.
fn removes(core: &mut Core, now: Instant) -> bool {
    let incarnation = |_: &BrokerKey| Some(AT);
    let leader = Leader { term: 1, applied: 1, incarnation: &incarnation };
    core.tick(now, Some(&leader));
    core.decide(now, &leader).removal.is_some()
}

/// Its lease keeps it from deciding too.
#[test]
fn without_a_majority_nobody_goes_and_with_one_everybody_has_a_full_timeout() {
    let start = Instant::now();
    let (mut core, mut now) = (core(start), start);
    while now < start + 2 * TIMEOUT {
        now += ms(100);
        assert!(!removes(&mut core, now), "after {:?}", now - start);
    }
    let regained = now + ms(100);
    for sequence in 1.. {
        now += ms(100);
        assert!(takes(&mut core, now, sequence));
        if removes(&mut core, now) {
            break;
        }
        assert!(now < regained + TIMEOUT, "not gone after its timeout");
    }
    assert_eq!(now - regained, TIMEOUT);
}

/// Who is told success would be gone a moment later.
#[test]
fn a_leader_gives_its_word_on_a_broker_that_it_removes_when_the_broker_is_gone() {
    let start = Instant::now();
    let (mut core, mut now) = (core(start), start);
    for sequence in 1.. {
        now += ms(100);
        assert!(takes(&mut core, now, sequence));
        if removes(&mut core, now) {
            break;
        }
    }
    let there = |_: &BrokerKey| Some(AT);
    let leader = Leader { term: 1, applied: 1, incarnation: &there };
    let mut told = core.confirm(now, &key(), Some(&leader)).unwrap_err();
    core.tick(now + ms(50), Some(&leader));
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    let gone = |_: &BrokerKey| None;
    core.follow(now + ms(100), &key(), None, true);
    core.tick(now + ms(100), Some(&Leader { term: 1, applied: 2, incarnation: &gone }));
    assert_eq!(told.try_recv(), Ok(Known::Unknown));
}

/// It may have been given before the broker left, and come late. An older leader gives none without a lease.
#[test]
fn a_word_of_an_older_term_does_not_count() {
    let start = Instant::now();
    let mut core = core(start);
    core.leadership(5, Some(2));
    core.heard(start, SessionId(1), &key(), Heard::Register, Some(AT));
    let mut told = core.confirm(start, &key(), None).unwrap_err();
    let answer = |term| Answer {
        accepted: true,
        leader: Some(Words { term, applied: 9, words: vec![Word::Known(AT)] }),
        silences: None,
    };
    assert_eq!(core.poll(start, 2).unwrap().heard, [(key(), 0)]);
    core.answered(start, 2, answer(4));
    assert_eq!((told.try_recv(), core.last_word(&key(), None)), (Err(TryRecvError::Empty), None));
    let asks = core.poll(start + ms(200), 2).unwrap().heard;
    assert!(
        matches!(&asks[..], [(broker, age_ms)] if *broker == key() && *age_ms > 3_600_000),
        "it asks again: {asks:?}"
    );
    core.answered(start + ms(200), 2, answer(5));
    let known = Known::Known { term: 5, incarnation: AT, applied: 9 };
    assert_eq!((told.try_recv(), core.last_word(&key(), None)), (Ok(known), Some(known)));
}

/// What a node heard last it could not tell any more. A node that comes back tells.
#[test]
fn brokers_of_a_node_that_is_lost_have_a_full_timeout_from_then_on() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &[3]);
    world.run(ms(8_500));
    world.cut.extend([(3, 1), (3, 2)]);
    world.beats(broker, 3);
    world.run(ms(100));
    world.kill_node(3);
    world.run(ms(9_500));
    assert!(world.has(1, broker));
    world.run(ms(2_000));
    assert!(!world.has(1, broker));
}

/// What waits in its sockets it may not have read yet; its full report says when it heard whom.
#[test]
fn a_node_that_was_away_has_to_tell_everything() {
    let start = Instant::now();
    let mut core = core(start);
    assert!(takes(&mut core, start, 1));
    let mut now = start;
    while now < start + ms(2_000) {
        now += ms(100);
        core.tick(now, None);
    }
    assert!(!takes(&mut core, now, 2));
    let full = report(2, 3, Content::Full(Full::default()));
    assert!(core.receive(now, 2, full, None).accepted && takes(&mut core, now, 4));
}

/// The sender sends all of it when a report got no answer, whether it arrived or not.
#[test]
fn a_report_behind_a_gap_is_not_taken() {
    let start = Instant::now();
    let mut core = core(start);
    assert!(takes(&mut core, start, 1));
    assert!(!takes(&mut core, start, 3));
    assert!(!takes(&mut core, start, 1));
    assert!(takes(&mut core, start, 2));
}

/// The leader before it heard them through that node.
#[test]
fn brokers_of_a_node_that_a_new_leader_is_cut_off_from_have_a_full_timeout() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &[3]);
    world.cut.extend([(2, 3), (3, 2)]);
    world.live_for(ms(30_000));
    assert!(world.has(2, broker));
    world.elect(2);
    world.run(ms(9_500));
    assert!(world.has(2, broker));
    world.run(ms(1_000));
    assert!(!world.has(2, broker));
}

/// Also when it is that node which led, for as long as nobody knows.
#[test]
fn brokers_of_a_former_leader_that_a_new_one_is_cut_off_from_have_a_full_timeout() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &[3]);
    world.elect(3);
    world.cut.extend([(2, 3), (3, 2)]);
    world.live_for(ms(30_000));
    assert!(world.has(2, broker));
    world.cut.extend([(1, 3), (3, 1)]);
    world.elect(2);
    world.run(ms(9_500));
    assert!(world.has(2, broker));
    world.run(ms(1_500));
    assert!(!world.has(2, broker));
}

/// It goes on reporting, and nobody asks it any more.
#[test]
fn a_removed_node_that_runs_on_is_not_waited_for() {
    let start = Instant::now();
    let mut core = core(start);
    let says = |node, sequence| report(node, sequence, nothing(sequence));
    for node in [2, 3] {
        assert!(core.receive(start, node, says(node, 1), None).accepted);
    }
    core.members(start, &[(1, true), (2, true)]);
    core.heard(start, SessionId(1), &key(), Heard::Register, Some(AT));
    core.closed(start, SessionId(1), ClosedBy::Peer);
    let incarnation = |_: &BrokerKey| Some(AT);
    let leader = Leader { term: 1, applied: 1, incarnation: &incarnation };
    let (ask, asked) = core.decide(start, &leader).ask.unwrap();
    assert_eq!(asked, [2]);
    let answers = Report { answering: Some(ask), ..says(2, 2) };
    for (node, report) in [(2, answers), (3, says(3, 2))] {
        assert!(core.receive(start, node, report, None).accepted);
    }
    assert!(removes(&mut core, start));
}

/// While it learns, it is told of nobody's words.
#[test]
fn a_node_that_gets_a_vote_asks_for_silences_again() {
    let start = Instant::now();
    let mut core = core(start);
    core.complete = true;
    core.members(start, &[(1, false), (2, true), (3, true)]);
    let silent = |process| Silences { process, brokers: vec![(key(), 9_000)] };
    for node in [2, 3] {
        core.poll(start, node).unwrap();
        core.answered(start, node, Answer { accepted: true, leader: None, silences: Some(silent(node)) });
    }
    let mut now = start;
    for sequence in 1..100 {
        now += ms(100);
        if sequence == 1 {
            core.members(now, &NODES.map(|node| (node, true)));
        }
        assert!(takes(&mut core, now, sequence));
        if sequence == 2 {
            let Some(Report { content: Content::Full(full), .. }) = core.poll(now, 3) else {
                panic!("no full report")
            };
            assert!(full.asks_silences);
        }
        assert!(!removes(&mut core, now), "after {:?}", now - start);
    }
}

/// Of two processes that began one after the other, the second one's report may come first.
#[test]
fn a_late_report_of_a_former_process_does_not_lock_its_successor_out() {
    let start = Instant::now();
    let mut core = core(start);
    let mut full = |now, process| {
        core.tick(now, None);
        core.receive(now, 2, report(process, 1, nothing(1)), None).accepted
    };
    assert!(full(start, 21) && full(start, 20), "which one is older does not show");
    let taken = (1..200).map(|n| start + n * ms(100)).find(|now| full(*now, 21)).unwrap();
    assert_eq!(taken - start, ms(10_000));
}

/// Voters send it nothing, so that it hears a majority shows in their answers.
#[test]
fn a_learner_that_was_cut_off_takes_no_broker_with_it() {
    let start = Instant::now();
    let mut core = core(start);
    core.members(start, &[(1, false), (2, true), (3, true)]);
    let mut now = start;
    let mut run = |core: &mut Core, tenths: u32, answered: bool| {
        for _ in 0..tenths {
            now += ms(100);
            for node in [2, 3] {
                if core.poll(now, node).is_some() && answered {
                    core.answered(now, node, Answer { accepted: true, leader: None, silences: None });
                } else {
                    core.failed(now, node);
                }
            }
            core.tick(now, None);
        }
        now
    };
    let ended_by_peer = |core: &mut Core, now, session| {
        let changes = core.sessions.closed(
            core.clock.advance(now),
            SessionId(session),
            ClosedBy::Peer,
            core.steady_from(),
        );
        matches!(changes[..], [Change { cause: Cause::EndedByPeer(_), .. }])
    };
    let now = run(&mut core, 20, true);
    for session in 1..=3 {
        core.heard(now, SessionId(session), &key(), Heard::Register, Some(AT));
    }
    assert!(ended_by_peer(&mut core, now, 1));
    let now = run(&mut core, 50, false);
    assert!(!ended_by_peer(&mut core, now, 2), "cut off");
    let now = run(&mut core, 50, true);
    assert!(!ended_by_peer(&mut core, now, 3), "back, and not heard since");
}
