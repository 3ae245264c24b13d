//! One rule per test, with explicit time.

use super::super::core::{Core, Leader, Left};
use super::super::{ClosedBy, LivenessOptions};
use super::world::{Moment, NODES, World, ms};
use std::time::Duration;
use storage::command::{Cause, DataVersion, Origin, Removal, RemoveBrokers};
use storage::route_info::{BrokerKey, BrokerLiveInfo};
use storage::{Change, Command, Position};
use tokio::time::Instant;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A running cluster, led by node 1, without faults.
pub(super) fn world() -> World {
    let mut world = World::new(1, false);
    world.run(secs(2));
    world
}

/// A broker registered over connections to these nodes.
pub(super) fn registered(world: &mut World, timeout_ms: i64, nodes: &[u64]) -> usize {
    let broker = world.broker(timeout_ms, nodes);
    world.registers_everywhere(broker);
    world.run(ms(500));
    assert_eq!(world.everywhere(broker), Some(true));
    broker
}

/// Runs until the broker is gone from all nodes. Gives how long that took.
fn until_gone(world: &mut World, broker: usize, at_most: Duration) -> Duration {
    let from = world.now;
    while world.everywhere(broker) != Some(false) {
        assert!(world.now - from < at_most, "not gone after {at_most:?}");
        world.run(ms(1));
    }
    world.now - from
}

#[test]
fn heartbeats_write_nothing_and_keep_a_broker() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &NODES);
    let entries = world.log.len();
    world.live_for(secs(600));
    assert_eq!(world.everywhere(broker), Some(true));
    assert_eq!((world.log.len(), world.proposals), (entries, 0));
    assert!(world.known_told > 150, "{} registrations were confirmed", world.known_told);
}

#[test]
fn a_killed_broker_is_gone_in_moments() {
    for nodes in [&NODES[..], &[1], &[2], &[2, 3], &[1, 3]] {
        let mut world = world();
        let broker = registered(&mut world, 120_000, nodes);
        world.live_for(secs(30));
        world.kill_broker(broker);
        let took = until_gone(&mut world, broker, secs(2));
        assert!(took < ms(50), "{took:?} with sessions at {nodes:?}");
        assert_eq!(world.removed[0].cause, Cause::Disconnected);
        assert_eq!(world.proposals, 1);
    }
}

#[test]
fn also_while_a_node_is_down() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &NODES);
    world.kill_node(3);
    world.live_for(secs(5));
    world.kill_broker(broker);
    world.run(ms(50));
    assert!(!world.has(1, broker) && !world.has(2, broker));
}

#[test]
fn a_weak_session_holds_a_broker_and_no_longer() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &[1]);
    world.beats(broker, 2);
    world.run(ms(200));
    world.closes(broker, 1, ClosedBy::Peer, ms(0));
    world.run(secs(5));
    assert_eq!(world.everywhere(broker), Some(true));
    world.beats(broker, 2);
    world.run(secs(1));
    world.closes(broker, 2, ClosedBy::Peer, ms(0));
    assert!(until_gone(&mut world, broker, secs(1)) < ms(50));
}

/// Closes are told at once and what opens a moment later, so the leader hears of them in the other order.
#[test]
fn a_weak_session_that_is_told_late_holds_a_broker_no_longer_either() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &[1]);
    world.beats(broker, 2);
    world.run(ms(3));
    world.closes(broker, 1, ClosedBy::Peer, ms(0));
    world.run(secs(1));
    assert_eq!(world.everywhere(broker), Some(true));
    world.closes(broker, 2, ClosedBy::Peer, ms(0));
    assert!(until_gone(&mut world, broker, secs(1)) < ms(50));
}

/// Nodes that follow no further session do not know when it ends, so it counts as open.
#[test]
fn a_connection_that_is_not_followed_holds_a_broker_until_its_timeout() {
    let mut world = World::with(1, LivenessOptions { session_pairs_max: 1, ..LivenessOptions::new(1) });
    world.run(secs(2));
    registered(&mut world, 600_000, &[2]);
    let broker = registered(&mut world, 20_000, &[1, 2]);
    world.closes(broker, 1, ClosedBy::Peer, ms(0));
    world.run(secs(5));
    assert_eq!(world.everywhere(broker), Some(true));
    world.kill_broker(broker);
    until_gone(&mut world, broker, secs(17));
    assert!(matches!(world.removed[0].cause, Cause::Expired { .. }), "{:?}", world.removed);
}

