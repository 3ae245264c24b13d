//! The KV configuration (100, 101, 102, 219).

use super::{Plan, ReplyShape};
use crate::protocol::{DeleteKv, GetKv, PutKv, Reply, body, remarks};
use crate::wire::codes::result::QUERY_NOT_FOUND;
use storage::RouteInfo;
use storage::command::Change;
use storage::limits::KV_REPLY_BYTES_MAX;

/// PUT_KV_CONFIG.
#[must_use]
pub fn put(ask: &PutKv<'_>) -> Plan<'static> {
    let change = storage::command::PutKv {
        namespace: ask.namespace.into(),
        key: ask.key.into(),
        value: ask.value.map(Into::into),
    };
    Plan::Propose(Change::PutKv(change), ReplyShape::Plain)
}

/// GET_KV_CONFIG.
#[must_use]
pub fn get(ask: &GetKv<'_>, table: &RouteInfo) -> Reply {
    let value = ask.namespace.zip(ask.key).and_then(|(namespace, key)| table.kv(namespace, key));
    match value {
        Some(value) => Reply::success().with("value", value),
        None => Reply::refused(QUERY_NOT_FOUND, remarks::no_kv(ask.namespace, ask.key)).with_ext(),
    }
}

/// DELETE_KV_CONFIG.
#[must_use]
pub fn delete(ask: &DeleteKv<'_>) -> Plan<'static> {
    let Some((namespace, key)) = ask.namespace.zip(ask.key) else { return Plan::Reply(Reply::success()) };
    let change = storage::command::DeleteKv { namespace: namespace.into(), key: key.into() };
    Plan::Propose(Change::DeleteKv(change), ReplyShape::Plain)
}

/// GET_KVLIST_BY_NAMESPACE.
#[must_use]
pub fn list(namespace: Option<&str>, table: &RouteInfo) -> Reply {
    let entries = namespace.and_then(|name| Some((name, table.kv_namespace(name)?)));
    let Some((name, entries)) = entries else {
        return Reply::refused(QUERY_NOT_FOUND, remarks::no_kv_namespace(namespace));
    };
    match table.kv_namespace_bytes(name) {
        bytes if bytes > KV_REPLY_BYTES_MAX => {
            Reply::error(remarks::kv_namespace_too_large(name, bytes, KV_REPLY_BYTES_MAX))
        }
        _ => Reply::with_body(body::kv_table(entries)),
    }
}
