//! The properties file: Java's keys, and our own for what has no Java name.

use crate::protocol::properties;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The properties of a file. Each is taken out once; those that are left at the end are not settings of a node.
#[derive(Debug, Default)]
pub struct PropertiesFile {
    path: PathBuf,
    properties: BTreeMap<String, String>,
}

impl PropertiesFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not in Java's properties format.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            std::fs::read(path).map_err(|e| format!("cannot read settings from {}: {e}", path.display()))?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Self, String> {
        let properties = properties::parse(text)
            .map_err(|_| format!("{} is no properties file: a broken \\u escape", path.display()))?;
        let properties = properties.into_iter().map(|(k, v)| (k.to_string(), v.trim().to_owned())).collect();
        Ok(Self { path: path.to_owned(), properties })
    }

    /// The path, for error messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has the key and it was not taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.properties.contains_key(key)
    }

    /// Takes the text of a key.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.properties.remove(key)
    }

    /// What was not taken, by key.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, String)> {
        self.properties.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_once() {
        let text = b"listenPort=9876\nbindAddress = 0.0.0.0 \nfoo=bar\n";
        let mut file = PropertiesFile::parse(Path::new("ns.conf"), text).unwrap();
        assert!(file.has("listenPort"));
        assert_eq!(file.take("listenPort").as_deref(), Some("9876"));
        assert_eq!(file.take("listenPort"), None);
        assert!(!file.has("listenPort"));
        assert_eq!(file.take("bindAddress").unwrap(), "0.0.0.0");
        let rest: Vec<_> = file.rest().collect();
        assert_eq!(rest, [("foo".to_owned(), "bar".to_owned())]);
    }
}