#[test]
fn a_session_that_appears_ends_the_mark() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &[1]);
    world.beats(broker, 2);
    world.run(ms(200));
    world.closes(broker, 1, ClosedBy::Peer, ms(0));
    world.run(ms(200));
    world.registers(broker, 3);
    world.run(ms(200));
    world.closes(broker, 2, ClosedBy::Peer, ms(0));
    world.closes(broker, 3, ClosedBy::Us, ms(5));
    world.run(secs(60));
    assert_eq!(world.everywhere(broker), Some(true));
}

#[test]
fn a_mark_does_not_outlive_a_close_that_we_start() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &[1]);
    world.beats(broker, 2);
    world.run(ms(200));
    world.closes(broker, 1, ClosedBy::Peer, ms(0));
    world.run(ms(300));
    world.closes(broker, 2, ClosedBy::Us, ms(0));
    world.run(secs(60));
    assert_eq!(world.everywhere(broker), Some(true));
}

#[test]
fn a_close_that_we_start_removes_nobody_before_the_timeout() {
    let mut world = world();
    let broker = registered(&mut world, 30_000, &NODES);
    NODES.into_iter().for_each(|node| world.closes(broker, node, ClosedBy::Us, ms(1)));
    world.run(secs(29));
    assert_eq!(world.everywhere(broker), Some(true));
    until_gone(&mut world, broker, secs(2));
    assert!(matches!(world.removed[0].cause, Cause::Expired { idle_ms: 30_000.. }));
}

#[test]
fn silence_removes_by_the_registrations_own_timeout() {
    let mut world = world();
    let short = registered(&mut world, 10_000, &NODES);
    let long = registered(&mut world, 120_000, &NODES);
    world.vanish(short);
    world.vanish(long);
    let took = until_gone(&mut world, short, secs(12));
    assert!(took > ms(8_900) && took < ms(10_200), "{took:?}");
    let took = took + until_gone(&mut world, long, secs(121));
    assert!(took > ms(119_000) && took < ms(120_200), "{took:?}");
}

#[test]
fn a_node_that_dies_does_not_take_its_brokers_with_it() {
    let mut world = world();
    let only_there = registered(&mut world, 20_000, &[3]);
    let moves = registered(&mut world, 20_000, &[3]);
    world.kill_node(3);
    world.run(secs(15));
    assert!(world.has(1, only_there) && world.has(1, moves));
    world.brokers[moves].nodes = vec![2];
    world.registers_everywhere(moves);
    world.run(secs(7));
    assert!(!world.has(1, only_there), "silent for its timeout");
    assert!(world.has(1, moves));
}

#[test]
fn a_mark_does_not_outlive_a_node_that_held_a_session() {
    let mut world = world();
    let broker = registered(&mut world, 20_000, &[2]);
    world.beats(broker, 3);
    world.run(ms(200));
    world.closes(broker, 2, ClosedBy::Peer, ms(0));
    world.run(ms(300));
    world.kill_node(3);
    world.run(secs(10));
    assert!(world.has(1, broker), "no session is left, but the last one was not ended by the peer");
    world.run(secs(12));
    assert!(!world.has(1, broker));
}

#[test]
fn a_broker_heard_only_by_a_node_that_is_cut_off_starts_anew() {
    let mut world = world();
    let broker = registered(&mut world, 12_000, &[3]);
    world.run(secs(9));
    world.cut.extend([(1, 3), (2, 3), (3, 1), (3, 2)]);
    for _ in 0..8 {
        world.beats(broker, 3);
        world.run(secs(1));
    }
    world.cut.clear();
    world.live_for(secs(30));
    assert_eq!(world.everywhere(broker), Some(true));
    assert!(world.removed.is_empty());
}

