//! The handshake: both ends learn and check which node the other is, with a proof of the shared secret that does not show it.
//!
//! ```text
//! server → client   Challenge   the protocol's version, a random number
//! client → server   Hello       the client's info, the node it looks for, a random number, proof over all of it
//! server → client   Welcome     the server's info, its refusal if any, proof over all of it
//! ```
//! A client without the secret learns nothing but the challenge. A server without it learns which node called.
//!
//! The layout of the three messages never changes, so that nodes of different versions can refuse each other in words.
//! A later version says more after them.

use super::frame::{self, HANDSHAKE_BYTES_MAX};
use super::node_info::NodeInfo;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io;
use storage::format;
use storage::runtime::Runtime;
use tokio::io::{AsyncRead, AsyncWrite};

/// First bytes of a peer connection.
pub(crate) const MAGIC: [u8; 4] = *b"RNSP";
/// Version of everything that is sent on a peer connection after the handshake. The client names the version that it
/// speaks, and the server refuses one that it does not: so a server of a later version may also speak this one.
pub(crate) const PROTOCOL: u16 = 1;

/// What a channel to a peer carries. Channels do not share connections, so that none waits behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ChannelKind {
    /// Heartbeats, votes, leadership transfer.
    Control,
    /// Log entries.
    Append,
    /// Snapshots.
    Snapshot,
    /// Forwarded commands, read barriers, membership, bootstrap.
    Call,
    /// Messages of the application, in order; four of them.
    Message(u8),
}

impl ChannelKind {
    /// Every channel.
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

/// A new random number.
pub(crate) fn nonce(runtime: &dyn Runtime) -> Nonce {
    std::array::from_fn(|_| runtime.random_u64())
}

/// A keyed hash.
type Proof = [u8; 32];

/// The server's first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Challenge {
    magic: [u8; 4],
    protocol: u16,
    nonce: Nonce,
}

/// The client's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version it speaks.
    pub(crate) protocol: u16,
    /// What the connection carries.
    pub(crate) channel: ChannelKind,
    /// The node that the client looks for.
    pub(crate) target: u64,
    /// That node's data directory, as the client's membership names it.
    pub(crate) target_directory: Option<u128>,
    /// The client.
    pub(crate) info: NodeInfo,
    nonce: Nonce,
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Welcome {
    info: NodeInfo,
    refused: Option<Refusal>,
}

/// Why a server refuses a client that knows the secret.
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
    /// Before the bootstrap this channel carries nothing.
    #[error("the node belongs to no cluster yet")]
    NoCluster,
    /// The caller is not a member.
    #[error("this node is not a member")]
    CallerUnknown,
    /// The server does not speak the client's version of the protocol, but this one.
    #[error("the node speaks version {0} of the peer protocol")]
    OtherVersion(u16),
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// The connection broke, or its bytes are no handshake.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The peer does not know the secret.
    #[error("the peer has another secret")]
    Secret,
    /// The server refused the client. With the info of the other end.
    #[error("{0}")]
    Refused(Refusal, Box<NodeInfo>),
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

/// Splits a message from the proof after it.
fn split_proof(bytes: &[u8]) -> io::Result<(&[u8], &Proof)> {
    bytes
        .split_last_chunk::<32>()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a handshake without a proof"))
}

/// What a client states.
pub(crate) struct Client<'a> {
    /// Version it speaks.
    pub(crate) protocol: u16,
    /// The shared secret.
    pub(crate) secret: &'a [u8],
    /// What the connection carries.
    pub(crate) channel: ChannelKind,
    /// The node that the client looks for.
    pub(crate) target: u64,
    /// That node's data directory, as the client's membership names it.
    pub(crate) target_directory: Option<u128>,
    /// The client.
    pub(crate) info: NodeInfo,
    /// A new random number.
    pub(crate) nonce: Nonce,
}

/// The client's part. Gives the server's info.
pub(crate) async fn connect<S>(stream: &mut S, client: Client<'_>) -> Result<NodeInfo, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let challenge_bytes = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await?;
    let challenge: Challenge = decode("challenge", &challenge_bytes)?;
    if challenge.magic != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no peer port").into());
    }
    // The server gets the hello in any case, so that it can say what is wrong.
    let hello = Hello {
        protocol: client.protocol,
        channel: client.channel,
        target: client.target,
        target_directory: client.target_directory,
        info: client.info,
        nonce: client.nonce,
    };
    let hello_bytes = encode("hello", &hello)?;
    let proof = prove(client.secret, "client", &challenge_bytes, &[&hello_bytes]).finalize().into_bytes();
    frame::write_sized(stream, &[hello_bytes.as_slice(), proof.as_slice()].concat()).await?;

    let answer = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await.map_err(closed_early)?;
    let (welcome_bytes, proof) = split_proof(&answer)?;
    prove(client.secret, "server", &challenge_bytes, &[&hello_bytes, welcome_bytes])
        .verify_slice(proof)
        .map_err(|_| HandshakeError::Secret)?;
    let welcome: Welcome = decode("welcome", welcome_bytes)?;
    match welcome.refused {
        // An older server cannot know the client's version.
        None if challenge.protocol < client.protocol => {
            Err(HandshakeError::Refused(Refusal::OtherVersion(challenge.protocol), Box::new(welcome.info)))
        }
        None => Ok(welcome.info),
        Some(refusal) => Err(HandshakeError::Refused(refusal, Box::new(welcome.info))),
    }
}

/// A server closes the connection of an unauthenticated peer without an answer: the client only sees the end.
fn closed_early(e: io::Error) -> io::Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::new(e.kind(), "the peer hung up: is the peer secret the same on all nodes?");
    }
    e
}

/// What a server states before it knows the client.
pub(crate) struct Server<'a> {
    /// Newest version it speaks.
    pub(crate) protocol: u16,
    /// The shared secret.
    pub(crate) secret: &'a [u8],
    /// A new random number.
    pub(crate) nonce: Nonce,
}

/// The server's part. `authorize` gives this node's info, and the refusal if there is one.
pub(crate) async fn accept<S>(
    stream: &mut S,
    server: Server<'_>,
    authorize: impl FnOnce(&Hello) -> (NodeInfo, Option<Refusal>),
) -> Result<Hello, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Server { protocol, secret, nonce } = server;
    let challenge_bytes = encode("challenge", &Challenge { magic: MAGIC, protocol, nonce })?;
    frame::write_sized(stream, &challenge_bytes).await?;
    let received = frame::read(stream, HANDSHAKE_BYTES_MAX, || ()).await?;
    let (hello_bytes, proof) = split_proof(&received)?;
    prove(secret, "client", &challenge_bytes, &[hello_bytes])
        .verify_slice(proof)
        .map_err(|_| HandshakeError::Secret)?;
    let hello: Hello = decode("hello", hello_bytes)?;
    let (info, refused) = authorize(&hello);
    let welcome_bytes = encode("welcome", &Welcome { info, refused: refused.clone() })?;
    let proof =
        prove(secret, "server", &challenge_bytes, &[hello_bytes, &welcome_bytes]).finalize().into_bytes();
    frame::write_sized(stream, &[welcome_bytes.as_slice(), proof.as_slice()].concat()).await?;
    match refused {
        None => Ok(hello),
        Some(refusal) => Err(HandshakeError::Refused(refusal, Box::new(hello.info))),
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod checks;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::samples;
