//! Bodies of answers, written from the tables exactly as Java writes them, lists in name order.

mod brokers;
mod lists;
mod route;
mod writer;

pub use brokers::{cluster_info, member_group};
pub use lists::{data_version, kv_table, topic_list};
pub use route::route;

/// KV namespace of the order configuration: shown in routes, and given to brokers that register.
pub const ORDER_TOPIC_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteStyle {
    /// Standard JSON, for clients since 4.9.4: integer keys quoted, text beyond ASCII escaped.
    Standard,
    /// The old style: integer keys unquoted, UTF-8.
    Old,
}

#[cfg(test)]
mod tests;