/// The kernel ends connections whose peer is out of reach, and after the cut it finds old words and old ends first.
#[test]
fn a_node_that_was_cut_off_takes_no_broker_with_it() {
    for (lone, cut) in [(true, 12), (true, 6), (false, 12), (false, 6)] {
        let mut world = world();
        let nodes: &[u64] = if lone { &[3] } else { &NODES };
        let brokers: Vec<_> = (0..3).map(|_| registered(&mut world, 40_000, nodes)).collect();
        world.live_for(secs(12));
        let apart = NODES.iter().flat_map(|a| NODES.map(|b| (*a, b))).filter(|(a, b)| a != b);
        world.cut.extend(apart.filter(|(a, b)| !lone || *a == 3 || *b == 3));
        world.run(secs(cut));
        if cut < 10 {
            world.cut.clear();
            world.run(secs(1));
            brokers.iter().for_each(|broker| world.beats_everywhere(*broker));
            world.run(ms(10));
        }
        for (broker, node) in brokers.iter().flat_map(|broker| nodes.iter().map(move |node| (*broker, *node)))
        {
            world.closes(broker, node, ClosedBy::Peer, ms(1));
        }
        world.run(ms(10));
        world.cut.clear();
        world.run(secs(5));
        assert!(world.removed.is_empty(), "lone {lone}, cut for {cut} s: {:?}", world.removed);
        world.live_for(secs(12));
        assert!(brokers.iter().all(|broker| world.everywhere(*broker) == Some(true)));
        world.kill_broker(brokers[0]);
        until_gone(&mut world, brokers[0], ms(500));
    }
}

/// What waited in its sockets is read before the connections that wait to be accepted.
#[test]
fn a_node_that_was_paused_does_not_take_an_old_end_for_the_last() {
    let mut world = world();
    let broker = registered(&mut world, 40_000, &[3]);
    world.live_for(secs(2));
    world.pause_node(3, secs(12));
    world.beats(broker, 3);
    world.run(secs(1));
    world.closes(broker, 3, ClosedBy::Peer, ms(1));
    world.run(ms(12_000));
    world.live_for(secs(5));
    assert!(world.removed.is_empty(), "{:?}", world.removed);
    world.kill_broker(broker);
    until_gone(&mut world, broker, ms(500));
}

/// Each restart takes some seconds, which are no silence; but none of them gives the broker its whole time again.
#[test]
fn leaders_killed_every_minute_do_not_keep_a_silent_broker() {
    for seed in 1..=20 {
        let mut world = World::new(seed, false);
        world.run(secs(2));
        let silent = registered(&mut world, 120_000, &NODES);
        let lives = registered(&mut world, 10_000, &NODES);
        world.live_for(secs(30));
        world.vanish(silent);
        let (from, mut kills) = (world.now, 0);
        while world.everywhere(silent) != Some(false) {
            world.live_for(secs(56));
            let Some(leader) = world.leader else { continue };
            world.kill_node(leader);
            kills += 1;
            world.live_for(secs(4));
            world.restart_node(leader);
            assert!(world.now - from < secs(200), "seed {seed}: not gone after {kills} kills");
        }
        let removed = world.removed.iter().find(|gone| gone.key == world.brokers[silent].key).unwrap();
        let took = removed.at - from;
        assert!(took > secs(119) && took < secs(130), "seed {seed}: {took:?} with {kills} kills");
        assert_eq!((world.everywhere(lives), world.removed.len()), (Some(true), 1), "seed {seed}");
    }
}

/// Its place in the index was put off for as long as that node might have stayed away.
#[test]
fn a_silent_broker_goes_in_time_once_a_node_that_was_away_is_back() {
    let mut world = world();
    let broker = registered(&mut world, 30_000, &NODES);
    world.vanish(broker);
    world.run(secs(27));
    world.kill_node(3);
    world.run(secs(5));
    assert!(world.has(1, broker), "it may have been heard at that node");
    world.restart_node(3);
    until_gone(&mut world, broker, secs(6));
}

/// Two of three are gone for a while, the third has no quorum: that time is no silence, but all before is.
#[test]
fn only_the_time_without_a_quorum_is_no_silence() {
    let mut world = world();
    let broker = registered(&mut world, 30_000, &NODES);
    world.vanish(broker);
    world.run(secs(20));
    world.cut.extend([(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)]);
    world.run(secs(60));
    assert_eq!(world.everywhere(broker), Some(true));
    world.cut.clear();
    world.run(secs(5));
    assert_eq!(world.everywhere(broker), Some(true));
    let took = until_gone(&mut world, broker, secs(8));
    assert!(took > secs(2), "{took:?}");
}

