//! [`RemotingCommand`](crate::wire::RemotingCommand) ⇄ [`Request`] and [`Reply`], and the JSON bodies exactly as Java
//! writes them. Pure; knows no socket, no clock and no Raft.
//!
//! - [`Request::parse`] reads a command once, at the edge; what is refused there comes back as the [`Reply`] to send.
//! - [`registration`] has the stages of REGISTER_BROKER: checksum, fingerprint, and only then the body.
//! - [`body`] writes answers from the tables, in name order; [`notice`] writes what is pushed to brokers.
//! - [`properties`] reads and writes the text of codes 318 and 319.
//! - [`remarks`] holds the texts beside the codes, as Java gives them.

pub mod body;
pub mod notice;
pub mod properties;
pub mod registration;
pub mod remarks;

mod reply;
mod request;

pub use reply::Reply;
pub use request::{
    BrokerHeartbeat, DeleteKv, DeleteTopic, GetKv, GetMemberGroup, GetRoute, PutKv, QueryDataVersion,
    ReadMode, ReadOptions, RegisterTopic, Request, TopicFilter, UnregisterBroker,
};
