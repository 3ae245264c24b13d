//! Tells brokers that the lowest id of their name changed (905): over a connection that this node opens to each.

use crate::counter::Counter;
use crate::liveness::MinBrokerIdNotice;
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

/// Connect, and send, each at most.
const STEP: Duration = Duration::from_secs(3);
/// Addresses that are sent to at one time.
const SIDE_BY_SIDE: usize = 1024;

/// What became of notices, for metrics.
#[derive(Debug, Default)]
pub struct NoticeCounters {
    /// Handed to the socket of the broker.
    pub sent: Counter,
    /// Not sent: no connection, or not taken in time.
    pub failed: Counter,
}

/// Addresses that are being sent to, each with the newest notice that waits behind: one that cannot be reached takes one
/// place, whatever happens in its group.
#[derive(Debug, Default)]
struct UnderWay(Mutex<HashMap<Name, Option<Bytes>>>);

impl UnderWay {
    fn begin(&self, target: &Name, frame: &Bytes) -> Begun {
        let mut all = self.all();
        match all.get_mut(target) {
            Some(next) => Begun::Waits { instead_of_another: next.replace(frame.clone()).is_some() },
            None => {
                all.insert(Name::clone(target), None);
                Begun::Now
            }
        }
    }

    /// What waited behind the one that ended.
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

/// Whether a notice is sent now.
enum Begun {
    Now,
    Waits { instead_of_another: bool },
}

/// Sends each notice to its targets, side by side, until the sender's end is gone. A broker that cannot be reached
/// holds up nobody, and is not tried again: it hears of the change with its next registration.
pub async fn send_all(
    mut notices: mpsc::Receiver<MinBrokerIdNotice>,
    serialization: Serialization,
    counters: Arc<NoticeCounters>,
) {
    let places = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let (warnings, under_way) = (Arc::new(WarnLimit::default()), Arc::new(UnderWay::default()));
    let mut opaque = 0;
    while let Some(notice) = notices.recv().await {
        opaque += 1;
        let frame = frame(&notice, opaque, serialization);
        tracing::debug!(broker = %notice.broker, min_id = notice.min_id, targets = notice.targets.len(), "notice");
        for target in &notice.targets {
            if let Begun::Waits { instead_of_another } = under_way.begin(target, &frame) {
                counters.failed.add(u64::from(instead_of_another));
                continue;
            }
            let (target, mut frame) = (Name::clone(target), frame.clone());
            let (counters, warnings) = (Arc::clone(&counters), Arc::clone(&warnings));
            let under_way = Arc::clone(&under_way);
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            tokio::spawn(async move {
                let _place = place;
                loop {
                    match send(&target, &frame).await {
                        Ok(()) => counters.sent.add_one(),
                        Err(error) => {
                            counters.failed.add_one();
                            if let Some(held_back) = warnings.allow() {
                                tracing::warn!(%target, %error, held_back, "a broker could not be told its group's lowest id");
                            }
                        }
                    }
                    let Some(next) = under_way.next(&target) else { return };
                    frame = next;
                }
            });
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
    let mut stream = tokio::time::timeout(STEP, TcpStream::connect(target)).await??;
    tokio::time::timeout(STEP, async {
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
    async fn hundreds_of_black_holes_delay_nobody_and_take_one_place_each() {
        let (port, _listener, _waiting) = black_hole().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (to, notices) = mpsc::channel(16);
        let counters = Arc::new(NoticeCounters::default());
        let sending = tokio::spawn(send_all(notices, Serialization::Json, Arc::clone(&counters)));
        let begun = Instant::now();
        let holes: Vec<_> =
            (0..300).map(|n| format!("127.0.{}.{}:{port}", 1 + n / 200, 1 + n % 200)).collect();
        for _ in 0..4 {
            to.send(notice(holes.clone())).await.unwrap();
        }
        to.send(notice(vec![listener.local_addr().unwrap().to_string()])).await.unwrap();
        let (mut stream, _) = timeout(STEP * 2, listener.accept()).await.expect("no notice in time").unwrap();
        assert!(stream.read_u32().await.unwrap() > 0);
        assert!(begun.elapsed() < STEP, "no other had ended: {:?}", begun.elapsed());
        assert_eq!(counters.failed.get(), 600, "the newest waits behind the first, instead of two others");
        sending.abort();
    }
}