/// A node alone never loses its quorum: only its clock tells it that it did not run.
#[test]
fn a_node_alone_does_not_take_its_own_pause_for_silence() {
    let start = Instant::now();
    let mut core = Core::new(&LivenessOptions::new(1), 1, start);
    core.members(start, &[(1, true)]);
    let key = BrokerKey { cluster: "c".into(), address: "a:1".into() };
    let live = BrokerLiveInfo {
        broker: "b".into(),
        id: 0,
        data_version: DataVersion::default(),
        timeout_ms: 10_000,
        ha_address: None,
        incarnation: Position { index: 1, number: 0 },
    };
    core.follow(start, &key, Some(&live), true);
    let incarnation = |_: &BrokerKey| Some(live.incarnation);
    let leader = Leader { term: 1, applied: 1, incarnation: &incarnation };
    let removes = |core: &mut Core, now: Instant| {
        core.tick(now, Some(&leader));
        core.decide(now, &leader).removal.is_some()
    };
    let mut now = start;
    for step in 0..80 {
        now += if step == 40 { secs(3_600) } else { ms(100) };
        assert!(!removes(&mut core, now), "step {step}");
    }
    for _ in 0..30 {
        now += ms(100);
        if removes(&mut core, now) {
            return;
        }
    }
    panic!("not gone after its timeout");
}

#[test]
fn a_paused_leader_evicts_nobody_when_it_goes_on() {
    let mut world = world();
    let brokers: Vec<_> = (0..5).map(|_| registered(&mut world, 10_000, &NODES)).collect();
    world.pause_node(1, secs(30));
    world.live_for(secs(60));
    assert_ne!(world.leader, Some(1));
    assert!(brokers.iter().all(|broker| world.everywhere(*broker) == Some(true)));
    assert!(world.removed.is_empty());
}

#[test]
fn all_paused_at_once_evict_nobody_when_they_go_on() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &NODES);
    NODES.into_iter().for_each(|node| world.pause_node(node, secs(60)));
    world.live_for(secs(90));
    assert_eq!(world.everywhere(broker), Some(true));
    assert!(world.removed.is_empty());
}

#[test]
fn nodes_that_cannot_hear_each_other_evict_nobody_when_they_can_again() {
    let mut world = world();
    let brokers: Vec<_> = NODES.into_iter().map(|node| registered(&mut world, 10_000, &[node])).collect();
    world.cut.extend([(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)]);
    world.live_for(secs(60));
    world.cut.clear();
    world.live_for(secs(60));
    assert!(brokers.iter().all(|broker| world.everywhere(*broker) == Some(true)));
    assert!(world.removed.is_empty());
}

#[test]
fn after_a_restart_of_all_everyone_has_one_full_timeout() {
    let mut world = world();
    let lives = registered(&mut world, 10_000, &NODES);
    let dead = registered(&mut world, 10_000, &NODES);
    NODES.into_iter().for_each(|node| world.kill_node(node));
    world.vanish(dead);
    world.run(secs(600));
    NODES.into_iter().for_each(|node| world.restart_node(node));
    world.run(secs(9));
    assert!(world.removed.is_empty());
    world.live_for(secs(5));
    assert_eq!((world.everywhere(lives), world.everywhere(dead)), (Some(true), Some(false)));
}

#[test]
fn what_a_leader_could_not_carry_out_the_next_one_decides_again() {
    for disconnect in [true, false] {
        let mut world = world();
        let broker = registered(&mut world, 10_000, &NODES);
        world.hold_commits = true;
        if disconnect {
            world.kill_broker(broker);
            world.run(ms(100));
        } else {
            world.vanish(broker);
            world.run(secs(11));
        }
        assert_eq!(world.proposals, 1);
        world.kill_node(1);
        world.release_commits();
        world.run(secs(2));
        let gone = !world.has(2, broker) && !world.has(3, broker);
        assert!(gone, "disconnect: {disconnect}");
    }
}

#[test]
fn a_close_is_never_lost() {
    let mut world = world();
    let broker = registered(&mut world, 120_000, &NODES);
    world.lost = 100;
    world.kill_broker(broker);
    world.run(ms(900));
    world.lost = 0;
    world.run(secs(3));
    assert_eq!(world.everywhere(broker), Some(false));
    assert_eq!(world.removed[0].cause, Cause::Disconnected);
}

#[test]
fn many_at_once_are_few_entries_and_the_guard_keeps_the_rest() {
    let lose = |guard: bool, all: usize, lost: usize| {
        let mut world = World::new(7, guard);
        world.run(secs(2));
        let brokers: Vec<_> = (0..all).map(|_| world.broker(120_000, &NODES)).collect();
        brokers.iter().for_each(|broker| world.registers_everywhere(*broker));
        world.run(secs(1));
        brokers.iter().take(lost).for_each(|broker| world.kill_broker(*broker));
        world.run(ms(200));
        let left = brokers.iter().filter(|broker| world.has(1, **broker)).count();
        (world, left)
    };
    let (mut world, left) = lose(true, 300, 150);
    assert_eq!(left, 150, "below the share");
    assert!(world.proposals <= 4, "{} entries", world.proposals);
    world.live_for(secs(20));
    assert_eq!(world.removed.len(), 150);

    assert_eq!(lose(false, 50, 50).1, 0);
    let (mut world, left) = lose(true, 50, 50);
    assert_eq!(left, 20);
    // A new leader goes on where the last one stopped.
    world.kill_node(1);
    world.run(secs(600));
    assert_eq!((0..50).filter(|broker| world.has(2, *broker)).count(), 20);
    world.run(secs(125));
    assert_eq!((0..50).filter(|broker| world.has(2, *broker)).count(), 0);
}

