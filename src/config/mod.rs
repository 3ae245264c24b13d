//! The settings of a node: flag over environment over file over default, checked once.
//!
//! Three kinds. *Node* settings hold for this process: the rows of [`SETTINGS`]. *Replicated* ones are the cluster's
//! ([`storage::settings`]): the file counts only when the cluster is bootstrapped. Java's keys *without effect* are
//! accepted, and named in one warning.

mod address;
mod file;
mod help;
mod java_keys;
mod members;
mod setting;
mod table;

pub(crate) use address::check_address;
pub use address::{DEFAULT_PORT, HTTP_PORT_DISTANCE, PEER_PORT_DISTANCE, parse_listen};
pub use file::PropertiesFile;
pub(crate) use help::settings_help;
pub(crate) use members::parse_member;
pub use members::{Members, parse_node_id};
pub(crate) use table::SETTINGS;

use crate::handlers::NodeSettings;
use crate::node::{Listeners, NodeConfig, RunError};
use crate::wire::Serialization;
use address::{beside, check_distinct};
use raft::{Member, NodeId};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use storage::Command;
use storage::command::{Change, Name, Origin, UpdateSettings};
use storage::settings::{SettingKind, Settings};
use tokio::net::TcpListener;

/// The key under which code 319 shows the HTTP port.
pub const HTTP_PORT_KEY: &str = "httpListenPort";
/// The key under which code 319 shows the peer port.
const PEER_PORT_KEY: &str = "peerListenPort";

