//! The handshake: who is who, checked both ways, with a proof of the shared secret that does not show it.
//!
//! ```text
//! server → client   Challenge   what we speak, a random number
//! client → server   Hello       who I am, whom I look for, a random number, proof over all of it
//! server → client   Welcome     who I am, my verdict, proof over all of it
//! ```
//! A client without the secret learns nothing but the challenge. A server without it learns who called.

use super::frame::{self, HANDSHAKE_BYTES_MAX};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io;
use storage::{LogId, Vote, format};
use tokio::io::{AsyncRead, AsyncWrite};

/// First bytes of a peer connection.
pub(crate) const MAGIC: [u8; 4] = *b"RNSP";
/// Version of everything that is said on a peer connection.
pub(crate) const PROTOCOL: u16 = 1;
/// What this version can do beyond the protocol's base; none yet.
pub(crate) const CAPABILITIES: u64 = 0;

/// What a connection is for. Kinds do not share connections, so that none waits behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Lane {
    /// Heartbeats, votes, transfer of leadership.
    Control,
    /// Log entries.
    Append,
    /// Snapshots.
    Snapshot,
    /// Forwarded commands, read barriers, membership, birth.
    Call,
    /// Messages of the application, in order; four of them.
    Message(u8),
}

impl Lane {
    /// Every lane.
    pub(crate) const ALL: [Self; 8] = [
        Self::Control,
        Self::Append,
        Self::Snapshot,
        Self::Call,
        Self::Message(0),
        Self::Message(1),
        Self::Message(2),
        Self::Message(3),
    ];
}

/// A random number, used once.
pub(crate) type Nonce = [u64; 4];
/// A keyed hash.
type Proof = [u8; 32];

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Its cluster; `None` before birth.
    pub(crate) cluster_id: Option<u128>,
    /// Its id.
    pub(crate) node_id: u64,
    /// Its data directory.
    pub(crate) directory_id: u128,
    /// What it can do beyond the base.
    pub(crate) capabilities: u64,
    /// Its vote.
    pub(crate) vote: Option<Vote>,
    /// Last entry of its log.
    pub(crate) last: Option<LogId>,
    /// Where its newest membership stands in the log.
    pub(crate) members_at: Option<LogId>,
    /// An unsynced tail of its log was cut when it started.
    pub(crate) log_was_cut: bool,
}

/// What the server says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Challenge {
    magic: [u8; 4],
    protocol: u16,
    nonce: Nonce,
}

/// What the client says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version it speaks.
    protocol: u16,
    /// What the connection is for.
    pub(crate) lane: Lane,
    /// The node it looks for.
    pub(crate) target: u64,
    /// The data directory that counts as that node, when it knows.
    pub(crate) target_directory: Option<u128>,
    /// Who it is.
    pub(crate) facts: Facts,
    nonce: Nonce,
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Welcome {
    facts: Facts,
    refused: Option<Refusal>,
}

/// Why a node that knows the secret is turned away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refusal {
    /// The address leads to another node.
    #[error("this address is node {0}")]
    OtherNode(u64),
    /// The target has another data directory than the caller's membership says: it was wiped or restored.
    #[error("the node has another data directory than the membership says")]
    OtherDirectory,
    /// The target belongs to another cluster.
    #[error("the node belongs to cluster {0:032x}")]
    OtherCluster(u128),
    /// The caller's id is known with another data directory: the caller was wiped or copied.
    #[error("this node's id is known with another data directory")]
    CallerDirectory,
    /// The caller is no member any more.
    #[error("this node was removed from the cluster")]
    CallerRemoved,
    /// Before the cluster's birth there is nothing to say on this lane.
    #[error("the node belongs to no cluster yet")]
    NoCluster,
    /// The caller is not a member.
    #[error("this node is not a member")]
    CallerUnknown,
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// The connection broke, or something that is not a handshake came.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The peer does not know the secret.
    #[error("the peer has another secret")]
    Secret,
    /// The peer turned us away. With what it said of itself.
    #[error("{0}")]
    Refused(Refusal, Box<Facts>),
}