/// What is alive for certain has no part in a mass loss that came before.
#[test]
fn a_broker_that_was_heard_after_most_were_lost_goes_at_once() {
    let mut world = World::new(7, true);
    world.run(secs(2));
    let brokers: Vec<_> = (0..50).map(|_| world.broker(120_000, &NODES)).collect();
    brokers.iter().for_each(|broker| world.registers_everywhere(*broker));
    world.run(secs(1));
    brokers.iter().skip(1).for_each(|broker| world.kill_broker(*broker));
    // Until a word that was sent before would be there.
    world.run(secs(4));
    let newcomer = world.broker(120_000, &NODES);
    world.registers_everywhere(newcomer);
    world.beats_everywhere(brokers[0]);
    world.run(ms(200));
    for broker in [newcomer, brokers[0]] {
        world.kill_broker(broker);
        assert!(until_gone(&mut world, broker, secs(1)) < ms(50));
    }
    assert_eq!(brokers.iter().filter(|broker| world.has(1, **broker)).count(), 19);
}

/// Were the guard's memory lost with a process, a restart of one node after the other would empty the table.
#[test]
fn nodes_that_restart_one_after_the_other_keep_what_the_guard_keeps() {
    for silent in [false, true] {
        restart_while_the_guard_keeps(silent);
    }
}

/// `silent`: the brokers' connections stay open.
fn restart_while_the_guard_keeps(silent: bool) {
    let mut world = World::new(7, true);
    world.run(secs(2));
    let brokers: Vec<_> = (0..50).map(|_| world.broker(120_000, &NODES)).collect();
    brokers.iter().for_each(|broker| world.registers_everywhere(*broker));
    world.run(secs(1));
    // All but the last are gone at once.
    for broker in brokers.iter().take(49) {
        if silent { world.vanish(*broker) } else { world.kill_broker(*broker) }
    }
    let long = if silent { secs(125) } else { secs(3) };
    world.live_for(long);
    let left = |world: &World| brokers.iter().filter(|broker| world.has(1, **broker)).count();
    assert_eq!(left(&world), 20);
    for node in NODES {
        world.kill_node(node);
        world.live_for(secs(3));
        world.restart_node(node);
        world.live_for(secs(3));
        world.elect(node);
        world.live_for(long);
        assert_eq!(left(&world), 20, "after the restart of node {node}, which leads now; silent: {silent}");
    }
    // So does a majority that could not hear each other for a while.
    world.cut.extend([(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)]);
    world.live_for(secs(5));
    world.cut.clear();
    world.live_for(secs(200));
    assert_eq!(left(&world), 20);
    // One that lived all the time is not kept.
    world.kill_broker(brokers[49]);
    assert!(until_gone(&mut world, brokers[49], secs(1)) < ms(50));
    world.live_for(secs(600));
    assert_eq!(left(&world), 0, "ten minutes after their timeout");
}

/// It hears of the guard before it has applied its log again, and knows no broker yet.
#[test]
fn a_node_that_has_not_yet_applied_its_log_does_not_take_the_guard_for_idle() {
    let start = Instant::now();
    let mut core = Core::new(&LivenessOptions::new(1), 1, start);
    let protects = |core: &mut Core, now: Instant| {
        core.tick(now, None);
        core.status(now).guard.protected_for.is_some()
    };
    core.others_protect(start, secs(30));
    let mut now = start;
    for step in 0..50 {
        now += ms(100);
        assert!(protects(&mut core, now), "step {step}");
    }
    core.complete = true;
    now += ms(100);
    for _ in 0..10 {
        now += ms(100);
        protects(&mut core, now);
    }
    assert!(!protects(&mut core, now), "there is really nobody");
}

