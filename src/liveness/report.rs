//! What nodes tell each other beside the log. Encoded by `storage::format`; new variants go at the end.

use super::Strength;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storage::Position;
use storage::format::{self, FormatError};
use storage::route_info::BrokerKey;

/// Lane of [`Message::Report`]: a stream's order is the order of this lane.
pub(super) const LANE_REPORTS: u8 = 0;
/// Lane of [`Message::Ask`], which must not wait behind reports.
pub(super) const LANE_ASKS: u8 = 1;

/// A message to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// The next part of the sender's stream.
    Report(Report),
    /// A leader wants a report at once, one that is younger than this question.
    Ask(Ask),
    /// The sender's mass eviction guard has been protecting for so many milliseconds. Goes before a full report, whose
    /// receiver may not have been there when that began.
    Protecting(u64),
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To a report.
    Report(Answer),
    /// The question arrived; the next report of the stream carries it. Also: the news of a guard arrived.
    Asked,
    /// Not understood.
    Refused,
}

/// A part of the ordered stream that each process sends to each voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Random id of the sending process.
    pub(super) process: u64,
    /// Number within the stream to this receiver.
    pub(super) sequence: u64,
    /// The newest question of the receiver that this report is younger than.
    pub(super) answering: Option<Ask>,
    /// What happened to sessions.
    pub(super) content: Content,
    /// Brokers that were heard, and milliseconds since then. The answer has a word for each, in this order.
    pub(super) heard: Vec<(BrokerKey, u64)>,
}

/// A leader's question, numbered by its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    /// The asking process.
    pub(super) process: u64,
    /// Raised with each question.
    pub(super) number: u64,
}

/// Sessions, as changes or whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Content {
    /// What changed since the report before, in order.
    Changes(Vec<Change>),
    /// Everything: replaces all that was known of the sender.
    Full(Full),
}

/// All sessions of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Full {
    /// Brokers with a session there, the strongest one, and milliseconds since the broker was heard there.
    pub(super) sessions: Vec<(BrokerKey, Strength, u64)>,
    /// Ends by the peer that may still matter.
    pub(super) ended: Vec<(BrokerKey, End)>,
    /// The sender's process has just begun: the answer is to tell the silences of all brokers.
    pub(super) asks_silences: bool,
}

/// One change of a broker's sessions at a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// The broker.
    pub(super) broker: BrokerKey,
    /// Its strongest session there from now on.
    pub(super) strength: Option<Strength>,
    /// What happened.
    pub(super) cause: Cause,
}

/// Why a broker's sessions at a node changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cause {
    /// A session opened or became strong.
    Opened,
    /// A session was ended by the peer.
    EndedByPeer(End),
    /// We ended one.
    EndedByUs,
    /// It speaks over a connection that is not followed, whatever others it has.
    NotFollowed,
}

/// A session's end by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// Raised with each end at that process.
    pub(super) number: u64,
    /// Set when it was the last strong session there: the newest registration that was accepted there.
    pub(super) last_strong: Option<Position>,
}

/// Answer to a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Whether it followed the one before. If not, nothing of it was taken, and a full report is wanted.
    pub(super) accepted: bool,
    /// The leader's words; `None` from a node that cannot give any now.
    pub(super) leader: Option<Words>,
    /// When the report asked.
    pub(super) silences: Option<Silences>,
}

/// How long brokers have been silent everywhere, as one process counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Silences {
    /// The answering process.
    pub(super) process: u64,
    /// Milliseconds for each broker of its table.
    pub(super) brokers: Vec<(BrokerKey, u64)>,
}

/// The words of a leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Words {
    /// Its term.
    pub(super) term: u64,
    /// Its applied index.
    pub(super) applied: u64,
    /// One for each broker heard.
    pub(super) words: Vec<Word>,
}

/// A leader's word on a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// In the table, with this incarnation.
    Known(Position),
    /// Not in the table.
    Unknown,
    /// In the table, with a removal under way.
    Removing,
}

impl Message {
    pub(super) fn encode(&self) -> Result<Bytes, FormatError> {
        format::encode("liveness message", self).map(Bytes::from)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        format::decode("liveness message", bytes)
    }
}

impl Reply {
    /// Empty when it cannot be encoded, which the other side takes for no answer.
    pub(super) fn encode(&self) -> Bytes {
        format::encode("liveness reply", self).map(Bytes::from).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        format::decode("liveness reply", bytes)
    }
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
        let end = End { number: 3, last_strong: Some(Position { index: 300, number: 1 }) };
        let report = |content| {
            Message::Report(Report {
                process: 7,
                sequence: 2,
                answering: Some(Ask { process: 9, number: 4 }),
                content,
                heard: vec![(broker.clone(), 250)],
            })
        };
        let change =
            Change { broker: broker.clone(), strength: Some(Strength::Weak), cause: Cause::EndedByPeer(end) };
        let not_followed = Change { broker: broker.clone(), strength: None, cause: Cause::NotFollowed };
        let full = Full {
            sessions: vec![(broker.clone(), Strength::Strong, 250)],
            ended: vec![(broker.clone(), end)],
            asks_silences: true,
        };
        let cases = [
            (
                report(Content::Changes(vec![change])),
                "010007020109040001016303613a310100010301fb2c010101016303613a31fa",
            ),
            (
                report(Content::Full(full)),
                "010007020109040101016303613a3101fa01016303613a310301fb2c01010101016303613a31fa",
            ),
            (
                report(Content::Changes(vec![not_followed])),
                "010007020109040001016303613a31000301016303613a31fa",
            ),
            (Message::Ask(Ask { process: 9, number: 4 }), "01010904"),
            (Message::Protecting(250), "0102fa"),
        ];
        for (message, golden) in cases {
            let bytes = message.encode().unwrap();
            assert_eq!(hex(&bytes), golden, "{message:?}");
            assert_eq!(Message::decode(&bytes).unwrap(), message);
        }
        let words = Words {
            term: 5,
            applied: 6,
            words: vec![Word::Known(Position { index: 1, number: 0 }), Word::Unknown, Word::Removing],
        };
        let silences = Silences { process: 8, brokers: vec![(broker, 250)] };
        let reply = Reply::Report(Answer { accepted: true, leader: Some(words), silences: Some(silences) });
        assert_eq!(hex(&reply.encode()), "010001010506030001000102010801016303613a31fa");
        assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
    }

    #[test]
    fn broken_bytes_are_refused() {
        assert!(Message::decode(&[]).is_err());
        assert!(Message::decode(&[1, 9]).is_err());
        assert!(Message::decode(&[2, 1, 9, 4]).is_err(), "another format");
        assert!(Message::decode(&[1, 1, 9, 4, 0]).is_err(), "bytes too many");
    }
}
