//! What must hold for any bytes in a handshake. See [`crate::checks`].

use super::*;
use crate::peer::node_info::CAPABILITIES;
use futures_util::FutureExt;
use storage::{LogId, Vote};

const SECRET: &[u8] = b"secret";
const NONCE: Nonce = [9; 4];

pub(crate) fn info(node_id: u64) -> NodeInfo {
    NodeInfo {
        cluster_id: Some(7),
        node_id,
        directory_id: u128::from(node_id) * 100,
        capabilities: CAPABILITIES,
        vote: Some(Vote { term: 2, node: 1, committed: true }),
        last: Some(LogId { term: 2, index: 9 }),
        members_at: Some(LogId { term: 1, index: 0 }),
        tail_truncated: false,
    }
}

pub(crate) fn client(secret: &[u8]) -> Client<'_> {
    Client {
        protocol: PROTOCOL,
        secret,
        channel: ChannelKind::Append,
        target: 2,
        target_directory: Some(200),
        info: info(1),
        nonce: [1, 2, 3, 4],
    }
}

pub(crate) fn server(secret: &[u8]) -> Server<'_> {
    Server { protocol: PROTOCOL, secret, nonce: NONCE }
}

/// The message of [`client`], on a channel.
pub(super) fn hello(channel: ChannelKind) -> Hello {
    let Client { target, target_directory, info, nonce, .. } = client(SECRET);
    Hello { protocol: PROTOCOL, channel, target, target_directory, info, nonce }
}

/// A peer without the secret is refused, whatever bytes it sends, and gets nothing but the challenge.
pub(crate) fn unauthenticated(bytes: &[u8]) {
    let mut sent = Vec::new();
    let mut stream = tokio::io::join(bytes, &mut sent);
    let authorize = |_: &Hello| unreachable!("an unauthenticated peer is authorized");
    let accepted = accept(&mut stream, server(SECRET), authorize).now_or_never();
    assert!(matches!(accepted, Some(Err(HandshakeError::Broken(_) | HandshakeError::Secret))));
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: NONCE };
    assert_eq!(encode("challenge", &challenge).ok().as_deref(), sent.get(4..));

    let mut stream = tokio::io::join(bytes, tokio::io::sink());
    let connected = connect(&mut stream, client(SECRET)).now_or_never();
    assert!(matches!(connected, Some(Err(HandshakeError::Broken(_) | HandshakeError::Secret))));
}

/// The bytes as a hello and as a welcome of a peer that knows the secret.
pub(crate) fn parts(bytes: &[u8]) {
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: NONCE };
    let Ok(challenge) = encode("challenge", &challenge) else { return };
    let Ok(expected_hello) = encode("hello", &hello(ChannelKind::Append)) else { return };
    let proof = prove(SECRET, "client", &challenge, &[bytes]).finalize().into_bytes();
    let received = sized(&[bytes, proof.as_slice()].concat());
    let mut stream = tokio::io::join(&*received, tokio::io::sink());
    let accepted = accept(&mut stream, server(SECRET), |_| (info(2), None)).now_or_never();
    match accepted {
        Some(Ok(hello)) => {
            let again = encode("hello", &hello).and_then(|bytes| decode::<Hello>("hello", &bytes));
            assert_eq!(again.ok(), Some(hello));
        }
        Some(Err(HandshakeError::Broken(_))) => {}
        other => unreachable!("a client with the secret: {other:?}"),
    }

    let proof = prove(SECRET, "server", &challenge, &[&expected_hello, bytes]).finalize().into_bytes();
    let received = [sized(&challenge), sized(&[bytes, proof.as_slice()].concat())].concat();
    let mut stream = tokio::io::join(&*received, tokio::io::sink());
    let connected = connect(&mut stream, client(SECRET)).now_or_never();
    assert!(!matches!(connected, None | Some(Err(HandshakeError::Secret))), "{connected:?}");
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), bytes].concat()
}
