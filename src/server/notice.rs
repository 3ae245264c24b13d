//! Tells brokers that the lowest id of their name changed (905): over a connection that this node opens to each.

use super::Counter;
use crate::liveness::MinBrokerIdNotice;
use crate::protocol::notice::min_broker_id_changed;
use crate::warn_limit::WarnLimit;
use crate::wire::{Serialization, encode};
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::command::Name;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

/// Connect, and send, each at most.
const STEP: Duration = Duration::from_secs(3);
/// Notices on their way at one time.
const SIDE_BY_SIDE: usize = 256;

/// What became of notices, for metrics.
#[derive(Debug, Default)]
pub struct NoticeCounters {
    /// Handed to the socket of the broker.
    pub sent: Counter,
    /// Not sent: no connection, or not taken in time.
    pub failed: Counter,
}

/// Sends each notice to its targets, side by side, until the sender's end is gone. A broker that cannot be reached
/// holds up nobody, and is not tried again: it hears of the change with its next registration.
pub async fn send_all(
    mut notices: mpsc::Receiver<MinBrokerIdNotice>,
    serialization: Serialization,
    counters: Arc<NoticeCounters>,
) {
    let places = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let warnings = Arc::new(WarnLimit::default());
    let mut opaque = 0;
    while let Some(notice) = notices.recv().await {
        opaque += 1;
        let frame = frame(&notice, opaque, serialization);
        tracing::debug!(broker = %notice.broker, min_id = notice.min_id, targets = notice.targets.len(), "notice");
        for target in &notice.targets {
            let (target, frame) = (Name::clone(target), frame.clone());
            let (counters, warnings) = (Arc::clone(&counters), Arc::clone(&warnings));
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            tokio::spawn(async move {
                let _place = place;
                match send(&target, &frame).await {
                    Ok(()) => counters.sent.add_one(),
                    Err(error) => {
                        counters.failed.add_one();
                        if let Some(held_back) = warnings.allow() {
                            tracing::warn!(%target, %error, held_back, "a broker could not be told its group's lowest id");
                        }
                    }
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
