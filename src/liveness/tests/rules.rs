//! Which brokers go, and when: one rule per test.

use super::super::removals::ProposalEnd;
use super::super::{ClosedBy, Strength};
use super::brokers::{assert_about, registered};
use super::world::{NODES, Proposals, STEP};
use super::{key, ms, secs};
use storage::command::Cause;

// Expiry.

#[test]
fn an_idle_broker_expires_by_its_own_timeout() {
    for node in NODES {
        let mut world = registered(secs(10), &[node]);
        world.register(1, secs(120), &[node]);
        world.hang(0);
        world.hang(1);
        assert_about(world.until_gone(0, secs(11)), secs(10));
        assert!(matches!(world.removed[..], [(_, Cause::Expired { idle_ms: 10_000.. })]));
        assert!(!world.sessions.contains_key(&(0, node)), "the node closes its connection");
        assert_about(world.until_gone(1, secs(111)), secs(110));
    }
}

#[test]
fn heartbeats_over_any_node_keep_a_broker() {
    let mut world = registered(secs(10), &[1]);
    world.hang(0);
    for node in [2, 3, 2, 3, 1, 2] {
        world.run(secs(9));
        world.heartbeat(0, node, Strength::Weak).unwrap();
    }
    assert_eq!((world.removed.len(), world.proposed), (0, 0));
    assert_about(world.until_gone(0, secs(11)), secs(10));
}

#[test]
fn a_pause_of_all_nodes_is_no_idle_time() {
    let mut world = registered(secs(10), &NODES);
    world.hang(0);
    world.run(secs(5));
    world.now += secs(60);
    assert_about(world.until_gone(0, secs(6)), ms(4_850));
}

#[test]
fn a_leader_that_was_paused_removes_no_broker() {
    let mut world = registered(secs(10), &[1]);
    world.register(1, secs(10), &[2]);
    world.nodes.get_mut(&1).unwrap().paused = true;
    world.run(secs(60));
    world.nodes.get_mut(&1).unwrap().paused = false;
    world.run(secs(30));
    assert_eq!((world.removed.len(), world.proposed), (0, 0));
}

/// Contact lasts a second after its last proof.
#[test]
fn time_without_a_leader_or_a_quorum_is_no_idle_time() {
    for fault in ["no leader", "no links", "no lease"] {
        let mut world = registered(secs(40), &NODES);
        world.hang(0);
        world.run(secs(25));
        match fault {
            "no leader" => world.leader = None,
            "no links" => NODES.into_iter().for_each(|node| world.cut_off(node)),
            _ => world.lease_lost = true,
        }
        world.run(secs(60));
        assert!(world.has(0), "{fault}");
        world.cut.clear();
        world.lease_lost = false;
        if world.leader.is_none() {
            world.elect(1);
        }
        assert_about(world.until_gone(0, secs(20)), secs(40 - 25 - 1));
    }
}

/// Each change of leader gives a broker that hangs one grace, and no more.
#[test]
fn leaders_killed_every_minute_do_not_keep_a_broker_that_hangs() {
    let mut world = registered(secs(120), &NODES);
    world.hang(0);
    let from = world.now;
    for (leader, next) in [(1, 2), (2, 3)] {
        world.run(secs(56));
        world.kill(leader);
        world.run(secs(2));
        world.elect(next);
        world.run(secs(2));
        world.start(leader);
    }
    world.until_gone(0, secs(40));
    assert!(world.now - from < secs(120 + 2 * 30), "{:?}", world.now - from);
}

#[test]
fn after_a_restart_of_all_nodes_each_broker_has_its_timeout() {
    let mut world = registered(secs(10), &NODES);
    world.hang(0);
    NODES.into_iter().for_each(|node| world.kill(node));
    world.run(secs(600));
    NODES.into_iter().for_each(|node| world.start(node));
    world.elect(2);
    assert_about(world.until_gone(0, secs(11)), secs(10));
}

// Disconnects.

