//! The handlers of requests from other nodes: [`raft`] (votes, appends, leadership transfer), [`snapshot`] (a snapshot in
//! parts) and [`calls`] (forwarded commands, read barriers, membership, bootstrap, state check).

pub(crate) mod calls;
pub(crate) mod raft;
pub(crate) mod snapshot;

use crate::api::PeerMessages;
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{Reply, Request};
use crate::peer::node_info::NodeInfo;
use crate::peer::server::{ConnectionHandler, Handled, RpcHandler};
use calls::CallRpc;
use raft::RaftRpc;
use snapshot::{SnapshotReceiver, SnapshotRpc};
use std::sync::Arc;

/// Handles requests of other nodes.
pub(crate) struct PeerRpc {
    pub(crate) raft: Arc<RaftRpc>,
    pub(crate) snapshots: SnapshotRpc,
    pub(crate) calls: CallRpc,
    pub(crate) messages: Arc<dyn PeerMessages>,
}

/// One connection of a peer.
struct PeerConnection {
    rpc: Arc<PeerRpc>,
    from: NodeInfo,
    channel: ChannelKind,
    snapshot: SnapshotReceiver,
}

impl RpcHandler for PeerRpc {
    fn connection(self: Arc<Self>, from: NodeInfo, channel: ChannelKind) -> Box<dyn ConnectionHandler> {
        Box::new(PeerConnection { rpc: self, from, channel, snapshot: SnapshotReceiver::default() })
    }
}

impl ConnectionHandler for PeerConnection {
    fn handle(&self, request: Request) -> Handled<'_> {
        Box::pin(async move {
            let rpc = &self.rpc;
            match self.channel {
                ChannelKind::Control | ChannelKind::Append => rpc.raft.handle(request).await,
                ChannelKind::Snapshot => rpc.snapshots.handle(&self.from, &self.snapshot, request).await,
                ChannelKind::Call => rpc.calls.handle(&self.from, request).await,
                ChannelKind::Message(_) => match request {
                    Request::Message(message) => {
                        Reply::Message(rpc.messages.handle(self.from.node_id, message).await)
                    }
                    _ => wrong_channel(),
                },
            }
        })
    }
}

fn wrong_channel() -> Reply {
    Reply::Unavailable("asked on the wrong channel".into())
}

fn unavailable(e: impl ToString) -> Reply {
    Reply::Unavailable(e.to_string())
}
