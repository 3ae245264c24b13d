//! The limits of sizes, all in one place: what a client may name, what a command, an entry, a message between nodes, a
//! record of the log and of a snapshot may hold. Bytes, unless a name says otherwise.
//!
//! ```text
//! names, values ─▶ command ─▶ entry ─▶ peer frame
//!   (the edge)    (proposer)  (batcher)    └─▶ value (what is encoded at all) = log record ─▶ snapshot record
//! ```
//! To ensure correctness: each limit leaves room for the one before it. So what the edge took goes through all the
//! rest, and what is committed can be applied, stored and sent. The assertions below hold that order.
//!
//! The limits of names hold for what requests add. They never hold in apply, nor for requests that take something away:
//! a log or a snapshot with longer names is read, and such names can be removed.

/// Largest frame of a client in either direction, with its length field: what RocketMQ's own clients and brokers take.
pub const CLIENT_FRAME_BYTES_MAX: usize = 16 << 20;

/// Largest header of a client's frame: its length has three bytes.
pub const CLIENT_HEADER_BYTES_MAX: usize = (1 << 24) - 1;
/// KV entries in a reply: the header has room beside them.
pub const KV_REPLY_BYTES_MAX: usize = CLIENT_FRAME_BYTES_MAX - (1 << 20);

/// A topic. RocketMQ's tools take 127 characters; but names that brokers make (`%RETRY%` and a group, light message
/// queues) are longer, so this is thirty times as much.
pub const TOPIC_BYTES_MAX: usize = 4 << 10;
/// A broker name, zone, HA address, filter server, and the scope of a static topic. A name of a host has at most 253.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// A broker's cluster name and address together. Nodes report them to the leader with each heartbeat.
pub const BROKER_KEY_BYTES_MAX: usize = 1 << 10;
/// A KV namespace, and a key. Keys of ORDER_TOPIC_CONFIG are topics.
pub const KV_NAME_BYTES_MAX: usize = TOPIC_BYTES_MAX;
/// A KV value.
pub const KV_VALUE_BYTES_MAX: usize = 1 << 20;
/// All keys and values of a KV namespace, as [`json_bytes_max`] counts them: each reply that carries the namespace fits
/// a client's frame.
pub const KV_NAMESPACE_BYTES_MAX: usize = 8 << 20;
/// The text of one UPDATE_NAMESRV_CONFIG. All settings of a Java nameserver together take about 2 KiB.
pub const SETTINGS_TEXT_BYTES_MAX: usize = 64 << 10;

/// An operator alert.
pub const ALERT_BYTES_MAX: usize = 2 << 10;

/// Broker names of a cluster of nodes, and brokers of one name: a count, since each has a name of bounded length, and a
/// record of a snapshot holds as many as there are.
pub const BROKERS_MAX: usize = 32_768;

/// A command with its origin, encoded. Larger than a client's frame: compressed registrations grow.
pub const COMMAND_BYTES_MAX: usize = 24 << 20;
/// The commands of an entry that several share, encoded.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// A command above it is an entry of its own.
pub const ALONE_BYTES: usize = 256 << 10;
/// Commands on their way at a node, encoded: those above [`ALONE_BYTES`], and as much again of the others.
pub const PROPOSED_BYTES_MAX: usize = 8 << 20;
/// An entry, encoded: a number of commands, and the commands.
pub const ENTRY_BYTES_MAX: usize = COMMAND_BYTES_MAX + ENCODING_BYTES;
/// Entries that are read, and sent to a peer, at once; a single entry may be larger.
pub const APPEND_BYTES_MAX: usize = 4 << 20;
/// A chunk of a snapshot, compressed.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = 64 << 10;
/// Bytes of a snapshot in a message to a peer; one more chunk may follow.
pub const SNAPSHOT_MESSAGE_BYTES: usize = APPEND_BYTES_MAX / 4;
/// A frame between nodes after the handshake.
pub const PEER_FRAME_BYTES_MAX: usize = 32 << 20;
/// What is encoded at all, without its format number ([`crate::format`]): a message, an entry, a record of a snapshot.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// The payload of a record of the log.
pub const LOG_PAYLOAD_BYTES_MAX: usize = VALUE_BYTES_MAX + 1;
/// A record of a snapshot with its format number.
pub const SNAPSHOT_RECORD_BYTES_MAX: usize = VALUE_BYTES_MAX + 1;

