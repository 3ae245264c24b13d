//! The rules of the mass eviction guard.

use super::super::{GuardStatus, LivenessOptions, Strength};
use super::world::{NODES, STEP, World};
use super::{key, ms, secs};
use raft::NodeId;
use std::time::Duration;

const TIMEOUT: Duration = ms(20_000);

/// A cluster with so many brokers, of which the first `lost` are gone at once: their sides end all connections, or they hang.
fn lose(options: LivenessOptions, brokers: usize, lost: usize, hang: bool) -> World {
    let mut world = World::with(options);
    (0..brokers).for_each(|broker| world.register(broker, TIMEOUT, &NODES));
    world.run(secs(5));
    for broker in 0..lost {
        if hang {
            world.hang(broker);
        } else {
            world.kill_broker(broker);
        }
    }
    world.run(if hang { TIMEOUT + secs(1) } else { ms(200) });
    world
}

fn left(world: &World) -> usize {
    world.table.live_brokers().len()
}

fn guard(world: &mut World, node: NodeId) -> GuardStatus {
    let now = world.now;
    world.tracker(node).totals(now).guard
}

#[test]
fn above_the_share_brokers_are_kept() {
    for hang in [false, true] {
        for (brokers, lost, expected) in [(50, 29, 21), (50, 50, 20), (4, 4, 0), (300, 150, 150)] {
            let mut world = lose(LivenessOptions::new(0), brokers, lost, hang);
            assert_eq!(left(&world), expected, "{lost} of {brokers} lost, hang: {hang}");
            assert!(world.proposed <= 4, "{} entries", world.proposed);
            let active = expected == 20;
            assert_eq!(world.table.eviction_guard().is_some(), active);
            let status = guard(&mut world, 1);
            assert_eq!((status.active_for.is_some(), status.held), (active, if active { 20 } else { 0 }));
        }
        let off = LivenessOptions { guard: false, ..LivenessOptions::new(0) };
        assert_eq!(left(&lose(off, 50, 50, hang)), 0);
    }
}

#[test]
fn they_are_kept_until_their_timeout_and_the_hold_have_passed() {
    let hold = secs(60);
    for hang in [false, true] {
        let options = LivenessOptions { guard_hold: hold, ..LivenessOptions::new(0) };
        let mut world = lose(options, 50, 50, hang);
        let since_heartbeat = if hang { TIMEOUT + secs(1) } else { ms(200) };
        world.run(TIMEOUT + hold - since_heartbeat - ms(200));
        assert_eq!(left(&world), 20, "hang: {hang}");
        world.run(ms(500));
        assert_eq!(left(&world), 0, "hang: {hang}");
        world.run(secs(2));
        assert_eq!(world.table.eviction_guard(), None, "it has ended");
        assert_eq!(NODES.map(|node| guard(&mut world, node).active_for), [None; 3]);
    }
}

/// They had no part in the loss.
#[test]
fn brokers_with_a_heartbeat_since_it_began_go_at_once() {
    let mut world = lose(LivenessOptions::new(0), 50, 49, false);
    assert_eq!(left(&world), 20);
    // Until a heartbeat that was sent before would be there.
    world.run(secs(4));
    world.register(100, TIMEOUT, &NODES);
    world.run(ms(200));
    for broker in [49, 100] {
        world.kill_broker(broker);
        world.run(STEP);
        assert!(!world.has(broker), "broker {broker}");
    }
    assert_eq!(left(&world), 19);
}

/// Were its begin lost with a process, restarts of one node after the other would empty the table.
#[test]
fn it_goes_on_after_a_change_of_leader_and_after_restarts() {
    for hang in [false, true] {
        let mut world = lose(LivenessOptions::new(0), 50, 49, hang);
        assert_eq!(left(&world), 20);
        world.kill(1);
        world.elect(2);
        world.run(TIMEOUT + secs(5));
        assert_eq!(left(&world), 20, "another leader; hang: {hang}");
        world.start(1);
        for node in NODES {
            world.kill(node);
            world.run(secs(2));
            world.start(node);
            world.elect(node);
            world.run(TIMEOUT + secs(5));
            assert_eq!(left(&world), 20, "node {node} restarted and leads; hang: {hang}");
            assert_eq!(guard(&mut world, node).held, 19);
        }
        // A majority that could not reach each other for a while.
        NODES.into_iter().for_each(|node| world.cut_off(node));
        world.run(secs(5));
        world.cut.clear();
        world.run(TIMEOUT + secs(5));
        assert_eq!(left(&world), 20, "after a cut; hang: {hang}");
        NODES.into_iter().for_each(|node| world.heartbeat(49, node, Strength::Strong).unwrap());
        world.kill_broker(49);
        world.run(STEP);
        assert!(!world.has(49), "it lived all the time: {:?}", key(49));
        world.run(secs(600) + TIMEOUT);
        assert_eq!((left(&world), world.table.eviction_guard()), (0, None));
    }
}