#[test]
fn a_broker_whose_peer_closes_everything_is_gone_at_once() {
    for nodes in [&NODES[..], &[1], &[2], &[2, 3], &[1, 3]] {
        let mut world = registered(secs(120), nodes);
        world.kill_broker(0);
        world.run(STEP);
        assert_eq!(world.removed, [(key(0), Cause::Disconnected)], "sessions at {nodes:?}");
        assert_eq!(world.proposed, 1);
    }
}

#[test]
fn a_disconnect_is_carried_out_while_a_node_is_down() {
    let mut world = registered(secs(120), &NODES);
    world.kill(3);
    world.run(secs(5));
    world.kill_broker(0);
    world.run(STEP);
    assert!(!world.has(0));
}

/// Also one that the leader does not know of yet: its probe finds it.
#[test]
fn a_session_left_at_any_node_holds_a_broker_and_no_longer() {
    for (closed, left) in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
        for strength in [Strength::Weak, Strength::Strong] {
            let mut world = registered(secs(120), &[closed]);
            world.heartbeat(0, left, strength).unwrap();
            world.close(0, closed, ClosedBy::Peer);
            world.run(secs(5));
            assert!(world.has(0), "closed at {closed}, {strength:?} at {left}");
            world.close(0, left, ClosedBy::Peer);
            world.run(STEP);
            assert!(!world.has(0), "closed at {closed}, {strength:?} at {left}");
        }
    }
}

#[test]
fn a_close_by_this_node_removes_no_broker() {
    for nodes in [&NODES[..], &[1], &[2]] {
        let mut world = registered(secs(30), nodes);
        NODES.into_iter().for_each(|node| world.close(0, node, ClosedBy::ThisNode));
        assert_about(world.until_gone(0, secs(31)), secs(30));
        assert!(matches!(world.removed[0].1, Cause::Expired { .. }), "sessions at {nodes:?}");
    }
    for (by_peer, by_node) in [(2, 3), (1, 2), (2, 1)] {
        let mut world = registered(secs(30), &[by_peer, by_node]);
        world.close(0, by_peer, ClosedBy::Peer);
        world.run(ms(300));
        world.close(0, by_node, ClosedBy::ThisNode);
        assert_about(world.until_gone(0, secs(31)), secs(30) - ms(300));
    }
}

#[test]
fn a_node_that_is_lost_takes_no_broker_with_it() {
    for (node, dies) in [(3, true), (3, false), (1, true), (1, false)] {
        let mut world = registered(secs(20), &[node]);
        // Until the heartbeat is reported.
        world.run(ms(200));
        if dies {
            world.kill(node);
        } else {
            world.cut_off(node);
        }
        let mut expected = secs(20) - ms(200);
        if node == 1 {
            world.run(secs(1));
            // No reachable node has a heartbeat of it.
            world.elect(2);
            expected = secs(20);
        }
        assert_about(world.until_gone(0, secs(25)), expected);
        assert!(matches!(world.removed[0].1, Cause::Expired { .. }), "node {node}, dies: {dies}");
    }
}

/// A heartbeat may be lost with the node: min(timeout, max(10 s, a quarter of the timeout)).
#[test]
fn the_leases_of_brokers_of_a_lost_node_have_at_least_the_grace_left() {
    for (timeout, grace) in [(6, 6), (20, 10), (120, 30)] {
        let lose_node = |restart: bool| {
            let mut world = registered(secs(timeout), &[3]);
            world.hang(0);
            world.run(secs(timeout - 2));
            world.kill(3);
            if restart {
                world.start(3);
            }
            world.until_gone(0, secs(grace + 2))
        };
        assert_about(lose_node(false), secs(1 + grace) - ms(150));
        assert_about(lose_node(true), secs(grace));
    }
}

#[test]
fn what_a_leader_could_not_carry_out_the_next_one_decides_again() {
    for hangs in [false, true] {
        let mut world = registered(secs(10), &NODES);
        world.proposals = Proposals::Pending;
        if hangs {
            world.hang(0);
            world.run(secs(11));
        } else {
            world.kill_broker(0);
            world.run(STEP);
        }
        assert_eq!((world.proposed, world.has(0)), (1, true));
        world.kill(1);
        world.proposals = Proposals::Applied;
        world.run(ms(500));
        world.elect(2);
        world.until_gone(0, if hangs { secs(12) } else { secs(2) });
        assert_eq!(world.removed[0].1 == Cause::Disconnected, !hangs);
    }
}

