//! Recognises a repeated BROKER_HEARTBEAT: a broker sends one each second in the same bytes, so the server parses it
//! once.

use crate::protocol::Request;
use crate::wire::codes::request::BROKER_HEARTBEAT;
use crate::wire::{RemotingCommand, Repeat};
use storage::route_info::BrokerKey;

/// The last heartbeat of a connection and its broker. Only a oneway heartbeat, as brokers send it: it gets no response.
#[derive(Debug, Default)]
pub(super) struct RepeatedHeartbeat(Option<(Repeat, BrokerKey)>);

impl RepeatedHeartbeat {
    /// If `inbound` begins with the same heartbeat: its length in bytes, and its broker.
    pub(super) fn matches(&self, inbound: &[u8]) -> Option<(usize, &BrokerKey)> {
        let (repeat, broker) = self.0.as_ref()?;
        repeat.is_at_front(inbound).then(|| (repeat.bytes(), broker))
    }

    /// Remembers a frame, if the command that it was decoded to is a heartbeat.
    pub(super) fn remember(&mut self, frame: &[u8], command: &RemotingCommand) {
        if command.code != BROKER_HEARTBEAT || !command.is_oneway() {
            return;
        }
        let Ok(Request::BrokerHeartbeat(ask)) = Request::parse(command) else { return };
        let broker = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
        self.0 = Repeat::of(frame, command).map(|repeat| (repeat, broker));
    }
}
