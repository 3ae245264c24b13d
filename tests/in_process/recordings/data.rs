//! Recordings as they lie in `tests/recordings`.

use super::frame;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A scenario that was recorded from a Java nameserver.
#[derive(Debug, Deserialize)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

/// One step. What is not used by an operation is absent.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Step {
    pub(super) op: Op,
    #[serde(default)]
    pub(super) desc: String,
    /// Connection, by name; opened at its first use.
    #[serde(default)]
    pub(super) conn: String,
    /// Listener, by name.
    #[serde(default)]
    pub(super) listener: String,
    /// Where it listens.
    pub(super) addr: Option<String>,
    /// Length of a sleep.
    pub(super) ms: Option<u64>,
    /// How long it may take until the step fits.
    pub(super) within_ms: Option<u64>,
    /// How long nothing may happen.
    pub(super) for_ms: Option<u64>,
    /// What is not compared.
    #[serde(default)]
    pub(super) volatile: Vec<String>,
    /// The body is a properties text.
    #[serde(default)]
    pub(super) properties: bool,
    pub(super) send: Option<Frame>,
    /// What Java answered; nothing for a oneway request.
    pub(super) answer: Option<Frame>,
    /// What other versions of Java answered.
    #[serde(default)]
    pub(super) variants: BTreeMap<String, Frame>,
    /// What this project answers on purpose instead.
    pub(super) ours: Option<Ours>,
    /// Bytes in hexadecimal, written one after the other.
    #[serde(default)]
    pub(super) parts: Vec<String>,
    pub(super) expect: Option<Expect>,
    /// In the order of their numbers.
    #[serde(default)]
    pub(super) answers: Vec<Frame>,
    pub(super) push: Option<Frame>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Request,
    Raw,
    Close,
    Sleep,
    Closed,
    Quiet,
    Listen,
    Push,
    NoPush,
}

/// What follows raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expect {
    Answers,
    Closed,
    Quiet,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Ours {
    pub(super) answer: Frame,
    pub(super) volatile: Vec<String>,
}

/// A frame: its header as JSON text or as the hexadecimal digits of a binary one, and its body as text if it is one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Frame {
    json: Option<String>,
    binary: Option<String>,
    body: Option<String>,
    body_hex: Option<String>,
}

impl Frame {
    /// The whole frame, with its length.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (serialization, header) = match (&self.json, &self.binary) {
            (Some(text), None) => (0, text.clone().into_bytes()),
            (None, Some(hex)) => (1, unhex(hex)),
            _ => panic!("a frame has one header: {self:?}"),
        };
        let body = match (&self.body, &self.body_hex) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(hex)) => unhex(hex),
            _ => Vec::new(),
        };
        frame::join(serialization, &header, &body)
    }

    /// What it says.
    pub(super) fn decoded(&self) -> frame::Decoded {
        frame::decode(&self.bytes()).unwrap()
    }
}

/// A frame that a real peer sent or got.
#[derive(Debug, Deserialize)]
pub(super) struct Captured {
    pub(super) peer: String,
    pub(super) to_server: bool,
    pub(super) frame: Frame,
}

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// Loads `folder/name`.
pub(super) fn load(folder_name: &str, name: &str) -> Recording {
    let path = folder().join(folder_name).join(name).with_extension("json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let recording: Recording =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(recording.name, name);
    recording
}

/// Names of all recordings of a folder, in order.
pub(super) fn names(folder_name: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder().join(folder_name)).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// All captured frames.
pub(super) fn captured() -> Vec<Captured> {
    let files = std::fs::read_dir(folder().join("captures")).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
        .collect()
}

pub(super) fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "odd number of digits");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