/// A strong session at another node only holds the broker until a later heartbeat over it, since both may end at the
/// same moment and that node may die before it reports.
#[test]
fn only_a_disconnect_without_a_later_heartbeat_counts_when_the_other_node_is_lost() {
    for (heartbeat, elected) in [(true, None), (true, Some(2)), (false, None), (false, Some(2))] {
        let mut world = registered(secs(60), &[2, 3]);
        world.close(0, 2, ClosedBy::Peer);
        if !heartbeat {
            world.hang(0);
        }
        world.run(secs(2));
        assert!(world.has(0));
        world.kill(3);
        elected.into_iter().for_each(|node| world.elect(node));
        world.run(secs(5));
        assert_eq!(world.has(0), heartbeat, "heartbeat: {heartbeat}, elected: {elected:?}");
    }
}

/// The node reports all of its sessions again when a report got no answer.
#[test]
fn a_session_that_is_reported_again_settles_no_disconnect() {
    let mut world = registered(secs(60), &[2, 3]);
    world.hang(0);
    world.close(0, 2, ClosedBy::Peer);
    world.run(ms(200));
    world.cut_off(3);
    world.run(ms(300));
    world.cut.clear();
    world.run(ms(300));
    assert!(world.has(0));
    world.kill(3);
    world.run(secs(2));
    assert_eq!(world.removed, [(key(0), Cause::Disconnected)]);
}

/// Nothing but a weak session at node 1 holds it in the end.
#[test]
fn a_new_strong_session_settles_a_disconnect() {
    for registers in [true, false] {
        let mut world = registered(secs(60), &[2]);
        world.heartbeat(0, 1, Strength::Weak).unwrap();
        world.close(0, 2, ClosedBy::Peer);
        world.run(ms(300));
        let strength = if registers { Strength::Strong } else { Strength::Weak };
        world.heartbeat(0, 3, strength).unwrap();
        world.run(ms(300));
        world.kill(3);
        world.close(0, 1, ClosedBy::Peer);
        world.run(secs(5));
        assert_eq!(world.has(0), registers);
    }
}

#[test]
fn a_disconnect_waits_a_second_at_most_for_a_node_that_does_not_answer() {
    for nodes in [&[1, 2][..], &[2, 3]] {
        let mut world = registered(secs(120), nodes);
        world.nodes.get_mut(&3).unwrap().paused = true;
        world.sessions.remove(&(0, 3));
        world.kill_broker(0);
        world.run(ms(700));
        assert!(world.has(0), "it may have a session there");
        world.run(ms(350));
        assert_eq!(world.removed, [(key(0), Cause::Disconnected)]);
    }
}

/// A report that got no answer may have been lost.
#[test]
fn a_disconnect_is_not_lost_with_a_report() {
    let mut world = registered(secs(120), &[2, 3]);
    world.cut_off(2);
    world.cut_off(3);
    world.kill_broker(0);
    world.run(ms(500));
    assert!(world.has(0));
    world.cut.clear();
    world.run(ms(100));
    assert_eq!(world.removed, [(key(0), Cause::Disconnected)]);
}

#[test]
fn a_broker_and_the_leader_that_die_together_are_gone_in_seconds() {
    for nodes in [&NODES[..], &[1, 2], &[1, 3]] {
        let mut world = registered(secs(120), nodes);
        world.kill(1);
        world.kill_broker(0);
        world.run(secs(1));
        world.elect(2);
        world.until_gone(0, secs(2));
        assert_eq!(world.removed, [(key(0), Cause::Disconnected)]);
    }
}

#[test]
fn the_end_of_an_older_incarnation_does_not_remove_the_successor() {
    for (old, new) in [(2, 3), (2, 1), (1, 3)] {
        let mut world = registered(secs(60), &[old]);
        world.register(0, secs(60), &[new]);
        world.run(ms(300));
        // Nothing but the incarnation keeps it.
        world.close(0, new, ClosedBy::ThisNode);
        world.run(ms(300));
        world.close(0, old, ClosedBy::Peer);
        assert_about(world.until_gone(0, secs(61)), secs(60) - ms(600));
    }
}

