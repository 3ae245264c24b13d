//! The leader as this node knows it: [`leadership`] (term, leader, lease) and its `contact`, [`recovery`] (whether this
//! node has caught up since its start), and [`lag`] (how far it is behind since then); `lateness` counts late timers.

mod contact;
pub(crate) mod lag;
mod lateness;
pub(crate) mod leadership;
pub(crate) mod recovery;
mod running_time;