/// What was given as flags or in the environment; each beats the file.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--node-id`.
    pub node_id: Option<NodeId>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--peer-listen`.
    pub peer_listen: Option<SocketAddr>,
    /// `--http-listen`.
    pub http_listen: Option<SocketAddr>,
    /// `--members`.
    pub members: Option<Members>,
    /// `--serialize-type`.
    pub serialization: Option<Serialization>,
}

/// Settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the node is started with. Its first commands and what code 319 shows come with the bound ports: see
    /// [`Config::into_node`].
    pub node: NodeConfig,
    /// RocketMQ port.
    pub listen: SocketAddr,
    /// Peer port.
    pub peer_listen: SocketAddr,
    /// HTTP port.
    pub http_listen: SocketAddr,
    /// `peerSecretFile`; empty: none. The secret itself is read from there and never shown.
    pub secret_file: String,
    /// `recoveryWaitSeconds`.
    pub recovery_wait: Duration,
    /// `serveAfterRecoveryWait`.
    pub serve_after_recovery_wait: bool,
    /// `configBlackList` of the file.
    pub black_list: String,
    /// Keys of Java without effect that belong to the node, with their text: code 319 shows them.
    pub unused_java_keys: Vec<(String, String)>,
    /// Replicated properties of the file: the first command of a new cluster.
    pub replicated: Vec<(Name, Name)>,
    /// To be logged at the start.
    pub warnings: Vec<String>,
}

impl Config {
    /// Merges flags and a file over the defaults.
    ///
    /// # Errors
    /// A value that cannot be, or values that do not fit together; the error says which.
    pub fn new(flags: Flags, mut file: PropertiesFile) -> Result<Self, String> {
        let id_given = flags.node_id.is_some() || file.has("nodeId");
        let peer_given = flags.peer_listen.is_some() || file.has("peerListen");
        let http_given = flags.http_listen.is_some() || file.has("httpListen");
        let mut config = Self::unset();
        for setting in SETTINGS {
            let Some(text) = file.take(setting.key) else { continue };
            let set = setting.set(&mut config, &text);
            set.map_err(|wrong| format!("{}: {wrong}", file.path().display()))?;
        }
        config.take_flags(flags);
        if !peer_given {
            config.peer_listen = beside(config.listen, PEER_PORT_DISTANCE, "peerListen")?;
        }
        if !http_given {
            config.http_listen = beside(config.listen, HTTP_PORT_DISTANCE, "httpListen")?;
        }
        config.check_ports()?;
        let node_id = local_node_id(id_given.then_some(config.node.node_id), &config.node.members)?;
        config.node.node_id = node_id;
        config.node.service.node_id = node_id;
        config.node.liveness.node_id = node_id;
        let wait = config.serve_after_recovery_wait.then_some(config.recovery_wait);
        config.node.service.readiness.recovery_wait = wait;
        config.node.secret = read_secret(&config.secret_file)?;
        check_timing(&config.node.timing)?;
        config.take_remaining(file);
        Ok(config)
    }

    /// The defaults, before anything that follows from other settings.
    fn unset() -> Self {
        let node = NodeConfig::new(0, PathBuf::from("data"));
        let recovery_wait = node.service.readiness.recovery_wait;
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
        Self {
            listen,
            peer_listen: listen,
            http_listen: listen,
            secret_file: String::new(),
            recovery_wait: recovery_wait.unwrap_or_default(),
            serve_after_recovery_wait: recovery_wait.is_some(),
            black_list: String::new(),
            unused_java_keys: Vec::new(),
            replicated: Vec::new(),
            warnings: Vec::new(),
            node,
        }
    }

    fn check_ports(&self) -> Result<(), String> {
        check_distinct([
            ("the RocketMQ port", self.listen),
            ("the peer port", self.peer_listen),
            ("the HTTP port", self.http_listen),
        ])
    }

    fn take_flags(&mut self, flags: Flags) {
        let node = &mut self.node;
        node.node_id = flags.node_id.unwrap_or(node.node_id);
        if let Some(data) = flags.data {
            node.data = data;
        }
        if let Some(members) = flags.members {
            node.members = members.0;
        }
        node.server.serialization = flags.serialization.unwrap_or(node.server.serialization);
        self.listen = flags.listen.unwrap_or(self.listen);
        self.peer_listen = flags.peer_listen.unwrap_or(self.peer_listen);
        self.http_listen = flags.http_listen.unwrap_or(self.http_listen);
    }

    /// Replicated properties, keys without effect, and unknown keys.
    fn take_remaining(&mut self, file: PropertiesFile) {
        let (mut without_effect, mut unknown) = (Vec::new(), Vec::new());
        for (key, text) in file.rest() {
            let kind = Settings::kind(&key);
            if kind != SettingKind::Unknown {
                self.replicated.push((Name::from(key.as_str()), Name::from(text.as_str())));
            }
            match kind {
                SettingKind::Replicated => {}
                SettingKind::WithoutEffect => without_effect.push(key),
                SettingKind::Unknown if java_keys::is_known(&key) => {
                    self.unused_java_keys.push((key.clone(), text));
                    without_effect.push(key);
                }
                SettingKind::Unknown => unknown.push(key),
            }
        }
        if !without_effect.is_empty() {
            self.warnings.push(format!("settings without effect here: {}", without_effect.join(", ")));
        }
        if !unknown.is_empty() {
            self.warnings.push(format!("unknown settings are ignored: {}", unknown.join(", ")));
        }
    }

    /// What a node is started with, once its ports are known.
    ///
    /// # Errors
    /// A listener cannot say its port.
    pub fn into_node(mut self, listeners: &Listeners) -> Result<NodeConfig, RunError> {
        let port = |listener: &TcpListener| {
            listener.local_addr().map(|a| a.port()).map_err(|e| RunError::Listen(e.to_string()))
        };
        // The file may ask for any free port: code 319 shows the one that was bound.
        self.listen.set_port(port(&listeners.clients)?);
        let in_code_319 = SETTINGS.iter().filter(|setting| setting.in_code_319);
        let shown = in_code_319.map(|setting| (setting.key, setting.get(&self)));
        let mut settings = NodeSettings::new(shown, &self.black_list);
        settings.show(PEER_PORT_KEY, &port(&listeners.peers)?.to_string());
        if let Some(http) = &listeners.http {
            settings.show(HTTP_PORT_KEY, &port(http)?.to_string());
        }
        for (key, text) in &self.unused_java_keys {
            settings.show(key, text);
        }
        let has_effect = |key: &str| Settings::kind(key) == SettingKind::Replicated;
        for (key, text) in self.replicated.iter().filter(|(key, _)| has_effect(key)) {
            settings.show(&format!("configFile.{key}"), text);
        }
        self.node.settings = settings;
        if !self.replicated.is_empty() {
            let change = Change::UpdateSettings(UpdateSettings { properties: self.replicated });
            // The same at all nodes: it names no node and no time.
            self.node.bootstrap = vec![Command { origin: Origin::default(), change }];
        }
        Ok(self.node)
    }

    /// All settings of the node under their keys in the file, in the order of [`SETTINGS`]. Never the secret itself.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        SETTINGS.iter().map(|setting| (setting.key, setting.get(self))).collect()
    }
}

fn local_node_id(id: Option<NodeId>, members: &[Member]) -> Result<NodeId, String> {
    let ids: Vec<String> = members.iter().map(|m| m.id.to_string()).collect();
    match (id, members) {
        (Some(0), _) => Err("node id 0 is not allowed; ids are numbers from 1".to_owned()),
        // A node that is not among the members waits until a member adds it.
        (Some(id), _) => Ok(id),
        (None, []) => Ok(1),
        (None, [only]) => Ok(only.id),
        (None, _) => {
            Err(format!("which of the members {} is this node? Say it with --node-id", ids.join(", ")))
        }
    }
}

/// The secret stands in a file of its own, so that neither a list of processes nor `serve -p` shows it.
fn read_secret(path: &str) -> Result<Vec<u8>, String> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read(path).map_err(|e| format!("cannot read peerSecretFile={path}: {e}"))?;
    let secret = text.trim_ascii();
    if secret.is_empty() {
        return Err(format!("peerSecretFile={path} is empty"));
    }
    Ok(secret.to_vec())
}

fn check_timing(timing: &raft::Timing) -> Result<(), String> {
    let (beat, min, max) = (timing.heartbeat_ms, timing.election_min_ms, timing.election_max_ms);
    if min < beat * 2 || max <= min {
        return Err(format!(
            "heartbeatIntervalMillis={beat}, electionTimeoutMinMillis={min}, electionTimeoutMaxMillis={max} do not fit: \
             the shortest election timeout must be twice the heartbeat or more, and below the longest"
        ));
    }
    Ok(())
}

/// `JSON` or `ROCKETMQ`, in any case.
///
/// # Errors
/// Anything else.
pub fn parse_serialization(text: &str) -> Result<Serialization, String> {
    match text.to_ascii_uppercase().as_str() {
        "JSON" => Ok(Serialization::Json),
        "ROCKETMQ" => Ok(Serialization::RocketMq),
        _ => Err(format!("serialize type '{text}' is neither json nor rocketmq")),
    }
}

#[cfg(test)]
mod tests;