/// An end counts as the peer's only if there was a heartbeat since the node may trust disconnects again.
#[test]
fn the_end_of_a_session_is_not_trusted_until_ten_seconds_after_a_cut() {
    for (all_cut, after, trusted) in
        [(false, 0, false), (true, 0, false), (false, 9, false), (true, 9, false), (false, 11, true)]
    {
        let mut world = registered(secs(60), &[3]);
        world.cut_off(3);
        if all_cut {
            world.cut_off(2);
        }
        world.run(secs(3));
        world.cut.clear();
        world.run(secs(after));
        world.close(0, 3, ClosedBy::Peer);
        world.run(secs(2));
        assert_eq!(!world.has(0), trusted, "all cut: {all_cut}, {after} s after");
    }
}

/// The node reads what waits in its sockets before it accepts the connections that wait.
#[test]
fn the_end_of_a_session_is_not_trusted_until_two_seconds_after_a_long_pause() {
    for (pause, after, trusted) in [(2, 0, true), (12, 0, false), (12, 1, false), (12, 3, true)] {
        let mut world = registered(secs(60), &[3]);
        world.nodes.get_mut(&3).unwrap().paused = true;
        world.run(secs(pause));
        world.nodes.get_mut(&3).unwrap().paused = false;
        world.run(secs(after));
        world.heartbeat(0, 3, Strength::Weak).unwrap();
        world.close(0, 3, ClosedBy::Peer);
        world.run(secs(2));
        assert_eq!(!world.has(0), trusted, "{after} s after a pause of {pause} s");
    }
}

/// The voters answer pings meanwhile.
#[test]
fn the_end_of_a_session_during_an_election_is_trusted() {
    let mut world = registered(secs(120), &[2, 3]);
    world.leader = None;
    world.run(secs(3));
    world.kill_broker(0);
    world.run(ms(500));
    world.elect(2);
    world.run(ms(100));
    assert_eq!(world.removed, [(key(0), Cause::Disconnected)]);
}

// Proposals.

#[test]
fn a_removal_of_unknown_outcome_is_not_decided_twice() {
    for committed in [true, false] {
        let mut world = registered(secs(10), &NODES);
        world.proposals = Proposals::Pending;
        world.hang(0);
        world.run(secs(11));
        let removals = world.pending.remove(0);
        world.end_proposal(ProposalEnd::Unknown(world.last_index() + 1));
        world.run(secs(10));
        assert_eq!(world.proposed, 1, "it may stand in the log");
        world.proposals = Proposals::Applied;
        if committed {
            world.carry_out(&removals);
        } else {
            world.commit(&[]);
        }
        world.run(ms(100));
        let proposed = if committed { 1 } else { 2 };
        assert_eq!((world.proposed, world.removed.len()), (proposed, 1));
    }
}

#[test]
fn a_refused_removal_is_decided_again() {
    let mut world = registered(secs(120), &NODES);
    world.proposals = Proposals::Refused;
    world.kill_broker(0);
    world.run(secs(1));
    assert!((5..=10).contains(&world.proposed), "{} proposals", world.proposed);
    world.proposals = Proposals::Applied;
    world.run(ms(150));
    assert!(!world.has(0));
}

#[test]
fn the_end_of_a_weak_session_is_not_lost_with_a_report() {
    let mut world = registered(secs(120), &[1]);
    world.heartbeat(0, 2, Strength::Weak).unwrap();
    world.run(secs(1));
    world.cut.insert((1, 2));
    world.kill_broker(0);
    world.run(ms(100));
    world.cut.clear();
    world.run(secs(5));
    assert!(!world.has(0));
}

/// The strong session is older than the disconnect, and the new leader sees it for the first time.
#[test]
fn an_old_strong_session_in_the_first_full_report_settles_no_disconnect() {
    let mut world = registered(secs(60), &[2, 3]);
    world.hang(0);
    world.close(0, 2, ClosedBy::Peer);
    world.run(ms(200));
    world.elect(1);
    world.run(ms(200));
    world.kill(3);
    world.run(secs(5));
    assert!(!world.has(0));
}
