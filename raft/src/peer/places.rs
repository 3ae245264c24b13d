//! The places at the peer port. Strangers cannot keep a node out: a connection that has not proved the secret yet gives
//! its place to a newer one, and the handshake of a node takes milliseconds. One that has proved it has a place of its
//! node, which no stranger takes.

use super::handshake::ChannelKind;
use crate::api::NodeId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Connections without a proof yet, in all. Each takes a file and at most one frame of
/// [`super::frame::HANDSHAKE_BYTES_MAX`].
pub(crate) const UNPROVEN_MAX: usize = 24;
/// The same from one address. A node that starts opens one for each channel at about the same moment.
pub(crate) const UNPROVEN_PER_ADDRESS_MAX: usize = 16;
/// Connections of nodes that know the secret and are no members.
const NOT_MEMBERS_MAX: usize = 24;
/// Connections of one node for one channel: the one that it uses, and one with which a leader looks at a node that it
/// adds. With a third the node has given the oldest up.
const PER_CHANNEL_MAX: usize = 2;

/// The places of a peer port.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The oldest first.
    taken: VecDeque<Taken>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    by: By,
    lost: CancellationToken,
}

/// A connection that has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    /// No proof yet.
    Unproven { host: String },
    /// A node that has proved the secret.
    Node { id: NodeId, channel: ChannelKind, member: bool },
}

/// The place of a connection, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    lost: CancellationToken,
}

impl Places {
    /// A place for a new connection from `ip:port`, perhaps that of an older one without a proof; then the flag is true.
    pub(crate) fn take(self: &Arc<Self>, from: &str) -> (Place, bool) {
        let host = from.rsplit_once(':').map_or(from, |(host, _)| host).to_owned();
        let by = By::Unproven { host };
        let mut state = self.state();
        let took = state.make_room(UNPROVEN_PER_ADDRESS_MAX, |taken| taken.by == by)
            || state.unproven().count() >= UNPROVEN_MAX && state.make_room_at_the_busiest_address();
        state.next += 1;
        let (number, lost) = (state.next, CancellationToken::new());
        state.taken.push_back(Taken { number, by, lost: lost.clone() });
        (Place { places: Arc::clone(self), number, lost }, took)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unproven(&self) -> impl DoubleEndedIterator<Item = &By> {
        self.taken.iter().map(|taken| &taken.by).filter(|by| matches!(by, By::Unproven { .. }))
    }

    /// Takes the place of the oldest connection without a proof, of the address that has most of them: who opens many
    /// takes places of its own.
    fn make_room_at_the_busiest_address(&mut self) -> bool {
        let of_address = |by: &&By| self.unproven().filter(|other| other == by).count();
        let busiest = self.unproven().rev().max_by_key(of_address).cloned();
        busiest.is_some_and(|busiest| self.make_room(1, |taken| taken.by == busiest))
    }

    /// Takes the place of the oldest of its kind when there are `max` of them.
    fn make_room(&mut self, max: usize, of_kind: impl Fn(&Taken) -> bool) -> bool {
        if self.taken.iter().filter(|taken| of_kind(taken)).count() < max {
            return false;
        }
        let oldest = self.taken.iter().position(of_kind);
        if let Some(taken) = oldest.and_then(|at| self.taken.remove(at)) {
            taken.lost.cancel();
        }
        true
    }
}

impl Place {
    /// The connection is that of a node which knows the secret.
    pub(crate) fn proven(&self, id: NodeId, channel: ChannelKind, member: bool) {
        let mut state = self.places.state();
        // Lost meanwhile: the connection ends.
        let Some(at) = state.taken.iter().position(|taken| taken.number == self.number) else { return };
        let Some(mut taken) = state.taken.remove(at) else { return };
        taken.by = By::Node { id, channel, member };
        state.make_room(PER_CHANNEL_MAX, |older| older.by == taken.by);
        if !member {
            state.make_room(NOT_MEMBERS_MAX, |older| matches!(older.by, By::Node { member: false, .. }));
        }
        state.taken.push_back(taken);
    }

    /// Waits until another connection has this place.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.state().taken.retain(|taken| taken.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(places: &[Place]) -> Vec<usize> {
        (0..).zip(places).filter(|(_, place)| place.lost.is_cancelled()).map(|(at, _)| at).collect()
    }

    #[test]
    fn the_oldest_without_a_proof_gives_way_of_its_own_address_first() {
        let places = Arc::new(Places::default());
        let others_once: Vec<_> = (0..8).map(|n| places.take(&format!("10.0.0.{n}:1")).0).collect();
        let mut same: Vec<_> = (0..16).map(|n| places.take(&format!("[::1]:{n}")).0).collect();
        assert_eq!((lost(&others_once), lost(&same)), (vec![], vec![]));
        let (place, took) = places.take("[::1]:99");
        same.push(place);
        assert!(took);
        assert_eq!((lost(&others_once), lost(&same)), (vec![], vec![0]));
        let (other, took) = places.take("10.0.0.99:1");
        assert!(took);
        assert_eq!((lost(&others_once), lost(&same)), (vec![], vec![0, 1]), "all places are taken");
        drop((same, other));
        let _each_once: Vec<_> = (0..17).map(|n| places.take(&format!("10.0.1.{n}:1")).0).collect();
        assert_eq!(lost(&others_once), [0], "places are returned; the oldest goes when no address has more");
    }

    #[test]
    fn a_node_keeps_its_places_whatever_strangers_and_other_nodes_do() {
        let places = Arc::new(Places::default());
        let proven = |id, channel, member| {
            let (place, _) = places.take("10.0.0.1:1");
            place.proven(id, channel, member);
            place
        };
        let of_member: Vec<_> = ChannelKind::ALL.map(|channel| proven(2, channel, true)).into();
        let again: Vec<_> = ChannelKind::ALL.map(|channel| proven(2, channel, true)).into();
        let _strangers: Vec<_> = (0..200).map(|n| places.take(&format!("10.0.{n}.1:1")).0).collect();
        let others: Vec<_> = (0..30).map(|n| proven(100 + n, ChannelKind::Call, false)).collect();
        assert_eq!((lost(&of_member), lost(&again)), (vec![], vec![]));
        assert_eq!(lost(&others), (0..6).collect::<Vec<_>>());
        let _third = proven(2, ChannelKind::Append, true);
        assert_eq!((lost(&of_member), lost(&again)), (vec![1], vec![]));
        // The proof of the last one has left the place of a stranger.
        assert_eq!(places.state().taken.len(), 23 + 24 + 16);
    }
}