/// The history as [`crate::route_info`] counts it. Ten thousand changes with names of usual length take a quarter.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;
/// A name in the history. A longer one, of a log that was written without limits of names, is shortened.
pub const HISTORY_NAME_BYTES_MAX: usize = TOPIC_BYTES_MAX;

/// What encodings add around names and payloads: numbers, lengths, variants.
const ENCODING_BYTES: usize = 1 << 10;
/// Entries of one message take so much each beside their payload; a message has at most 1,024.
const APPEND_OVERHEAD_BYTES: usize = 1_024 * 64;

const _: () = {
    // The edge: a frame of a client becomes a command, and a reply fits a frame.
    assert!(CLIENT_FRAME_BYTES_MAX < COMMAND_BYTES_MAX);
    assert!(BROKER_KEY_BYTES_MAX <= NAME_BYTES_MAX && NAME_BYTES_MAX <= TOPIC_BYTES_MAX);
    assert!(6 * KV_VALUE_BYTES_MAX + 6 * KV_NAME_BYTES_MAX < KV_NAMESPACE_BYTES_MAX);
    assert!(KV_NAMESPACE_BYTES_MAX < KV_REPLY_BYTES_MAX && KV_REPLY_BYTES_MAX < CLIENT_FRAME_BYTES_MAX);
    assert!(6 * KV_VALUE_BYTES_MAX + (1 << 20) < CLIENT_HEADER_BYTES_MAX);
    // The log: a command fits an entry, an entry a message, a message and an entry what is encoded at all.
    assert!(ALONE_BYTES < BATCH_BYTES_MAX && BATCH_BYTES_MAX < COMMAND_BYTES_MAX);
    assert!(KV_VALUE_BYTES_MAX + 2 * KV_NAME_BYTES_MAX + ENCODING_BYTES < COMMAND_BYTES_MAX);
    assert!(ENTRY_BYTES_MAX + ENCODING_BYTES < PEER_FRAME_BYTES_MAX);
    assert!(APPEND_BYTES_MAX + APPEND_OVERHEAD_BYTES < PEER_FRAME_BYTES_MAX);
    assert!(SNAPSHOT_MESSAGE_BYTES + SNAPSHOT_CHUNK_BYTES_MAX + ENCODING_BYTES < PEER_FRAME_BYTES_MAX);
    assert!(PEER_FRAME_BYTES_MAX <= VALUE_BYTES_MAX);
    assert!(ENTRY_BYTES_MAX < LOG_PAYLOAD_BYTES_MAX && VALUE_BYTES_MAX < LOG_PAYLOAD_BYTES_MAX);
    // Snapshots: a part of a command, or a name of every broker (those of the entries in flight included).
    assert!(COMMAND_BYTES_MAX + ENCODING_BYTES < VALUE_BYTES_MAX);
    assert!((BROKERS_MAX + 4_096) * (NAME_BYTES_MAX + 64) < VALUE_BYTES_MAX);
    assert!(VALUE_BYTES_MAX < SNAPSHOT_RECORD_BYTES_MAX && SNAPSHOT_RECORD_BYTES_MAX < u32::MAX as usize);
    assert!(HISTORY_NAME_BYTES_MAX >= TOPIC_BYTES_MAX && HISTORY_NAME_BYTES_MAX >= KV_NAME_BYTES_MAX);
};

/// At most so many bytes does a text take in JSON, however its characters are escaped, with quotes and a separator.
#[must_use]
pub fn json_bytes_max(text: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        b'"' | b'\\' | b'/' => 2,
        // `\u0000`
        0..b' ' | 0x7f => 6,
        // Two bytes or more make one character or two UTF-16 units.
        0x80.. => 3,
        _ => 1,
    };
    3 + text.bytes().map(of_byte).sum::<usize>()
}
