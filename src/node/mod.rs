//! What a node of the cluster consists of: the settings that it starts with, its ports, the handles of its parts while
//! it runs, and the errors that end it. [`run`](crate::run()) puts the parts together.

mod config;
mod error;
mod listeners;
mod open_files;
mod running;

pub use config::NodeConfig;
pub use error::RunError;
pub use listeners::Listeners;
pub use open_files::{fit_open_files, raise_open_files};
pub use running::RunningNode;
