//! What nodes send each other beside the log, as bytes. New variants go at the end.

use super::Strength;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storage::Position;
use storage::format::{self, FormatError};
use storage::route_info::BrokerKey;

/// Format of these messages, before the message itself. Messages of the first format began with 0, 1 or 2, so that no
/// node takes one for the other.
const FORMAT: u8 = 3;

/// A message to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// The next part of the sender's stream to the leader.
    Report(Report),
    /// The leader wants a report that is younger than this probe, at once.
    Probe(Probe),
    /// The sender has no leader: does this voter answer?
    Ping,
    /// The sender asks the leader for the idle times of all brokers.
    IdleTimes,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To a report.
    Report(ReportAnswer),
    /// To a probe and a ping: it arrived.
    Received,
    /// Milliseconds since each broker's last heartbeat; from the leader only.
    IdleTimes(Vec<(BrokerKey, u64)>),
    /// Not understood, or this node does not lead.
    Refused,
}

/// A part of the ordered stream that a process sends to one leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Random id of the sending process.
    pub(super) process: u64,
    /// Number within the stream.
    pub(super) sequence: u64,
    /// The newest probe of the receiver that this report is younger than.
    pub(super) probe: Option<Probe>,
    /// What happened to sessions.
    pub(super) sessions: SessionReport,
    /// Brokers that were heard, and milliseconds since then.
    pub(super) heartbeats: Vec<(BrokerKey, u64)>,
    /// Brokers whose REGISTER waits for their registration status.
    pub(super) confirm: Vec<BrokerKey>,
}

/// A leader's probe, numbered within its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Probe {
    /// The leader's term.
    pub(super) term: u64,
    /// Rises with each probe.
    pub(super) number: u64,
}

/// Sessions, as changes or whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SessionReport {
    /// What changed since the report before, in order.
    Incremental(Vec<SessionChange>),
    /// Everything: replaces all that the leader knew of the sender.
    Full(FullReport),
}

/// All sessions of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FullReport {
    /// Brokers with a session there, the strongest one, and milliseconds since the broker was heard there.
    pub(super) sessions: Vec<(BrokerKey, Strength, u64)>,
    /// Brokers that had a session there, milliseconds since they were heard, and whether the peer ended the last one.
    pub(super) departed: Vec<(BrokerKey, u64, bool)>,
    /// Disconnects that no leader has settled yet, each with the registration that the session stood for.
    pub(super) disconnects: Vec<(BrokerKey, Position)>,
}

/// One change of a broker's sessions at a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SessionChange {
    /// A session opened or became strong: the strongest one from now on.
    Opened(BrokerKey, Strength),
    /// A session ended: the strongest one left, and how it ended.
    Ended(BrokerKey, Option<Strength>, End),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    /// The node ended it.
    ByNode,
    /// The peer ended it, and it was not the last strong one there.
    ByPeer,
    /// The peer ended the last strong one there, which stood for this registration.
    Disconnect(Position),
}

/// Answer to a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportAnswer {
    /// Whether the receiver leads and the report followed the one before. If not, nothing of it was taken, and a full
    /// report must follow.
    pub(super) accepted: bool,
    /// From a leader that has a quorum now.
    pub(super) leader: Option<LeaderAnswer>,
}

/// What a leader says about the brokers of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaderAnswer {
    /// Its term.
    pub(super) term: u64,
    /// Its applied index.
    pub(super) applied: u64,
    /// The status of each broker to be confirmed, and of those heard that are not registered.
    pub(super) statuses: Vec<(BrokerKey, TableStatus)>,
    /// Disconnects that are settled, since the broker has another session or registration: the reporter drops them.
    pub(super) settled: Vec<BrokerKey>,
}

/// A broker in the leader's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TableStatus {
    /// Registered, with this incarnation.
    Registered(Position),
    /// Not registered.
    NotRegistered,
    /// Registered, and its removal is proposed.
    Removing,
}

impl Message {
    pub(super) fn encode(&self) -> Result<Bytes, FormatError> {
        format::encode("liveness message", &(FORMAT, self)).map(Bytes::from)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        decode("liveness message", bytes)
    }
}

