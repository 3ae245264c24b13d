//! The settings of a node: flag over environment over file over default, checked once, printed at the start.
//!
//! Three kinds. *Node* settings hold for this process. *Replicated* ones are the cluster's: the file counts only when
//! the cluster is born. Java's keys *without effect* are accepted, and named in one warning.

mod elsewhere;
mod file;
mod limits;
mod members;

pub use file::PropertiesFile;
pub(crate) use members::parse_member;
pub use members::{Members, parse_node_id};

use crate::handlers::NodeSettings;
use crate::liveness::LivenessOptions;
use crate::protocol::ReadMode;
use crate::server::ServerOptions;
use crate::service::ServiceOptions;
use crate::wire::Serialization;
use crate::{Listeners, NodeConfig, RunError};
use raft::{Member, NodeId, SnapshotPolicy, Timing};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use storage::Command;
use storage::command::{Change, Name, Origin, UpdateSettings};
use storage::log::LogOptions;
use storage::settings::{SettingKind, Settings};
use tokio::net::TcpListener;

/// Distance of the peer port from the RocketMQ port.
pub const PEER_PORT_DISTANCE: u16 = 100;
/// Distance of the HTTP port from the RocketMQ port.
pub const HTTP_PORT_DISTANCE: u16 = 200;
/// Key under which a node tells its HTTP port among its settings (code 319).
pub const HTTP_PORT_KEY: &str = "httpListenPort";
/// RocketMQ's port.
pub const DEFAULT_PORT: u16 = 9876;

/// What was given as flags or in the environment.
#[derive(Debug, Clone, Default)]
pub struct Given {
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
    /// This node.
    pub node_id: NodeId,
    /// Data directory.
    pub data: PathBuf,
    /// RocketMQ port.
    pub listen: SocketAddr,
    /// Peer port.
    pub peer_listen: SocketAddr,
    /// HTTP port.
    pub http_listen: SocketAddr,
    /// Members named at the start; empty: this node alone.
    pub members: Vec<Member>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Snapshots and purges.
    pub snapshots: SnapshotPolicy,
    /// Most commands in a log entry.
    pub batch_commands_max: usize,
    /// Recent log entries kept in memory, bytes.
    pub recent_log_bytes: usize,
    /// `peerSecretFile`; empty: none.
    pub secret_file: String,
    /// Shared secret of the peers, read from there.
    pub secret: Vec<u8>,
    /// The RocketMQ port's behaviour.
    pub server: ServerOptions,
    /// How requests are carried out.
    pub service: ServiceOptions,
    /// Liveness.
    pub liveness: LivenessOptions,
    /// `configBlackList` of the file.
    pub black_list: String,
    /// Java's keys of this node in the file that mean nothing here, with their text: code 319 shows them.
    pub only_shown: Vec<(String, String)>,
    /// Replicated properties of the file: they count at the cluster's birth.
    pub replicated: Vec<(Name, Name)>,
    /// To be logged at the start.
    pub warnings: Vec<String>,
}

impl Config {
    /// Merges flags and a file over the defaults.
    ///
    /// # Errors
    /// A value that cannot be, or values that do not fit together; the text says which.
    pub fn new(given: Given, mut file: PropertiesFile) -> Result<Self, String> {
        let listen = listen_address(given.listen, &mut file)?;
        let members = match given.members {
            Some(members) => members.0,
            None => match file.take("members").filter(|text| !text.is_empty()) {
                Some(text) => text.parse::<Members>().map_err(|e| format!("members={text}: {e}"))?.0,
                None => Vec::new(),
            },
        };
        let in_file = file.take_as::<NodeId>("nodeId", "a node id")?;
        let node_id = own_id(given.node_id.or(in_file), &members)?;
        let peer = file.take_as("peerListen", "IP:PORT")?;
        let http = file.take_as("httpListen", "IP:PORT")?;
        let data = file.take("dataDirectory").map(PathBuf::from);
        let serialization = match file.take("serializeType") {
            Some(text) => Some(parse_serialization(&text)?),
            None => None,
        };
        let mut config = Self {
            node_id,
            data: given.data.or(data).unwrap_or_else(|| PathBuf::from("data")),
            listen,
            peer_listen: given.peer_listen.or(peer).unwrap_or_else(|| beside(listen, PEER_PORT_DISTANCE)),
            http_listen: given.http_listen.or(http).unwrap_or_else(|| beside(listen, HTTP_PORT_DISTANCE)),
            members,
            timing: Timing::default(),
            snapshots: SnapshotPolicy::default(),
            batch_commands_max: raft::Options::BATCH_COMMANDS_MAX,
            recent_log_bytes: LogOptions::default().cache_bytes,
            secret_file: String::new(),
            secret: Vec::new(),
            server: ServerOptions::default(),
            service: ServiceOptions::new(node_id),
            liveness: LivenessOptions::new(node_id),
            black_list: file.take("configBlackList").unwrap_or_default(),
            only_shown: Vec::new(),
            replicated: Vec::new(),
            warnings: Vec::new(),
        };
        config.server.serialization = given.serialization.or(serialization).unwrap_or_default();
        limits::read(&mut config, &mut file)?;
        config.take_the_rest(file);
        Ok(config)
    }

