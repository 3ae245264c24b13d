//! The leader as this node knows it: [`leadership`] (term, leader, lease, last contact), and [`recovery`] (whether this
//! node has caught up since its start); [`lateness`] counts late timers.

mod lateness;
pub(crate) mod leadership;
pub(crate) mod recovery;
