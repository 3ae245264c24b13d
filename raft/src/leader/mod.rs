//! Who leads, and whether this node has recovered.

pub(crate) mod core;