fn prove(secret: &[u8], role: &str, challenge: &[u8], rest: &[&[u8]]) -> Hmac<Sha256> {
    // Keys of any length are fine for HMAC: this cannot fail.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&Default::default()));
    for part in std::iter::once(role.as_bytes()).chain([challenge]).chain(rest.iter().copied()) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

fn encode<T: Serialize>(what: &'static str, value: &T) -> io::Result<Vec<u8>> {
    format::encode(what, value).map_err(io::Error::other)
}

fn decode<T: serde::de::DeserializeOwned>(what: &'static str, bytes: &[u8]) -> io::Result<T> {
    format::decode(what, bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Splits what was said from the proof after it.
fn split_proof(bytes: &[u8]) -> io::Result<(&[u8], &Proof)> {
    bytes
        .split_last_chunk::<32>()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a handshake without a proof"))
}

/// What a client brings.
pub(crate) struct Caller<'a> {
    /// The shared secret.
    pub(crate) secret: &'a [u8],
    /// What the connection is for.
    pub(crate) lane: Lane,
    /// The node it looks for.
    pub(crate) target: u64,
    /// The data directory that counts as that node, when known.
    pub(crate) target_directory: Option<u128>,
    /// Who it is.
    pub(crate) facts: Facts,
    /// A fresh random number.
    pub(crate) nonce: Nonce,
}

/// The client's part. Gives what the server says of itself.
pub(crate) async fn call<S>(stream: &mut S, caller: Caller<'_>) -> Result<Facts, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let challenge_bytes = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await?;
    let challenge: Challenge = decode("challenge", &challenge_bytes)?;
    if challenge.magic != MAGIC || challenge.protocol != PROTOCOL {
        let reason = format!("the peer speaks protocol {}, this node {PROTOCOL}", challenge.protocol);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
    }
    let hello = Hello {
        protocol: PROTOCOL,
        lane: caller.lane,
        target: caller.target,
        target_directory: caller.target_directory,
        facts: caller.facts,
        nonce: caller.nonce,
    };
    let hello_bytes = encode("hello", &hello)?;
    let proof = prove(caller.secret, "client", &challenge_bytes, &[&hello_bytes]).finalize().into_bytes();
    frame::write_sized(stream, &[hello_bytes.as_slice(), proof.as_slice()].concat()).await?;

    let answer = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await.map_err(closed_early)?;
    let (welcome_bytes, proof) = split_proof(&answer)?;
    prove(caller.secret, "server", &challenge_bytes, &[&hello_bytes, welcome_bytes])
        .verify_slice(proof)
        .map_err(|_| HandshakeError::Secret)?;
    let welcome: Welcome = decode("welcome", welcome_bytes)?;
    match welcome.refused {
        None => Ok(welcome.facts),
        Some(refusal) => Err(HandshakeError::Refused(refusal, Box::new(welcome.facts))),
    }
}

/// A stranger is cut off without a word: the caller only sees the end.
fn closed_early(e: io::Error) -> io::Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::new(e.kind(), "the peer hung up: is the peer secret the same on all nodes?");
    }
    e
}

/// The server's part. `judge` says who this node is, and whether the caller is taken.
pub(crate) async fn answer<S>(
    stream: &mut S,
    secret: &[u8],
    nonce: Nonce,
    judge: impl FnOnce(&Hello) -> (Facts, Option<Refusal>),
) -> Result<Hello, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let challenge_bytes = encode("challenge", &Challenge { magic: MAGIC, protocol: PROTOCOL, nonce })?;
    frame::write_sized(stream, &challenge_bytes).await?;
    let said = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await?;
    let (hello_bytes, proof) = split_proof(&said)?;
    prove(secret, "client", &challenge_bytes, &[hello_bytes])
        .verify_slice(proof)
        .map_err(|_| HandshakeError::Secret)?;
    let hello: Hello = decode("hello", hello_bytes)?;
    let (facts, refused) = judge(&hello);
    let welcome_bytes = encode("welcome", &Welcome { facts, refused: refused.clone() })?;
    let proof =
        prove(secret, "server", &challenge_bytes, &[hello_bytes, &welcome_bytes]).finalize().into_bytes();
    frame::write_sized(stream, &[welcome_bytes.as_slice(), proof.as_slice()].concat()).await?;
    match refused {
        None => Ok(hello),
        Some(refusal) => Err(HandshakeError::Refused(refusal, Box::new(hello.facts))),
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod checks;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::samples;
