//! raft-namesrv: a nameserver cluster for Apache RocketMQ. The nodes are one Raft group.
//!
//! ```text
//! bytes → frame → RemotingCommand → Request ─┬─ read  → table of this node → Reply ──────────┐
//!                                            └─ write → Command → propose → Outcome → Reply ─┴→ bytes
//! ```
//!
//! - [`wire`]: bytes ⇄ [`wire::RemotingCommand`].
//! - [`protocol`]: [`wire::RemotingCommand`] ⇄ [`protocol::Request`] and [`protocol::Reply`], and their JSON bodies.
//! - [`liveness`]: which brokers are alive; the only reader of the clock.

pub mod liveness;
pub mod protocol;
pub mod wire;
