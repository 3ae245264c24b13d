//! The properties file: Java's keys, and our own for what has no Java name.

use crate::protocol::properties;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file's properties, taken out one by one; what is left at the end belongs to nobody.
#[derive(Debug, Default)]
pub struct PropertiesFile {
    path: PathBuf,
    properties: BTreeMap<String, String>,
}

impl PropertiesFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not in Java's properties format.
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

    /// Takes a key's text.
    pub fn take(&mut self, key: &str) -> Option<String> {
        self.properties.remove(key)
    }

    /// Takes a key and reads its value.
    ///
    /// # Errors
    /// The value is not what `what` says.
    pub fn take_as<T: FromStr>(&mut self, key: &str, what: &str) -> Result<Option<T>, String> {
        let Some(text) = self.take(key) else { return Ok(None) };
        let value =
            text.parse().map_err(|_| format!("{}: {key}={text} is not {what}", self.path.display()))?;
        Ok(Some(value))
    }

    /// What nobody took.
    pub fn rest(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_once_and_wrong_ones_named() {
        let text = b"listenPort=9876\nbindAddress = 0.0.0.0 \nfoo=bar\n";
        let mut file = PropertiesFile::parse(Path::new("ns.conf"), text).unwrap();
        assert_eq!(file.take_as::<u16>("listenPort", "a port"), Ok(Some(9876)));
        assert_eq!(file.take_as::<u16>("listenPort", "a port"), Ok(None));
        assert_eq!(file.take("bindAddress").unwrap(), "0.0.0.0");
        let error = file.take_as::<u16>("foo", "a port").unwrap_err();
        assert_eq!(error, "ns.conf: foo=bar is not a port");
        assert_eq!(file.rest().count(), 0);
    }
}