impl Reply {
    /// Empty when it cannot be encoded, which the other side takes for no answer.
    pub(super) fn encode(&self) -> Bytes {
        format::encode("liveness reply", &(FORMAT, self)).map(Bytes::from).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        decode("liveness reply", bytes)
    }
}

fn decode<T: serde::de::DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, FormatError> {
    // The format number is looked at before the rest, which another format may encode in any way.
    if let Some(&found) = bytes.get(1)
        && found != FORMAT
    {
        return Err(FormatError::Broken {
            what,
            reason: format!("format {found}, this version reads {FORMAT}"),
        });
    }
    let (_, value): (u8, T) = format::decode(what, bytes)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Nodes of two versions talk to each other during an upgrade: these bytes must not change.
    #[test]
    fn golden_bytes() {
        let broker = BrokerKey { cluster: "c".into(), address: "a:1".into() };
        let at = Position { index: 300, number: 1 };
        let probe = Probe { term: 9, number: 4 };
        let report = |sessions| {
            let (heartbeats, confirm) = (vec![(broker.clone(), 250)], vec![broker.clone()]);
            Message::Report(Report {
                process: 7,
                sequence: 2,
                probe: Some(probe),
                sessions,
                heartbeats,
                confirm,
            })
        };
        let changes = vec![
            SessionChange::Opened(broker.clone(), Strength::Strong),
            SessionChange::Ended(broker.clone(), Some(Strength::Weak), End::ByNode),
            SessionChange::Ended(broker.clone(), None, End::ByPeer),
            SessionChange::Ended(broker.clone(), None, End::Disconnect(at)),
        ];
        let full = FullReport {
            sessions: vec![(broker.clone(), Strength::Weak, 250)],
            departed: vec![(broker.clone(), 300, true)],
            disconnects: vec![(broker.clone(), at)],
        };
        let cases = [
            (
                report(SessionReport::Incremental(changes)),
                "0103000702010904000400016303613a310101016303613a3101000001016303613a31000101016303613a310002fb2c010101016303613a31fa01016303613a31",
            ),
            (
                report(SessionReport::Full(full)),
                "01030007020109040101016303613a3100fa01016303613a31fb2c010101016303613a31fb2c010101016303613a31fa01016303613a31",
            ),
            (Message::Probe(probe), "0103010904"),
            (Message::Ping, "010302"),
            (Message::IdleTimes, "010303"),
        ];
        let mut wrong = String::new();
        for (message, golden) in cases {
            let bytes = message.encode().unwrap();
            if hex(&bytes) != golden {
                wrong += &format!("{message:?}: {}\n", hex(&bytes));
            }
            assert_eq!(Message::decode(&bytes).unwrap(), message);
        }
        let statuses = [TableStatus::Registered(at), TableStatus::NotRegistered, TableStatus::Removing];
        let statuses = statuses.map(|status| (broker.clone(), status)).to_vec();
        let leader = LeaderAnswer { term: 5, applied: 6, statuses, settled: vec![broker.clone()] };
        let cases = [
            (
                Reply::Report(ReportAnswer { accepted: true, leader: Some(leader) }),
                "0103000101050603016303613a3100fb2c0101016303613a3101016303613a310201016303613a31",
            ),
            (Reply::Received, "010301"),
            (Reply::IdleTimes(vec![(broker, 250)]), "01030201016303613a31fa"),
            (Reply::Refused, "010303"),
        ];
        for (reply, golden) in cases {
            let bytes = reply.encode();
            if hex(&bytes) != golden {
                wrong += &format!("{reply:?}: {}\n", hex(&bytes));
            }
            assert_eq!(Reply::decode(&bytes).unwrap(), reply);
        }
        assert!(wrong.is_empty(), "other bytes than before:\n{wrong}");
    }

    #[test]
    fn broken_bytes_and_messages_of_the_first_format_are_refused() {
        assert!(Message::decode(&[]).is_err());
        assert!(Message::decode(&[1, 3, 9]).is_err());
        assert!(Message::decode(&[2, 3, 2]).is_err(), "another format");
        assert!(Message::decode(&[1, 3, 2, 0]).is_err(), "bytes too many");
        for first in 0..3 {
            assert!(Message::decode(&[1, first, 2]).unwrap_err().to_string().contains("format"));
        }
    }
}
