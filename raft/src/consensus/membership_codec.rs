//! Memberships as bytes, for the log, the snapshots and the peers.

use super::types::{Membership, StoredMembership, log_id, raft_log_id};
use crate::local::Contact;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use storage::{LogId, format};

/// A membership as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EncodedMembership {
    /// Its entry; `None` when it travels inside that entry.
    at: Option<LogId>,
    /// Sets of voters: one, or two while a change is under way.
    voters: Vec<Vec<u64>>,
    /// All members, learners too.
    nodes: Vec<EncodedNode>,
}

/// A member as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EncodedNode {
    id: u64,
    address: String,
    directory_id: u128,
}

fn encode_at(at: Option<LogId>, membership: &Membership) -> io::Result<Bytes> {
    let voters = membership.get_joint_config().iter().map(|set| set.iter().copied().collect()).collect();
    let nodes = membership
        .nodes()
        .map(|(id, node)| EncodedNode {
            id: *id,
            address: node.address.clone(),
            directory_id: node.directory_id,
        })
        .collect();
    format::encode("membership", &EncodedMembership { at, voters, nodes })
        .map(Bytes::from)
        .map_err(io::Error::other)
}

fn decode_at(bytes: &[u8]) -> io::Result<(Option<LogId>, Membership)> {
    let broken = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let decoded: EncodedMembership =
        format::decode("membership", bytes).map_err(|e| broken(e.to_string()))?;
    let voters = decoded.voters.into_iter().map(|set| set.into_iter().collect::<BTreeSet<_>>()).collect();
    let nodes: BTreeMap<u64, Contact> = decoded
        .nodes
        .into_iter()
        .map(|n| (n.id, Contact { address: n.address, directory_id: n.directory_id }))
        .collect();
    let membership =
        Membership::new(voters, nodes).map_err(|e| broken(format!("membership is inconsistent: {e}")))?;
    Ok((decoded.at, membership))
}

/// Encodes the payload of a membership entry.
pub(crate) fn encode(membership: &Membership) -> io::Result<Bytes> {
    encode_at(None, membership)
}

/// Decodes the payload of a membership entry.
pub(crate) fn decode(bytes: &[u8]) -> io::Result<Membership> {
    Ok(decode_at(bytes)?.1)
}

/// Encodes a membership with its place in the log.
pub(crate) fn encode_stored(stored: &StoredMembership) -> io::Result<Bytes> {
    encode_at(stored.log_id().as_ref().map(log_id), stored.membership())
}

/// Decodes a membership with its place in the log.
pub(crate) fn decode_stored(bytes: &[u8]) -> io::Result<StoredMembership> {
    let (at, membership) = decode_at(bytes)?;
    Ok(StoredMembership::new(at.map(raft_log_id), membership))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joint() -> Membership {
        let nodes = [(1, "a:1", 10), (2, "b:2", 20), (3, "c:3", 30)]
            .map(|(id, address, directory_id)| (id, Contact { address: address.to_owned(), directory_id }));
        Membership::new(vec![BTreeSet::from([1, 2]), BTreeSet::from([2])], BTreeMap::from(nodes)).unwrap()
    }

    #[test]
    fn stored_bytes_stay_what_they_are() {
        let stored = StoredMembership::new(Some(raft_log_id(LogId { term: 3, index: 7 })), joint());
        let bytes = encode_stored(&stored).unwrap();
        let golden = [
            1, 1, 3, 7, 2, 2, 1, 2, 1, 2, 3, 1, 3, 97, 58, 49, 10, 2, 3, 98, 58, 50, 20, 3, 3, 99, 58, 51, 30,
        ];
        assert_eq!(bytes.as_ref(), golden);
        assert_eq!(decode_stored(&bytes).unwrap(), stored);
    }

    #[test]
    fn a_voter_without_a_node_is_refused() {
        let encoded = EncodedMembership { at: None, voters: vec![vec![1]], nodes: Vec::new() };
        let bytes = format::encode("membership", &encoded).unwrap();
        assert!(decode(&bytes).unwrap_err().to_string().contains("inconsistent"));
    }
}
