//! openraft's network over the channels to peers.

use super::conversions;
use super::snapshot::SnapshotData;
use super::types::{RaftVote, Types, raft_log_id, raft_vote, vote};
use crate::local::{Contact, blocking};
use crate::peer::connection::{CallError, Limit};
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::{Peer, Peers};
use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::limits::SNAPSHOT_MESSAGE_BYTES;
use storage::snapshots::{SnapshotMeta, SnapshotReader, Snapshots};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Entries and snapshots may take as long as they make progress; without any for so long, the attempt is over.
const PROGRESS_MAX: Duration = Duration::from_secs(5);

/// openraft's snapshot.
type RaftSnapshot = openraft::type_config::alias::SnapshotOf<Types, SnapshotData>;
/// What openraft's network calls fail with.
type RpcError = RPCError<Types>;

/// Gives openraft its connections.
pub(crate) struct Network {
    /// This node.
    pub(crate) id: u64,
    /// The peers.
    pub(crate) peers: Arc<Peers>,
    /// The snapshots that it sends.
    pub(crate) snapshots: Arc<dyn Snapshots>,
    /// Notified when a stored snapshot cannot be read: a new one is due.
    pub(crate) snapshot_due: Arc<Notify>,
}

impl Network {
    fn client(&self, target: u64, contact: &Contact, append_channel: ChannelKind) -> PeerClient {
        PeerClient {
            id: self.id,
            peer: self.peers.peer_with(target, Some(contact.directory_id)),
            append_channel,
            snapshots: Arc::clone(&self.snapshots),
            snapshot_due: Arc::clone(&self.snapshot_due),
        }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, contact: &Contact) -> PeerClient {
        self.client(target, contact, ChannelKind::Append)
    }

    async fn new_heartbeat_client(&mut self, target: u64, contact: &Contact) -> PeerClient {
        self.client(target, contact, ChannelKind::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, contact: &Contact) -> PeerClient {
        self.client(target, contact, ChannelKind::Snapshot)
    }
}

/// openraft's requests to one peer.
pub(crate) struct PeerClient {
    id: u64,
    peer: Arc<Peer>,
    /// Heartbeats are appends too, but never wait behind entries.
    append_channel: ChannelKind,
    snapshots: Arc<dyn Snapshots>,
    snapshot_due: Arc<Notify>,
}

impl PeerClient {
    async fn control(
        &self,
        request: Request,
        option: &RPCOption,
        action: RPCTypes,
    ) -> Result<Reply, RpcError> {
        let limit = Limit::Deadline(Instant::now() + option.hard_ttl());
        let result = self.peer.call(ChannelKind::Control, &request, limit).await;
        result.map_err(|e| match e {
            CallError::NotSent(reason) => unreachable(reason),
            CallError::NoReply(_) => RPCError::Timeout(Timeout {
                action,
                id: self.id,
                target: self.peer.id,
                timeout: option.hard_ttl(),
            }),
        })
    }

    async fn long(&self, channel: ChannelKind, request: Request) -> Result<Reply, RpcError> {
        self.peer.call(channel, &request, Limit::Progress(PROGRESS_MAX)).await.map_err(|e| match e {
            CallError::NotSent(reason) => unreachable(reason),
            CallError::NoReply(reason) => RPCError::Network(NetworkError::from_string(reason)),
        })
    }

    async fn ask_vote(&self, request: Request, option: &RPCOption) -> Result<VoteResponse<Types>, RpcError> {
        match self.control(request, option, RPCTypes::Vote).await? {
            Reply::Vote { vote, granted, last } => {
                Ok(VoteResponse::new(raft_vote(vote), last.map(raft_log_id), granted))
            }
            other => Err(unexpected(other)),
        }
    }

    /// Sends the parts of a snapshot. The peer replies to each with its vote; a higher vote ends the transfer.
    async fn send_snapshot(&self, leader: RaftVote, meta: SnapshotMeta) -> Result<RaftVote, RpcError> {
        let last = meta.last;
        let stored = self.snapshots.open(last).map_err(|e| self.unreadable(last, &e))?;
        let begin = Request::SnapshotBegin { vote: vote(&leader), meta };
        let mut theirs = self.snapshot_part(begin).await?;
        let mut first = 0;
        while theirs <= leader {
            let chunks = read_chunks(&stored, first).await.map_err(|e| self.unreadable(last, &e))?;
            let Ok(count) = u32::try_from(chunks.len()) else { break };
            if count == 0 {
                return self.snapshot_part(Request::SnapshotEnd { chunks: first }).await;
            }
            theirs = self.snapshot_part(Request::SnapshotChunks { first, chunks }).await?;
            first += count;
        }
        Ok(theirs)
    }

    async fn snapshot_part(&self, request: Request) -> Result<RaftVote, RpcError> {
        match self.long(ChannelKind::Snapshot, request).await? {
            Reply::Snapshot { vote } => Ok(raft_vote(vote)),
            other => Err(unexpected(other)),
        }
    }

    /// A stored snapshot cannot be read: a new one is due.
    fn unreadable(&self, last: storage::LogId, error: &io::Error) -> RpcError {
        tracing::warn!("snapshot {last} cannot be read for node {}: {error}", self.peer.id);
        self.snapshot_due.notify_one();
        unreachable(error.to_string())
    }
}

/// As many chunks as fit a message, from number `first`; none after the last.
async fn read_chunks(stored: &Arc<dyn SnapshotReader>, first: u32) -> io::Result<Vec<Bytes>> {
    let stored = Arc::clone(stored);
    let read = move || {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for number in first.. {
            let Some(chunk) = stored.chunk(number)? else { break };
            bytes += chunk.len();
            chunks.push(chunk);
            if bytes >= SNAPSHOT_MESSAGE_BYTES {
                break;
            }
        }
        Ok(chunks)
    };
    blocking(read).await
}

impl RaftNetworkV2<Types> for PeerClient {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RpcError> {
        let append = conversions::append(request).map_err(|e| unreachable(e.to_string()))?;
        let request = Request::Append(append);
        let reply = match self.append_channel {
            ChannelKind::Control => self.control(request, &option, RPCTypes::AppendEntries).await?,
            channel => self.long(channel, request).await?,
        };
        match reply {
            Reply::Append(appended) => Ok(appended.into()),
            other => Err(unexpected(other)),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        self.ask_vote(Request::Vote(request.into()), &option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        // An error when the peer is not reached: openraft's default would count it as a grant.
        self.ask_vote(Request::PreVote(request.into()), &option).await
    }

    async fn full_snapshot(
        &mut self,
        leader: RaftVote,
        snapshot: RaftSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let SnapshotData::Stored(meta, _) = snapshot.snapshot else {
            return Err(unreachable("a snapshot that is not stored".into()).into());
        };
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(leader, meta) => Ok(SnapshotResponse::new(sent?)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RpcError> {
        let request = conversions::timeout_now(&request);
        match self.control(request, &option, RPCTypes::TransferLeader).await? {
            // openraft does not act on a refusal: the leader sees whether its successor stands for election.
            Reply::TimeoutNow(_) => Ok(Ok(())),
            other => Err(unexpected(other)),
        }
    }
}

fn unreachable(reason: String) -> RpcError {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

fn unexpected(reply: Reply) -> RpcError {
    match reply {
        Reply::Unavailable(reason) => unreachable(reason),
        other => unreachable(format!("unexpected reply {other:?}")),
    }
}
