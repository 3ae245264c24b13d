//! Sends notices to brokers, over a connection of its own to each.

use super::{MinBrokerIdNotice, NoticeCounters};
use crate::protocol::notice::min_broker_id_changed;
use crate::warn_limit::WarnLimit;
use crate::wire::{Serialization, encode};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::command::Name;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

/// Time limit of a connect, and of a send.
const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// The addresses with a send in progress, each with the newest notice that waits behind it. So an unreachable broker
/// takes one permit, however often its broker name changes.
#[derive(Debug, Default)]
struct PendingSends(Mutex<HashMap<Name, Option<Bytes>>>);

impl PendingSends {
    fn begin(&self, target: &Name, frame: &Bytes) -> Begin {
        let mut all = self.all();
        match all.get_mut(target) {
            Some(next) => Begin::Queued { replaced: next.replace(frame.clone()).is_some() },
            None => {
                all.insert(Name::clone(target), None);
                Begin::Send
            }
        }
    }

    /// The notice that waited behind a send that has ended.
    fn next(&self, target: &Name) -> Option<Bytes> {
        let mut all = self.all();
        let next = all.get_mut(target).and_then(Option::take);
        if next.is_none() {
            all.remove(target);
        }
        next
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, Option<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do with a notice.
enum Begin {
    Send,
    /// It waits behind the send in progress, perhaps in place of an older one.
    Queued {
        replaced: bool,
    },
}

/// Sends each notice to its targets, to so many at one time, until the sender is dropped. An unreachable broker delays no other,
/// and this node does not try it again: the broker learns of the change with the reply to its next registration.
pub async fn send_all(
    mut notices: mpsc::Receiver<MinBrokerIdNotice>,
    serialization: Serialization,
    concurrent_max: usize,
    counters: Arc<NoticeCounters>,
) {
    let permits = Arc::new(Semaphore::new(concurrent_max));
    let sender =
        Arc::new(Sender { counters, pending: PendingSends::default(), warnings: WarnLimit::default() });
    let mut opaque = 0;
    while let Some(notice) = notices.recv().await {
        opaque += 1;
        let frame = frame(&notice, opaque, serialization);
        let (broker, targets) = (&notice.broker, notice.targets.len());
        tracing::debug!(%broker, min_id = notice.min_id, targets, "min-broker-id notice");
        for target in &notice.targets {
            if let Begin::Queued { replaced } = sender.pending.begin(target, &frame) {
                sender.counters.failed.add(u64::from(replaced));
                continue;
            }
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let (sender, target, frame) = (Arc::clone(&sender), Name::clone(target), frame.clone());
            tokio::spawn(async move {
                let _permit = permit;
                sender.send(&target, frame).await;
            });
        }
    }
}

/// What all sends share.
struct Sender {
    counters: Arc<NoticeCounters>,
    pending: PendingSends,
    warnings: WarnLimit,
}

impl Sender {
    /// Sends a notice to one broker, and then the notices that waited behind it.
    async fn send(&self, target: &Name, first: Bytes) {
        let mut next = Some(first);
        while let Some(frame) = next {
            match send(target, &frame).await {
                Ok(()) => self.counters.sent.add_one(),
                Err(error) => {
                    self.counters.failed.add_one();
                    if let Some(held_back) = self.warnings.allow() {
                        tracing::warn!(%target, %error, held_back, "a min-broker-id notice could not be sent");
                    }
                }
            }
            next = self.pending.next(target);
        }
    }
}

fn frame(notice: &MinBrokerIdNotice, opaque: i32, serialization: Serialization) -> Bytes {
    let command = min_broker_id_changed(
        opaque,
        notice.min_id,
        &notice.min_address,
        notice.ha_address.as_deref(),
        notice.offline_address.as_deref(),
    );
    let mut out = BytesMut::new();
    encode(&command.head(), &command.body, serialization, &mut out);
    out.freeze()
}

async fn send(target: &str, frame: &[u8]) -> io::Result<()> {
    let mut stream = tokio::time::timeout(STEP_TIMEOUT, TcpStream::connect(target)).await??;
    tokio::time::timeout(STEP_TIMEOUT, async {
        stream.write_all(frame).await?;
        stream.shutdown().await
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Position;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::{Instant, timeout};

    fn notice(targets: Vec<String>) -> MinBrokerIdNotice {
        MinBrokerIdNotice {
            at: Position { index: 1, number: 0 },
            broker: "b".into(),
            min_id: 1,
            min_address: "b:1".into(),
            ha_address: None,
            offline_address: None,
            targets: targets.into_iter().map(Name::from).collect(),
        }
    }

    /// A port of every loopback address on which connections are neither taken nor refused.
    async fn black_hole() -> (u16, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut waiting = Vec::new();
        let connect = || timeout(Duration::from_millis(500), TcpStream::connect(("127.0.0.1", port)));
        while let Ok(connected) = connect().await {
            waiting.push(connected.unwrap());
        }
        (port, listener, waiting)
    }

    #[tokio::test]
    async fn hundreds_of_black_holes_delay_no_other_broker_and_take_one_permit_each() {
        let (port, _listener, _waiting) = black_hole().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (to, notices) = mpsc::channel(16);
        let counters = Arc::new(NoticeCounters::default());
        let sending = tokio::spawn(send_all(notices, Serialization::Json, 1_024, Arc::clone(&counters)));
        let begun = Instant::now();
        let holes: Vec<_> =
            (0..300).map(|n| format!("127.0.{}.{}:{port}", 1 + n / 200, 1 + n % 200)).collect();
        for _ in 0..4 {
            to.send(notice(holes.clone())).await.unwrap();
        }
        to.send(notice(vec![listener.local_addr().unwrap().to_string()])).await.unwrap();
        let (mut stream, _) =
            timeout(STEP_TIMEOUT * 2, listener.accept()).await.expect("no notice in time").unwrap();
        assert!(stream.read_u32().await.unwrap() > 0);
        assert!(begun.elapsed() < STEP_TIMEOUT, "no other had ended: {:?}", begun.elapsed());
        assert_eq!(counters.failed.get(), 600, "the newest waits behind the first, instead of two others");
        sending.abort();
    }
}
