//! Bodies of responses, written from the tables exactly as Java writes them, lists in name order.

mod brokers;
mod lists;
mod route;
mod writer;

pub use brokers::{cluster_info, member_group};
pub use lists::{data_version, kv_table, topic_list};
pub use route::route;

/// KV namespace of the order configuration: routes show it, and brokers get it with the response to a registration.
pub const ORDER_TOPIC_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

#[cfg(test)]
mod tests;
