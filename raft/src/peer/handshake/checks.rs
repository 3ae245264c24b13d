//! What must hold for any bytes in a handshake. See [`crate::peer::checks`].

use super::*;
use futures_util::FutureExt;

const SECRET: &[u8] = b"secret";
const NONCE: Nonce = [9; 4];

pub(super) fn facts(node_id: u64) -> Facts {
    Facts {
        cluster_id: Some(7),
        node_id,
        directory_id: u128::from(node_id) * 100,
        capabilities: CAPABILITIES,
        vote: Some(Vote { term: 2, node: 1, committed: true }),
        last: Some(LogId { term: 2, index: 9 }),
        members_at: Some(LogId { term: 1, index: 0 }),
        log_was_cut: false,
    }
}

pub(super) fn caller(secret: &[u8]) -> Caller<'_> {
    Caller {
        secret,
        lane: Lane::Append,
        target: 2,
        target_directory: Some(200),
        facts: facts(1),
        nonce: [1, 2, 3, 4],
    }
}

/// What [`caller`] says, on a lane.
pub(super) fn hello(lane: Lane) -> Hello {
    let Caller { target, target_directory, facts, nonce, .. } = caller(SECRET);
    Hello { protocol: PROTOCOL, lane, target, target_directory, facts, nonce }
}

/// Who does not know the secret is not let in, whatever they say, and is told nothing but the challenge.
pub(crate) fn strangers(bytes: &[u8]) {
    let mut said = Vec::new();
    let mut stream = tokio::io::join(bytes, &mut said);
    let judge = |_: &Hello| unreachable!("a stranger is judged");
    let answered = answer(&mut stream, SECRET, NONCE, judge).now_or_never();
    assert!(matches!(answered, Some(Err(HandshakeError::Broken(_) | HandshakeError::Secret))));
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: NONCE };
    assert_eq!(encode("challenge", &challenge).ok().as_deref(), said.get(4..));

    let mut stream = tokio::io::join(bytes, tokio::io::sink());
    let called = call(&mut stream, caller(SECRET)).now_or_never();
    assert!(matches!(called, Some(Err(HandshakeError::Broken(_) | HandshakeError::Secret))));
}

/// The bytes as a hello and as a welcome of somebody who knows the secret.
pub(crate) fn parts(bytes: &[u8]) {
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: NONCE };
    let Ok(challenge) = encode("challenge", &challenge) else { return };
    let Ok(expected_hello) = encode("hello", &hello(Lane::Append)) else { return };
    let proof = prove(SECRET, "client", &challenge, &[bytes]).finalize().into_bytes();
    let said = sized(&[bytes, proof.as_slice()].concat());
    let mut stream = tokio::io::join(&*said, tokio::io::sink());
    let answered = answer(&mut stream, SECRET, NONCE, |_| (facts(2), None)).now_or_never();
    match answered {
        Some(Ok(hello)) => {
            let again = encode("hello", &hello).and_then(|bytes| decode::<Hello>("hello", &bytes));
            assert_eq!(again.ok(), Some(hello));
        }
        Some(Err(HandshakeError::Broken(_))) => {}
        other => unreachable!("a caller with the secret: {other:?}"),
    }

    let proof = prove(SECRET, "server", &challenge, &[&expected_hello, bytes]).finalize().into_bytes();
    let said = [sized(&challenge), sized(&[bytes, proof.as_slice()].concat())].concat();
    let mut stream = tokio::io::join(&*said, tokio::io::sink());
    let called = call(&mut stream, caller(SECRET)).now_or_never();
    assert!(!matches!(called, None | Some(Err(HandshakeError::Secret))), "{called:?}");
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), bytes].concat()
}