/// It hears few of the brokers: it could not tell when the protection ends, and must not tell voters that it lasts.
#[test]
fn a_learner_protects_nobody() {
    for (learner, protects) in [(false, true), (true, false)] {
        let start = Instant::now();
        let mut core = Core::new(&LivenessOptions::new(1), 1, start);
        core.members(start, &[(1, !learner), (2, true)]);
        let live = BrokerLiveInfo {
            broker: "b".into(),
            id: 0,
            data_version: DataVersion::default(),
            timeout_ms: 120_000,
            ha_address: None,
            incarnation: Position { index: 1, number: 0 },
        };
        let keys: Vec<_> = (0..4)
            .map(|n| BrokerKey { cluster: "c".into(), address: format!("10.0.0.{n}:10911").into() })
            .collect();
        core.follow_all(start, keys.iter().map(|key| (key, &live)));
        core.followed(start, 2, Left { expired: 6, guarded: 6, ..Left::default() });
        assert_eq!(core.protected_for(start).is_some(), protects, "learner: {learner}");
        core.members(start, &[(1, false), (2, true)]);
        assert_eq!(core.protected_for(start), None, "a voter that became a learner");
    }
}

/// The removal of a broker, its registration and its heartbeat, in all orders, while nothing commits until all three
/// are under way. In the end the broker is there, whatever came first.
#[test]
fn all_orders_of_removal_registration_and_heartbeat() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        for changed in [true, false] {
            let mut world = world();
            let broker = registered(&mut world, 10_000, &[2]);
            let incarnation = world.incarnation(1, broker);
            // One millisecond short of its timeout.
            world.run(ms(9_400));
            world.hold_commits = true;
            for step in order {
                match step {
                    0 => removal(&mut world, broker, incarnation),
                    1 => {
                        world.brokers[broker].version += i64::from(changed);
                        world.registers(broker, 2);
                    }
                    _ => world.beats(broker, 3),
                }
                world.run(ms(20));
            }
            world.release_commits();
            world.run(ms(300));
            assert_eq!(world.everywhere(broker), Some(true), "order {order:?}, changed {changed}");
            // Before it was heard it went, and came back with its registration.
            assert_eq!(!world.removed.is_empty(), order[0] == 0, "order {order:?}, changed {changed}");
            world.live_for(secs(30));
            assert_eq!(world.everywhere(broker), Some(true), "order {order:?}, changed {changed}");
        }
    }
}

/// The leader decides, when the broker is silent for long enough; when it was heard meanwhile, an entry that was
/// decided before (in this term, for the old registration) comes late.
fn removal(world: &mut World, broker: usize, incarnation: Option<Position>) {
    let before = world.proposals;
    world.run(ms(1_100));
    if world.proposals > before {
        return;
    }
    let key = &world.brokers[broker].key;
    let removal = Removal {
        cluster: key.cluster.clone(),
        broker: world.brokers[broker].name.clone(),
        address: key.address.clone(),
        incarnation,
        cause: Cause::Expired { idle_ms: 10_000 },
    };
    let change =
        Change::RemoveBrokers(RemoveBrokers { brokers: vec![removal], decided_in_term: Some(world.term) });
    // Only a registration that changed something gives a new incarnation; without one the leader would not have
    // decided, since it heard the broker, and there is no such entry.
    if world.brokers[broker].version > 1 {
        world.propose_late(Command { origin: Origin::default(), change });
    }
}

#[test]
fn a_removal_of_another_term_does_nothing() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &NODES);
    let incarnation = world.incarnation(1, broker);
    let term = world.term;
    world.elect(2);
    world.run(ms(100));
    let key = world.brokers[broker].key.clone();
    let removal = Removal {
        cluster: key.cluster,
        broker: world.brokers[broker].name.clone(),
        address: key.address,
        incarnation,
        cause: Cause::Disconnected,
    };
    let change = Change::RemoveBrokers(RemoveBrokers { brokers: vec![removal], decided_in_term: Some(term) });
    world.propose_late(Command { origin: Origin::default(), change });
    world.run(ms(100));
    assert_eq!(world.everywhere(broker), Some(true));
}

#[test]
fn a_pause_shorter_than_the_timeout_adds_to_all_deadlines() {
    let mut world = world();
    let broker = registered(&mut world, 10_000, &NODES);
    world.vanish(broker);
    let from: Moment = world.now;
    NODES.into_iter().for_each(|node| world.pause_node(node, secs(5)));
    world.run(secs(6));
    until_gone(&mut world, broker, secs(12));
    let took = world.now - from;
    assert!(took > ms(13_900), "{took:?}: the pause does not count as silence");
}
