//! All peers of this node, by id.

use super::channel::Link;
use super::connection::{CallError, Limit};
use super::handshake::{Facts, Lane};
use super::message::{Reply, Request};
use crate::api::NodeId;
use crate::local::node::Context;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One peer: its lanes.
pub(crate) struct Peer {
    /// Its id.
    pub(crate) id: NodeId,
    directory: Arc<Mutex<Option<u128>>>,
    lanes: BTreeMap<u8, Link>,
}

impl Peer {
    /// Asks on a lane.
    pub(crate) async fn call(&self, lane: Lane, request: &Request, limit: Limit) -> Result<Reply, CallError> {
        match self.lanes.get(&key(lane)) {
            Some(link) => link.call(request, limit).await,
            None => Err(CallError::NotSent(format!("there is no lane {lane:?}"))),
        }
    }

    /// Whether any connection to it is open.
    pub(crate) fn is_reachable(&self) -> bool {
        self.lanes.values().any(Link::is_open)
    }

    /// What it last said of itself on an open connection.
    pub(crate) fn facts(&self) -> Option<Facts> {
        self.lanes.values().find_map(Link::facts)
    }

    /// The data directory that counts as this peer. Another one than before ends all connections.
    fn set_directory(&self, directory_id: Option<u128>) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if directory_id.is_some() && *directory != directory_id {
            *directory = directory_id;
            self.lanes.values().for_each(Link::close);
        }
    }
}

/// All peers.
pub(crate) struct Peers {
    context: Arc<Context>,
    peers: Mutex<BTreeMap<NodeId, Arc<Peer>>>,
}

impl Peers {
    /// None yet.
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, peers: Mutex::default() }
    }

    /// A peer, with the directory that the membership knows it by.
    pub(crate) fn peer(&self, id: NodeId) -> Arc<Peer> {
        let directory_id = self.context.members.load().contact(id).map(|c| c.directory_id);
        self.peer_with(id, directory_id)
    }

    /// A peer that must have this directory.
    pub(crate) fn peer_with(&self, id: NodeId, directory_id: Option<u128>) -> Arc<Peer> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers.entry(id).or_insert_with(|| Arc::new(self.new_peer(id)));
        peer.set_directory(directory_id);
        Arc::clone(peer)
    }

    fn new_peer(&self, id: NodeId) -> Peer {
        let directory = Arc::new(Mutex::new(None));
        let lanes = Lane::ALL
            .map(|lane| (key(lane), Link::new(id, lane, Arc::clone(&self.context), Arc::clone(&directory))));
        Peer { id, directory, lanes: BTreeMap::from(lanes) }
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

fn key(lane: Lane) -> u8 {
    match lane {
        Lane::Control => 0,
        Lane::Append => 1,
        Lane::Snapshot => 2,
        Lane::Call => 3,
        Lane::Message(number) => 4u8.saturating_add(number),
    }
}
