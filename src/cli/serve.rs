//! `serve`: a node.

use super::{Failure, output};
use crate::config::{
    Config, Flags, Members, PropertiesFile, parse_listen, parse_node_id, parse_serialization, settings_help,
};
use crate::logging::{self, LogFormat};
use crate::node::{fit_open_files, raise_open_files};
use crate::wire::Serialization;
use crate::{Listeners, RunError};
use raft::NodeId;
use rustix::fs::Mode;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

/// Flags of `serve`. Each beats the file that `-c` names.
#[derive(Debug, clap::Args)]
#[command(after_long_help = settings_help())]
pub(crate) struct Args {
    /// Properties file with Java's keys and ours; see the end of --help
    #[arg(short = 'c', long = "config", env = "RAFT_NAMESRV_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings of this node, as the file has them, and exit
    #[arg(short = 'p', long = "print-config")]
    print: bool,
    /// Id of this node, a number from 1 [default: 1, or that of the only member]
    #[arg(long, env = "RAFT_NAMESRV_NODE_ID", value_name = "N", value_parser = parse_node_id)]
    node_id: Option<NodeId>,
    /// Data directory: log, snapshots and the identity of the node [default: ./data]
    #[arg(long, env = "RAFT_NAMESRV_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where brokers and clients connect, the RocketMQ port; port 0: any free one [default: 0.0.0.0:9876]
    #[arg(long, env = "RAFT_NAMESRV_LISTEN", value_name = "HOST:PORT", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Where the other nodes connect [default: the RocketMQ port + 100]
    #[arg(long, env = "RAFT_NAMESRV_PEER_LISTEN", value_name = "HOST:PORT", value_parser = parse_listen)]
    peer_listen: Option<SocketAddr>,
    /// Where operators look: health, metrics, JSON [default: the RocketMQ port + 200]
    #[arg(long, env = "RAFT_NAMESRV_HTTP_LISTEN", value_name = "HOST:PORT", value_parser = parse_listen)]
    http_listen: Option<SocketAddr>,
    /// Members of a new cluster, the same list at each node: 1=HOST:PEERPORT,2=… [default: this node alone]
    #[arg(long, env = "RAFT_NAMESRV_MEMBERS", value_name = "LIST")]
    members: Option<Members>,
    /// Header of the answers: json, or rocketmq for the binary one [default: json]
    #[arg(long, env = "ROCKETMQ_SERIALIZE_TYPE", value_parser = parse_serialization, value_name = "TYPE")]
    serialize_type: Option<Serialization>,
    /// Log format; in the environment RAFT_NAMESRV_LOG says how much: warn, debug, or as by default info; info,openraft=warn adds lines of the Raft library
    #[arg(long, env = "RAFT_NAMESRV_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
}

/// Runs a node until SIGTERM or Ctrl-C.
///
/// # Errors
/// The data or the settings are refused, a port cannot be used, or Raft or the disk has died: each has its exit code.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let file = match &args.config {
        Some(path) => PropertiesFile::read(path).map_err(Failure::refused)?,
        None => PropertiesFile::default(),
    };
    let (print, log_format) = (args.print, args.log_format);
    let config = Config::new(args.flags(), file).map_err(Failure::refused)?;
    if print {
        let lines: Vec<String> =
            config.shown().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        return Ok(output::text(&lines.join("\n"))?);
    }
    let _logging = logging::start(log_format);
    // What this process makes from here on is for its own user: the log has all that brokers and operators wrote.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let _ignoring = ignore_hangups().map_err(|e| Failure::refused(format!("cannot ignore SIGHUP: {e}")))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    log_settings(&config)?;
    let listeners =
        Listeners::bind(config.listen, config.peer_listen, config.http_listen).map_err(failure)?;
    let serialization = config.node.server.serialization;
    let mut node = config.into_node(&listeners).map_err(failure)?;
    if let Some(warning) = fit_open_files(&mut node, raise_open_files()).map_err(failure)? {
        tracing::warn!("{warning}");
    }
    crate::run(node, listeners, super::stop_signal(), |running| {
        let http = running.http_address.map_or_else(|| "-".to_owned(), |a| a.to_string());
        tracing::info!(address = %running.address, peers = %running.peer_address, %http, "serving");
        let line = format!("The Name Server boot success. serializeType={serialization}");
        // Scripts wait for this line of Java's; a stdout that is closed or full is no reason to end or to wait.
        tokio::task::spawn_blocking(move || drop(output::line(&line)));
    })
    .await
    .map_err(failure)
}

/// At info those that differ from their default, at debug the others: `-p` prints all.
fn log_settings(config: &Config) -> Result<(), Failure> {
    let defaults = Config::new(Flags::default(), PropertiesFile::default()).map_err(Failure::refused)?;
    for ((key, value), (_, default)) in config.shown().into_iter().zip(defaults.shown()) {
        if value == default {
            tracing::debug!("setting {key}={value}");
        } else {
            tracing::info!("setting {key}={value}");
        }
    }
    Ok(())
}

fn failure(error: RunError) -> Failure {
    let text = error.to_string();
    match error {
        RunError::Refused(_) => Failure::refused(text),
        RunError::Listen(_) => Failure::listen(text),
        RunError::Failed(_) => Failure::dead(text),
    }
}

/// A terminal that closes, and scripts that mean "read your file again", send SIGHUP; the default would end the node.
fn ignore_hangups() -> io::Result<AbortOnDropHandle<()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    let ignoring = async move {
        while hangups.recv().await.is_some() {
            tracing::info!("SIGHUP is ignored: settings are read at the start only");
        }
    };
    Ok(AbortOnDropHandle::new(tokio::spawn(ignoring)))
}

impl Args {
    fn flags(self) -> Flags {
        Flags {
            node_id: self.node_id,
            data: self.data,
            listen: self.listen,
            peer_listen: self.peer_listen,
            http_listen: self.http_listen,
            members: self.members,
            serialization: self.serialize_type,
        }
    }
}
