//! What every room knows of this node.

pub(crate) mod alerts;
pub(crate) mod node;
