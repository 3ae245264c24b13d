//! What a request needs before it can be answered.

use super::ReplyShape;
use crate::protocol::registration::RegistrationHeader;
use crate::protocol::{Reply, Request};
use storage::command::Change;

/// What a request needs.
#[derive(Debug)]
pub enum Plan<'a> {
    /// Nothing: this is the reply.
    Reply(Reply),
    /// The tables of this node: call [`read`](super::read).
    Read(Request<'a>),
    /// A change of the cluster's state, and the shape of the reply to its outcome.
    Propose(Change, ReplyShape),
    /// The stages of a registration.
    Register(RegistrationHeader),
}
