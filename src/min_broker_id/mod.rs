//! NOTIFY_MIN_BROKER_ID_CHANGE (code 905): the brokers of a name learn that the lowest broker id of it has changed.
//!
//! Every node follows the applied entries and knows which notices are [`due`]; the leader alone hands them to the
//! [`sender`].

mod due;
mod sender;

pub use sender::send_all;

use crate::counter::Counter;
use crate::warn_limit::WarnLimit;
use due::DueNotices;
use raft::Node;
use std::future::Future;
use std::sync::Arc;
use storage::Position;
use storage::command::Name;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::Instant;

/// Notices that wait to be sent; more are dropped, with a warning.
const WAITING_MAX: usize = 1_024;

/// A notice to send: one request to each of `targets`, side by side, oneway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinBrokerIdNotice {
    /// Entry and place of the change.
    pub at: Position,
    /// Broker name.
    pub broker: Name,
    /// The lowest id now.
    pub min_id: i64,
    /// Its address.
    pub min_address: Name,
    /// HA address of the newcomer, when a lower id registered.
    pub ha_address: Option<Name>,
    /// Address that left, when the lowest id left.
    pub offline_address: Option<Name>,
    /// Addresses of the brokers that must hear it.
    pub targets: Vec<Name>,
}

/// Notices by what became of them, for metrics.
#[derive(Debug, Default)]
pub struct NoticeCounters {
    /// Given to the sender.
    pub due: Counter,
    /// Written to the socket of the broker.
    pub sent: Counter,
    /// Not sent: no connection, or the broker did not take the notice in time.
    pub failed: Counter,
}

/// Follows the entries that a node applies from now on. Gives the notices that it has to send, while the future runs;
/// that ends with the node. When the receiver is slow, notices are dropped and the log says so.
pub fn follow(
    node: &Node,
    counters: Arc<NoticeCounters>,
) -> (mpsc::Receiver<MinBrokerIdNotice>, impl Future<Output = ()> + Send + use<>) {
    let (outbox, notices) = mpsc::channel(WAITING_MAX);
    let (mut entries, mut leadership) = (node.entries(), node.leadership());
    leadership.mark_changed();
    let outbox = Outbox { outbox, counters, warnings: WarnLimit::new() };
    let following = async move {
        let mut due = DueNotices::default();
        loop {
            tokio::select! {
                biased;
                changed = leadership.changed() => {
                    let now = *leadership.borrow_and_update();
                    if changed.is_err() {
                        return;
                    }
                    outbox.put(due.leads(Instant::now(), now.leading.then_some(now.term)));
                }
                entry = entries.recv() => match entry {
                    Ok(entry) => {
                        let leads = leadership.borrow().leading;
                        outbox.put(due.applied(Instant::now(), &entry, leads));
                    }
                    Err(RecvError::Lagged(missed)) => {
                        tracing::warn!("{missed} entries were applied unseen: no min-broker-id notices go out for them");
                    }
                    Err(RecvError::Closed) => return,
                },
            }
        }
    };
    (notices, following)
}

/// Towards the sender.
struct Outbox {
    outbox: mpsc::Sender<MinBrokerIdNotice>,
    counters: Arc<NoticeCounters>,
    warnings: WarnLimit,
}

impl Outbox {
    fn put(&self, notices: Vec<MinBrokerIdNotice>) {
        for notice in notices {
            match self.outbox.try_send(notice) {
                Ok(()) => self.counters.due.add_one(),
                Err(TrySendError::Full(notice)) => {
                    if let Some(held_back) = self.warnings.allow() {
                        tracing::warn!(broker = %notice.broker, held_back, "min-broker-id notice dropped: too many wait");
                    }
                }
                Err(TrySendError::Closed(_)) => {}
            }
        }
    }
}
