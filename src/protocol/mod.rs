//! [`RemotingCommand`](crate::wire::RemotingCommand) ⇄ [`Request`] and [`Reply`], and the JSON bodies exactly as Java
//! writes them. Pure; knows no socket, no clock and no Raft.
//!
//! - [`Request::parse`] reads a command once, at the edge, or returns the [`Reply`] that refuses it.
//! - [`registration`] has the stages of REGISTER_BROKER: header, checksum, body digest, and only then the body.
//! - [`body`] writes the bodies of responses from the tables, in name order; [`notice`] writes the min-broker-id
//!   notice.
//! - [`properties`] reads and writes the text of codes 318 and 319.
//! - `name_limits` refuses names and values that are longer than any that a deployment has.
//! - [`remarks`] holds the texts beside the result codes, as Java gives them.

pub mod body;
pub mod notice;
pub mod properties;
pub mod registration;
pub mod remarks;

mod json_style;
mod name_limits;
mod read_options;
mod reply;
mod request;

pub use json_style::JsonStyle;
pub use read_options::{ReadMode, ReadOptions};
pub use reply::Reply;
pub use request::{
    BrokerHeartbeat, DeleteKv, DeleteTopic, GetKv, GetMemberGroup, GetRoute, PutKv, QueryDataVersion,
    RegisterTopic, Request, TopicFilter, UnregisterBroker,
};
