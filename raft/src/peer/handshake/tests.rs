use super::checks::{client, hello, info, server};
use super::*;

#[tokio::test]
async fn both_ends_learn_who_the_other_is() {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let client = connect(&mut a, client(b"s"));
    let server = accept(&mut b, server(b"s"), |hello| {
        assert_eq!(
            (hello.target, hello.target_directory, hello.channel),
            (2, Some(200), ChannelKind::Append)
        );
        (info(2), None)
    });
    let (client, server) = tokio::join!(client, server);
    assert_eq!(client.unwrap(), info(2));
    assert_eq!(server.unwrap().info, info(1));
}

#[tokio::test]
async fn an_unauthenticated_peer_learns_nothing() {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let client = connect(&mut a, client(b"guess"));
    let server = async move {
        let result =
            accept(&mut b, server(b"s"), |_| unreachable!("an unauthenticated peer is not authorized")).await;
        drop(b);
        result
    };
    let (client, server) = tokio::join!(client, server);
    assert!(matches!(server, Err(HandshakeError::Secret)), "{server:?}");
    assert!(client.unwrap_err().to_string().contains("is the peer secret the same"));
}

#[tokio::test]
async fn a_refusal_arrives() {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let client = connect(&mut a, client(b"s"));
    let server = accept(&mut b, server(b"s"), |_| (info(2), Some(Refusal::CallerRemoved)));
    let (client, server) = tokio::join!(client, server);
    assert!(matches!(client, Err(HandshakeError::Refused(Refusal::CallerRemoved, _))), "{client:?}");
    assert!(matches!(server, Err(HandshakeError::Refused(Refusal::CallerRemoved, _))));
}

/// Of a client that speaks `speaks` and a server that speaks `offers` and also the version of this build.
async fn versions(speaks: u16, offers: u16) -> [Option<Refusal>; 2] {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let client = connect(&mut a, Client { protocol: speaks, ..client(b"s") });
    let server = accept(&mut b, Server { protocol: offers, ..server(b"s") }, |hello| {
        (info(2), (hello.protocol != PROTOCOL).then_some(Refusal::OtherVersion(offers)))
    });
    let (client, server) = tokio::join!(client, server);
    [client.err(), server.err()].map(|error| match error {
        None => None,
        Some(HandshakeError::Refused(refusal, _)) => Some(refusal),
        Some(other) => panic!("{other}"),
    })
}

#[tokio::test]
async fn nodes_without_a_common_version_refuse_each_other_and_later_ones_may_speak_ours() {
    let refused = |version| Some(Refusal::OtherVersion(version));
    assert_eq!(versions(PROTOCOL, PROTOCOL).await, [None, None]);
    assert_eq!(versions(PROTOCOL, PROTOCOL + 1).await, [None, None], "the server speaks this version too");
    assert_eq!(versions(PROTOCOL + 1, PROTOCOL).await, [refused(PROTOCOL), refused(PROTOCOL)]);
    assert_eq!(versions(PROTOCOL, PROTOCOL - 1).await, [refused(PROTOCOL - 1), None], "it did not look");
}

#[test]
fn bytes_of_the_handshake_stay_what_they_are() {
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: [1, 2, 3, 4] };
    assert_eq!(encode("challenge", &challenge).unwrap(), [1, 82, 78, 83, 80, 1, 1, 2, 3, 4]);
    assert_eq!(
        encode("hello", &hello(ChannelKind::Message(3))).unwrap(),
        [1, 1, 4, 3, 2, 1, 200, 1, 7, 1, 100, 0, 1, 2, 1, 1, 1, 2, 9, 1, 1, 0, 0, 1, 2, 3, 4]
    );
    let welcome = Welcome { info: info(2), refused: Some(Refusal::OtherCluster(5)) };
    assert_eq!(
        encode("welcome", &welcome).unwrap(),
        [1, 1, 7, 2, 200, 0, 1, 2, 1, 1, 1, 2, 9, 1, 1, 0, 0, 1, 2, 5]
    );
    let proof = prove(b"secret", "client", b"challenge", &[b"hello"]).finalize().into_bytes();
    assert_eq!(proof[..4], [32, 139, 96, 217]);
}

/// One of each part.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let refused = Welcome { info: info(2), refused: Some(Refusal::OtherCluster(5)) };
    let welcome = Welcome { info: info(2), refused: None };
    let challenge = Challenge { magic: MAGIC, protocol: PROTOCOL, nonce: [1, 2, 3, 4] };
    let samples = [
        encode("hello", &hello(ChannelKind::Message(3))),
        encode("welcome", &refused),
        encode("welcome", &welcome),
        encode("challenge", &challenge),
    ];
    samples.into_iter().map(Result::unwrap).collect()
}
