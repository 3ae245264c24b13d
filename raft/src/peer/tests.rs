//! Nodes that speak different versions of the peer protocol: both ends say so.

use super::authorize::version_key;
use super::dialer::Dialer;
use super::handshake::checks::{client, info, server};
use super::handshake::{self, ChannelKind, Client, HandshakeError, PROTOCOL, Refusal, Server};
use super::server::shake_hands;
use super::stream::{BoxedStream, NetworkFuture, PeerNetwork};
use crate::api::{Directory, Options, SnapshotPolicy, Timing};
use crate::local::{DiskState, LocalNode};
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};
use storage::checks::memory_log::MemoryLog;
use storage::runtime::SystemRuntime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const SECRET: &[u8] = b"s";
const LATER: u16 = PROTOCOL + 1;

/// The directory of a member of the cluster in [`info`].
struct OfAMember;

impl Directory for OfAMember {
    fn cluster_id(&self) -> Option<u128> {
        info(1).cluster_id
    }

    fn save_cluster_id(&self, _cluster_id: u128) -> io::Result<()> {
        Ok(())
    }
}

fn node(id: u64) -> Arc<LocalNode> {
    let directory = Arc::new(OfAMember);
    let options = Options {
        node_id: id,
        members: Vec::new(),
        timing: Timing::default(),
        secret: SECRET.to_vec(),
        initial_commands: Vec::new(),
        snapshots: SnapshotPolicy::default(),
        batch_commands_max: Options::BATCH_COMMANDS_MAX,
    };
    Arc::new(LocalNode {
        disk: DiskState::new(directory.clone()),
        options,
        directory_id: info(id).directory_id,
        directory,
        log: Arc::new(MemoryLog::default()),
        runtime: Arc::new(SystemRuntime),
        members: Default::default(),
        alerts: Default::default(),
        lifecycle: Default::default(),
    })
}

/// The messages of what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Visit for Lines {
    fn record_debug(&mut self, _field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_caller_of_a_later_version_is_refused_in_words_at_both_ends_once_in_a_while() {
    let (local, lines) = (node(2), Lines::default());
    let _logging = tracing::subscriber::set_default(lines.clone());
    for _ in 0..3 {
        let (mut near, far) = tokio::io::duplex(4096);
        let caller = Client { protocol: LATER, ..client(SECRET) };
        let (called, taken) = tokio::join!(
            handshake::connect(&mut near, caller),
            shake_hands(&local, Box::new(far), "10.0.0.1:40000")
        );
        assert!(taken.is_none());
        let Err(HandshakeError::Refused(refusal, _)) = called else { panic!("{called:?}") };
        assert_eq!(refusal, Refusal::OtherVersion(PROTOCOL));
    }
    let lines = lines.0.lock().unwrap();
    let expected = format!(
        "node 1 at 10.0.0.1:40000 speaks version {LATER} of the peer protocol, and node 2, this one, version {PROTOCOL}: \
         they cannot talk to each other. Run a newer release of raft-namesrv on node 2"
    );
    assert_eq!(*lines, [expected]);
    assert!(local.alerts.texts().is_empty(), "it tells of a caller only while it calls");
}

/// Node 2 of a later version; or nothing, once it is gone.
struct Later {
    gone: Mutex<bool>,
}

impl PeerNetwork for Later {
    fn connect<'a>(&'a self, _address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        if *self.gone.lock().unwrap() {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let (near, mut far) = tokio::io::duplex(4096);
        tokio::spawn(async move {
            let later = Server { protocol: LATER, ..server(SECRET) };
            let refused = |_: &_| (info(2), Some(Refusal::OtherVersion(LATER)));
            handshake::accept(&mut far, later, refused).await
        });
        Box::pin(async move {
            let near: BoxedStream = Box::new(near);
            Ok(near)
        })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn the_alert_about_a_peer_of_a_later_version_ends_when_the_peer_is_gone() {
    let (local, network) = (node(1), Arc::new(Later { gone: Mutex::new(false) }));
    let dialer = Dialer::new(Arc::clone(&local), Arc::clone(&network) as Arc<dyn PeerNetwork>);
    let call = || async { dialer.connect_to(2, ChannelKind::Control, None, "b:9976").await.err() };
    assert_eq!(call().await.unwrap(), format!("the node speaks version {LATER} of the peer protocol"));
    let alert = local.alerts.texts().concat();
    let parts = [format!("node 2 at b:9976 speaks version {LATER}"), format!("version {PROTOCOL}:")];
    assert!(parts.iter().all(|part| alert.contains(part)), "{alert}");
    assert!(alert.contains("Run a newer release of raft-namesrv on node 1"), "{alert}");
    *network.gone.lock().unwrap() = true;
    assert!(call().await.is_some());
    assert!(local.alerts.texts().is_empty(), "{}", version_key(2));
}
