//! The texts beside the result codes, as Java gives them: tools and people search for them.

use std::fmt::Display;

/// REGISTER_BROKER: the body does not have the checksum of the header.
pub const CRC32_NOT_MATCH: &str = "crc32 not match";
/// REGISTER_BROKER: refused by the tables (a first registration with exactly one topic).
pub const REGISTER_BROKER_FAILED: &str = "register broker failed";
/// PUT_KV_CONFIG.
pub const NAMESPACE_OR_KEY_IS_NULL: &str = "namespace or key is null";
/// A list that a setting switches off.
pub const DISABLED: &str = "disable";
/// Look-ups: this node is not ready.
pub const NOT_READY: &str = "name server not ready";
/// Look-ups: this node cannot say that something does not exist.
pub const NOT_IN_THIS_TABLE: &str = "not in the table of this name server, which may lack the latest changes: it has lost \
                                     contact with the leader, or is behind it. Ask another one";
/// UPDATE_NAMESRV_CONFIG: the text is no properties text.
pub const BAD_PROPERTIES: &str = "string2Properties error";
/// UPDATE_NAMESRV_CONFIG names a black-listed key.
pub const BLACK_LISTED: &str = "Can not update config in black list.";
/// Too much in flight.
pub const BUSY: &str = "[OVERLOAD]system busy, start flow control for a while";
/// GET_BROKER_MEMBER_GROUP: Java forgets to clear this text, so it accompanies code 0.
pub const NO_RESPONSE_CODE: &str = "not set any response code";

/// A request code that no nameserver knows.
#[must_use]
pub fn not_supported(code: i32) -> String {
    format!(" request type {code} not supported")
}

/// GET_ROUTEINFO_BY_TOPIC; a missing topic prints as `null`.
#[must_use]
pub fn no_route(topic: Option<&str>) -> String {
    format!(
        "No topic route info in name server for the topic: {}\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
        or_null(topic)
    )
}

/// GET_KV_CONFIG.
#[must_use]
pub fn no_kv(namespace: Option<&str>, key: Option<&str>) -> String {
    format!("No config item, Namespace: {} Key: {}", or_null(namespace), or_null(key))
}

/// GET_KVLIST_BY_NAMESPACE.
#[must_use]
pub fn no_kv_namespace(namespace: Option<&str>) -> String {
    format!("No config item, Namespace: {}", or_null(namespace))
}

/// A header field that the request needs is missing.
#[must_use]
pub fn missing_field(field: &str) -> String {
    format!("the header field {field} is missing or unreadable")
}

/// A body that does not parse.
#[must_use]
pub fn bad_body(what: &str, why: impl Display) -> String {
    format!("the body is no {what}: {why}")
}

/// A name or value that is longer than any that a deployment has; `text` begins it.
#[must_use]
pub fn too_long(what: &str, text: &str, bytes_max: usize) -> String {
    let begin = text.get(..text.floor_char_boundary(BEGIN_BYTES)).unwrap_or_default();
    format!("{what} {begin:?}… has {} bytes, at most {bytes_max} are allowed", text.len())
}

/// What is shown of a text that is too long, bytes.
const BEGIN_BYTES: usize = 40;

/// Bytes, of several fields or of a body, that are more than any deployment has.
#[must_use]
pub fn too_many_bytes(what: &str, bytes: usize, bytes_max: usize) -> String {
    format!("{what} have {bytes} bytes, at most {bytes_max} are allowed")
}

/// A registration that is larger than allowed once it is inflated.
#[must_use]
pub fn too_many_inflated_bytes(bytes_max: u64) -> String {
    format!("the registration has more than {bytes_max} bytes when it is inflated: no more are allowed")
}

/// PUT_KV_CONFIG: a namespace or key that no tool can name.
#[must_use]
pub fn bad_kv_name(what: &str) -> String {
    format!("{what} is empty or has a NUL character")
}

/// GET_KVLIST_BY_NAMESPACE: an earlier version has taken more than fits a frame.
#[must_use]
pub fn kv_namespace_too_large(namespace: &str, bytes: usize, bytes_max: usize) -> String {
    format!(
        "namespace {namespace} takes {bytes} bytes, at most {bytes_max} fit a reply; get and delete its keys"
    )
}

fn or_null(text: Option<&str>) -> &str {
    text.unwrap_or("null")
}
