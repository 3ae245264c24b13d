//! Three nodes on real logs and real snapshots: killed one after the other under load, they lose nothing and agree.

use crate::common::{eventually, free_address, in_secs, listen, put, quick};
use bytes::Bytes;
use raft::{Directory, Member, Node, NodeId, Options, Parts, PeerMessages, SnapshotPolicy, TcpPeers, Timing};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use storage::directory;
use storage::files::SystemFiles;
use storage::log::LogOptions;
use storage::runtime::SystemRuntime;
use storage::snapshots::SledSnapshots;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;

struct Echo;

impl PeerMessages for Echo {
    fn handle(&self, _: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>> {
        Box::pin(async { message })
    }
}

/// Opens a node on a directory; while the tasks of a killed one still hold it, tries again.
async fn open(path: &Path, options: &Options) -> (Node, Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (path, options) = (path.to_owned(), options.clone());
    let opened = runtime.spawn(async move {
        let files = Arc::new(SystemFiles);
        let me = options.node_id;
        let opened = loop {
            let log = LogOptions::default();
            match directory::Directory::open(&path, me, files.clone(), Arc::new(SystemRuntime), log) {
                Ok(opened) => break opened,
                Err(directory::OpenError::Locked { .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                Err(e) => panic!("{e}"),
            }
        };
        let address = options.members.iter().find(|m| m.id == me).unwrap().address.clone();
        let listener = listen(&address).await;
        let snapshots = SledSnapshots::open(&opened.directory.snapshots()).unwrap();
        let parts = Parts {
            log: opened.log,
            snapshots: Arc::new(snapshots),
            runtime: Arc::new(SystemRuntime),
            network: Arc::new(TcpPeers::new(listener)),
            directory_id: opened.directory.id(),
            directory: Arc::clone(opened.directory.marker()) as Arc<dyn Directory>,
            messages: Arc::new(Echo),
        };
        Node::open(options, parts).await.unwrap()
    });
    let node = opened.await.unwrap();
    (node, runtime)
}

/// Directories and options of three nodes.
fn three(timing: Timing, snapshots: SnapshotPolicy) -> (Vec<TempDir>, Vec<Options>) {
    let members: Vec<Member> = (1..=3).map(|id| Member { id, address: free_address() }).collect();
    let options = (1..=3).map(|node_id| Options {
        node_id,
        members: members.clone(),
        timing,
        secret: b"secret".to_vec(),
        initial_commands: Vec::new(),
        snapshots,
        batch_commands_max: Options::BATCH_COMMANDS_MAX,
    });
    ((0..3).map(|_| tempfile::tempdir().unwrap()).collect(), options.collect())
}

#[tokio::test]
async fn killed_one_after_the_other_they_lose_nothing_and_agree() {
    let snapshots = SnapshotPolicy { entries: 60, ..SnapshotPolicy::default() };
    let (dirs, options) = three(quick(), snapshots);
    let mut nodes = Vec::new();
    for (dir, options) in dirs.iter().zip(&options) {
        nodes.push(Some(open(dir.path(), options).await));
    }
    let mut acknowledged = Vec::new();
    for round in 0..6 {
        let victim = round % 3;
        for i in 0..60 {
            if i == 20 {
                let (node, runtime) = nodes[victim].take().unwrap();
                drop(node);
                runtime.shutdown_background();
            }
            let (writer, _) = nodes.iter().flatten().nth(i % 2).unwrap();
            let key = format!("{round}-{i}");
            if writer.propose(put(&key, "v"), in_secs(15)).await.is_ok() {
                acknowledged.push(key);
            }
        }
        nodes[victim] = Some(open(dirs[victim].path(), &options[victim]).await);
    }
    assert!(acknowledged.len() > 330, "{} of 360", acknowledged.len());
    let all: Vec<&Node> = nodes.iter().flatten().map(|(node, _)| node).collect();
    let last = all[0].read_barrier(in_secs(15)).await.unwrap();
    for node in &all {
        node.wait_applied(last, in_secs(15)).await.unwrap();
    }
    eventually("all at one revision", || {
        all.iter().all(|n| n.table().revision() == all[0].table().revision())
    })
    .await;
    for node in &all {
        assert_eq!(node.table().state_hash(), all[0].table().state_hash());
        for key in &acknowledged {
            assert!(node.table().kv("test", key).is_some(), "{key} is lost");
        }
        assert!(node.status().snapshot.is_some());
        node.shutdown().await;
    }
    for (_, runtime) in nodes.into_iter().flatten() {
        runtime.shutdown_background();
    }
}

/// The load under which openraft's core was reported to die (its purge overtakes its apply), at the size of that report:
/// values of 1 KiB as fast as two cores take them, a snapshot for every 50,000 of them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes of full load; `make soak` runs it"]
async fn sustained_load_with_snapshots_does_not_kill_the_core() {
    const WRITERS: usize = 512;
    const VALUE_BYTES: usize = 1024;
    let seconds = std::env::var("SOAK_SECONDS").map_or(150, |text| text.parse().unwrap());
    let policy = SnapshotPolicy { log_bytes: 50_000 * VALUE_BYTES as u64, ..SnapshotPolicy::default() };
    let (dirs, options) = three(Timing::default(), policy);
    let mut nodes = Vec::new();
    for (dir, options) in dirs.iter().zip(&options) {
        nodes.push(open(dir.path(), options).await);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let value = "v".repeat(VALUE_BYTES);
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| {
            let (node, value) = (nodes[w % 3].0.clone(), value.clone());
            tokio::spawn(async move {
                let (mut written, mut refused) = (0_u64, 0_u64);
                while Instant::now() < end {
                    let key = format!("{w}-{}", written % 8);
                    match node.propose(put(&key, &format!("{written}{value}")), in_secs(10)).await {
                        Ok(_) => written += 1,
                        Err(_) => refused += 1,
                    }
                }
                (written, refused)
            })
        })
        .collect();
    let (mut written, mut refused) = (0, 0);
    for writer in writers {
        let (done, not) = writer.await.unwrap();
        (written, refused) = (written + done, refused + not);
    }
    let last = nodes[0].0.read_barrier(in_secs(30)).await.unwrap();
    for (node, _) in &nodes {
        let dead = tokio::time::timeout(Duration::from_millis(1), node.died()).await;
        assert!(dead.is_err(), "{dead:?}");
        node.wait_applied(last, in_secs(60)).await.unwrap();
        assert_eq!(node.table().state_hash(), nodes[0].0.table().state_hash());
        let status = node.status();
        println!(
            "snapshot at {:?}, purged up to {:?}, last {:?}",
            status.snapshot, status.purged, status.last
        );
        assert!(status.purged.is_some(), "no purge: the load was too small to show anything");
    }
    println!("{written} written, {refused} refused in {seconds} s");
    for (node, runtime) in nodes {
        node.shutdown().await;
        runtime.shutdown_background();
    }
}
