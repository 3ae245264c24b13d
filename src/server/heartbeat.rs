//! Most of what a broker says is that it lives, each second, in the same bytes: they are read once.

use crate::protocol::Request;
use crate::wire::codes::request::BROKER_HEARTBEAT;
use crate::wire::{RemotingCommand, Repeat};
use storage::route_info::BrokerKey;

/// The last heartbeat of a connection, and whose it is. Oneway, as brokers send it: such a one has no other effect.
#[derive(Debug, Default)]
pub(super) struct LastHeartbeat(Option<(Repeat, BrokerKey)>);

impl LastHeartbeat {
    /// Whether it stands at the front of `inbound` again: its bytes and its broker.
    pub(super) fn again(&self, inbound: &[u8]) -> Option<(usize, &BrokerKey)> {
        let (repeat, broker) = self.0.as_ref()?;
        repeat.is_at_front(inbound).then(|| (repeat.bytes(), broker))
    }

    /// Keeps a frame, if the command that it was read as is a heartbeat.
    pub(super) fn keep(&mut self, frame: &[u8], command: &RemotingCommand) {
        if command.code != BROKER_HEARTBEAT || !command.is_oneway() {
            return;
        }
        let Ok(Request::BrokerHeartbeat(ask)) = Request::parse(command) else { return };
        let broker = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
        self.0 = Repeat::of(frame, command).map(|repeat| (repeat, broker));
    }
}
