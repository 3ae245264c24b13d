//! All peers of this node, by id.

use super::channel::PeerChannel;
use super::connection::{CallError, Limit};
use super::dialer::Dialer;
use super::handshake::ChannelKind;
use super::message::{Reply, Request};
use super::node_info::NodeInfo;
use crate::api::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One peer: its channels.
pub(crate) struct Peer {
    /// Its id.
    pub(crate) id: NodeId,
    directory: Arc<Mutex<Option<u128>>>,
    channels: BTreeMap<u8, PeerChannel>,
}

impl Peer {
    /// Sends a request on a channel, and waits for the reply.
    pub(crate) async fn call(
        &self,
        channel: ChannelKind,
        request: &Request,
        limit: Limit,
    ) -> Result<Reply, CallError> {
        match self.channels.get(&key(channel)) {
            Some(channel) => channel.call(request, limit).await,
            None => Err(CallError::NotSent(format!("there is no channel {channel:?}"))),
        }
    }

    /// Whether any connection to it is open.
    pub(crate) fn is_reachable(&self) -> bool {
        self.channels.values().any(PeerChannel::is_open)
    }

    /// What it last stated on an open connection.
    pub(crate) fn info(&self) -> Option<NodeInfo> {
        self.channels.values().find_map(PeerChannel::info)
    }

    /// Sets the data directory that this peer must have. Another one than before ends all connections.
    fn set_directory(&self, directory_id: Option<u128>) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if directory_id.is_some() && *directory != directory_id {
            *directory = directory_id;
            self.channels.values().for_each(PeerChannel::close);
        }
    }
}

/// All peers.
pub(crate) struct Peers {
    dialer: Arc<Dialer>,
    peers: Mutex<BTreeMap<NodeId, Arc<Peer>>>,
}

impl Peers {
    /// None yet.
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { dialer: Arc::new(dialer), peers: Mutex::default() }
    }

    /// A peer, with the data directory that the membership names.
    pub(crate) fn peer(&self, id: NodeId) -> Arc<Peer> {
        let members = self.dialer.local().members.load();
        self.peer_with(id, members.contact(id).map(|contact| contact.directory_id))
    }

    /// A peer that must have this data directory.
    pub(crate) fn peer_with(&self, id: NodeId, directory_id: Option<u128>) -> Arc<Peer> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers.entry(id).or_insert_with(|| Arc::new(self.new_peer(id)));
        peer.set_directory(directory_id);
        Arc::clone(peer)
    }

    fn new_peer(&self, id: NodeId) -> Peer {
        let directory = Arc::new(Mutex::new(None));
        let channels = ChannelKind::ALL.map(|kind| {
            let channel = PeerChannel::new(id, kind, Arc::clone(&self.dialer), Arc::clone(&directory));
            (key(kind), channel)
        });
        Peer { id, directory, channels: BTreeMap::from(channels) }
    }

    /// Connects to a node at an address for its info only.
    pub(crate) async fn probe(&self, id: NodeId, address: &str) -> Result<NodeInfo, String> {
        let connection = self.dialer.connect_to(id, ChannelKind::Call, None, address).await?;
        Ok(connection.info.clone())
    }

    /// Whether any connection to a node is open.
    pub(crate) fn is_reachable(&self, id: NodeId) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&id).is_some_and(|peer| peer.is_reachable())
    }

    /// Forgets a node that is no member any more; its connections end.
    pub(crate) fn forget(&self, id: NodeId) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.remove(&id);
    }
}

fn key(channel: ChannelKind) -> u8 {
    match channel {
        ChannelKind::Control => 0,
        ChannelKind::Append => 1,
        ChannelKind::Snapshot => 2,
        ChannelKind::Call => 3,
        ChannelKind::Message(number) => 4u8.saturating_add(number),
    }
}
