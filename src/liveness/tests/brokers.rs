//! The brokers of a [`World`], and the beginning that most rules share.

use super::super::{ClosedBy, SessionId, SessionsFull, Strength};
use super::world::{NODES, STEP, World};
use super::{key, ms, secs};
use raft::NodeId;
use std::time::Duration;
use storage::Change;
use storage::command::{DataVersion, Registration};
use storage::route_info::BrokerKey;

/// A cluster with broker 0, which has just sent a heartbeat to these nodes.
pub(super) fn registered(timeout: Duration, nodes: &[NodeId]) -> World {
    let mut world = World::new();
    world.register(0, timeout, nodes);
    world.run(secs(1));
    world
}

/// A step is 50 ms, and reports take up to 200 ms.
#[track_caller]
pub(super) fn assert_about(took: Duration, expected: Duration) {
    assert!(took + STEP >= expected && took <= expected + ms(300), "{took:?}, not about {expected:?}");
}

impl World {
    /// A broker registers over connections to these nodes, with another version each time, and beats there each second.
    pub(super) fn register(&mut self, broker: usize, timeout: Duration, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.heartbeat(broker, *node, Strength::Weak).unwrap());
        let counter = i64::try_from(self.last_index()).unwrap();
        let BrokerKey { cluster, address } = key(broker);
        self.commit(&[Change::RegisterBroker(Box::new(Registration {
            heartbeat_timeout_ms: Some(i64::try_from(timeout.as_millis()).unwrap()),
            data_version: DataVersion { state_version: 0, timestamp: 1, counter },
            ..Registration::of_master(cluster, format!("b{broker}").into(), address)
        }))]);
        nodes.iter().for_each(|node| self.heartbeat(broker, *node, Strength::Strong).unwrap());
        self.beats.extend(nodes.iter().map(|node| (broker, *node)));
    }

    /// A request of a broker arrives, over its connection to the node or over a new one.
    pub(super) fn heartbeat(
        &mut self,
        broker: usize,
        id: NodeId,
        strength: Strength,
    ) -> Result<(), SessionsFull> {
        self.numbers += 1;
        let session = *self.sessions.entry((broker, id)).or_insert(SessionId(self.numbers));
        let node = self.nodes.get_mut(&id).unwrap();
        let strong = strength == Strength::Strong;
        let live = node.table.live(&key(broker)).filter(|_| strong);
        let incarnation = live.map(|live| live.incarnation);
        node.tracker.heartbeat(self.now, session, &key(broker), strength, incarnation)
    }

    /// A broker's connection to a node ends.
    pub(super) fn close(&mut self, broker: usize, node: NodeId, by: ClosedBy) {
        self.beats.remove(&(broker, node));
        if let Some(session) = self.sessions.remove(&(broker, node)) {
            let now = self.now;
            self.tracker(node).close(now, session, by);
        }
    }

    /// A broker's process dies: its side ends all connections.
    pub(super) fn kill_broker(&mut self, broker: usize) {
        NODES.into_iter().for_each(|node| self.close(broker, node, ClosedBy::Peer));
    }

    /// A broker's process hangs: its connections stay open.
    pub(super) fn hang(&mut self, broker: usize) {
        self.beats.retain(|(beating, _)| *beating != broker);
    }

    pub(super) fn has(&self, broker: usize) -> bool {
        self.table.live(&key(broker)).is_some()
    }

    /// Runs until a broker is gone. Gives how long that took.
    pub(super) fn until_gone(&mut self, broker: usize, at_most: Duration) -> Duration {
        let from = self.now;
        while self.has(broker) {
            assert!(self.now - from < at_most, "not gone after {at_most:?}");
            self.step();
        }
        self.now - from
    }
}