    /// Replicated properties, keys without effect, and keys that nobody knows.
    fn take_the_rest(&mut self, mut file: PropertiesFile) {
        let (mut without_effect, mut unknown) = (Vec::new(), Vec::new());
        let keys: Vec<String> = file.rest().map(str::to_owned).collect();
        for key in keys {
            let text = file.take(&key).unwrap_or_default();
            let kind = Settings::kind(&key);
            if matches!(kind, SettingKind::Replicated | SettingKind::WithoutEffect) {
                self.replicated.push((Name::from(key.as_str()), Name::from(text.as_str())));
            }
            match kind {
                SettingKind::Replicated => {}
                SettingKind::WithoutEffect => without_effect.push(key),
                SettingKind::Unknown if !elsewhere::is_known(&key) => unknown.push(key),
                // Of a node's, those with an effect were taken before: what is left are Java's paths.
                SettingKind::Node | SettingKind::Unknown => {
                    self.only_shown.push((key.clone(), text));
                    without_effect.push(key);
                }
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
    pub fn into_node(self, listeners: &Listeners) -> Result<NodeConfig, RunError> {
        let port = |listener: &TcpListener| {
            listener.local_addr().map(|a| a.port()).map_err(|e| RunError::Listen(e.to_string()))
        };
        let idle_s = self.server.limits.idle.as_secs();
        let ip = self.listen.ip().to_string();
        let mut settings = NodeSettings::new(&ip, port(&listeners.clients)?, idle_s, &self.black_list);
        settings.show("peerListenPort", &port(&listeners.peers)?.to_string());
        if let Some(http) = &listeners.http {
            settings.show(HTTP_PORT_KEY, &port(http)?.to_string());
        }
        for (key, text) in &self.only_shown {
            settings.show(key, text);
        }
        for (key, text) in
            self.replicated.iter().filter(|(key, _)| Settings::kind(key) == SettingKind::Replicated)
        {
            settings.show(&format!("configFile.{key}"), text);
        }
        let bootstrap = if self.replicated.is_empty() {
            Vec::new()
        } else {
            let change = Change::UpdateSettings(UpdateSettings { properties: self.replicated });
            // The same on all nodes: no node, no time.
            vec![Command { origin: Origin::default(), change }]
        };
        Ok(NodeConfig {
            node_id: self.node_id,
            data: self.data,
            members: self.members,
            secret: self.secret,
            timing: self.timing,
            snapshots: self.snapshots,
            batch_commands_max: self.batch_commands_max,
            recent_log_bytes: self.recent_log_bytes,
            bootstrap,
            settings,
            service: self.service,
            server: self.server,
            liveness: self.liveness,
        })
    }

    /// All settings of the node under their keys in the file, for the log at the start and for `-p`. Never the secret
    /// itself.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let members: Vec<String> = self.members.iter().map(|m| format!("{}={}", m.id, m.address)).collect();
        let mode = match self.service.read_mode {
            ReadMode::Linearizable => "linearizable",
            // A revision is asked for by a request, never by a setting.
            ReadMode::Local | ReadMode::MinRevision(_) => "local",
        };
        let mut all = vec![
            ("nodeId", self.node_id.to_string()),
            ("dataDirectory", self.data.display().to_string()),
            ("bindAddress", self.listen.ip().to_string()),
            ("listenPort", self.listen.port().to_string()),
            ("peerListen", self.peer_listen.to_string()),
            ("httpListen", self.http_listen.to_string()),
            ("members", members.join(",")),
            ("serializeType", self.server.serialization.to_string()),
            ("configBlackList", self.black_list.clone()),
            ("readMode", mode.to_owned()),
            ("peerSecretFile", self.secret_file.clone()),
        ];
        all.extend(limits::shown(self));
        all
    }
}

fn listen_address(given: Option<SocketAddr>, file: &mut PropertiesFile) -> Result<SocketAddr, String> {
    let ip = file.take_as::<IpAddr>("bindAddress", "an IP address")?;
    let port = file.take_as::<u16>("listenPort", "a port")?;
    let in_file =
        SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port.unwrap_or(DEFAULT_PORT));
    Ok(given.unwrap_or(in_file))
}

/// The default of a further port: the same address, some ports on; any free port beside any free port.
fn beside(listen: SocketAddr, distance: u16) -> SocketAddr {
    let port = if listen.port() == 0 { 0 } else { listen.port().saturating_add(distance) };
    SocketAddr::new(listen.ip(), port)
}

fn own_id(id: Option<NodeId>, members: &[Member]) -> Result<NodeId, String> {
    let ids: Vec<String> = members.iter().map(|m| m.id.to_string()).collect();
    match (id, members) {
        (Some(0), _) => Err("node id 0 is not allowed; ids are numbers from 1".to_owned()),
        // One that is not among them waits until a member takes it in.
        (Some(id), _) => Ok(id),
        (None, []) => Ok(1),
        (None, [only]) => Ok(only.id),
        (None, _) => {
            Err(format!("which of the members {} is this node? Say it with --node-id", ids.join(", ")))
        }
    }
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
