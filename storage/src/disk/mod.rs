//! The disk below a node: [`DiskGuard`] watches its free space (with a [`ReserveFile`]), [`Watchdog`] whether it still
//! writes. The consensus crate decides what follows.
//!
//! Limits act before the log: no "no space left" and no endless write may reach consensus, for each of them is the
//! end of the process.

mod guard;
mod reserve;
mod space;
mod watchdog;

pub use guard::{DiskGuard, SpaceLevel, SpaceLimits, SpaceStatus};
pub use reserve::ReserveFile;
pub use space::{FileSystemSpace, Space, SpaceSource};
pub use watchdog::{Watchdog, WriteGauge, WriteLevel, WriteLimits};
