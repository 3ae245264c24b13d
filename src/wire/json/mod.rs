//! JSON as RocketMQ's peers speak it: a reader that takes what Java's fastjson takes, and a writer that gives what
//! it gives. No tree is built: the reader walks, the caller keeps what it wants.

mod reader;
mod writer;

pub use reader::{Event, Reader};
pub use writer::{Charset, put_int, put_text};

#[cfg(test)]
mod tests;
