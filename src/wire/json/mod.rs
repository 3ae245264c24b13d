//! JSON as RocketMQ's peers use it: a reader that accepts what Java's fastjson accepts, and a writer that writes as it
//! does. The reader builds no tree: it walks over the text, and the caller keeps what it needs.

mod reader;
mod writer;

pub use reader::{Event, Reader};
pub use writer::{Charset, put_int, put_text};

#[cfg(test)]
mod tests;
