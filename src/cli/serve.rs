//! `serve`: a node.

use super::{Failure, output};
use crate::config::{Config, Given, Members, PropertiesFile, parse_node_id, parse_serialization};
use crate::wire::Serialization;
use crate::{Listeners, RunError};
use raft::NodeId;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

/// Keys of the file with their defaults; `-p` prints all with what holds.
const FILE_KEYS: &str = "\
The file that -c names has Java's keys and these; -p prints them with the values that hold for this node. What is
replicated counts at the cluster's birth only: what holds since then, `raft-namesrv settings` shows.

Of this node, as the flags have it:
  nodeId=1, dataDirectory=data, members=1=HOST:PEERPORT,2=…, serializeType=JSON
  bindAddress=0.0.0.0, listenPort=9876                      together --listen
  peerListen=0.0.0.0:9976, httpListen=0.0.0.0:10076         by default that port + 100 and + 200
  configBlackList=KEY;KEY             keys that code 318 may not change, beside Java's
When a broker's host is taken for dead (0: never; a broker's own timeout holds in any case):
  brokerKeepAliveIdleSeconds=4        silence on a broker's connection until it is probed
  brokerKeepAliveIntervalSeconds=2    between two probes
  brokerTcpUserTimeoutMillis=10000    bytes or probes without an answer for this long end the connection
Mass eviction guard:
  massEvictionGuard=true              false: nobody is held back
  massEvictionSharePercent=60         of the brokers; what more would go within 10 s is held back
Limits:
  serverChannelMaxIdleTimeSeconds=120 a connection without a byte is closed
  connectionsMax=20000                more are closed at once
  requestsInFlightMax=65536           more are answered SYSTEM_BUSY
  requestsInFlightPerConnectionMax=512
  requestsInFlightBytesMax=1073741824
  frameBytesMax=16777216              a longer frame closes its connection
  registrationBytesMax=268435456      a larger registration, once inflated, is refused
  registrationTopicsMax=200000        one with more topics, or more static topics, too
  writeBufferBytesMax=33554432        answers that a peer has not yet taken; then no more of its requests are read,
  writeStallMillis=3000               and it is closed when it takes nothing for this long
  sessionPairsMax=65536               brokers on connections, and 8 MiB of their names; those beyond leave by their
                                      timeout only
  routeCacheBytesMax=67108864         encoded routes
Look-ups:
  readMode=local                      or linearizable
  recoveryWaitSeconds=30              a restarted node without a leader waits so long until it serves
  serveAfterRecoveryWait=true         false: then neither
  stalenessMaxMillis=0                a node that has heard no leader for this long serves no more (0: it goes on)
Log:
  snapshotLogBytes=67108864, snapshotEntries=50000, snapshotAgeSeconds=3600
                                      since the last snapshot; what comes first makes the next one
  logBytesMax=536870912               log kept for a member that lags behind
  recentLogBytesMax=67108864          log entries kept in memory
  batchCommandsMax=512                commands in a log entry
Other nodes:
  peerSecretFile=FILE                 with the secret that all nodes share
  heartbeatIntervalMillis=100, electionTimeoutMinMillis=250, electionTimeoutMaxMillis=500";

/// Flags of `serve`. Each beats the file that `-c` names.
#[derive(Debug, clap::Args)]
#[command(after_long_help = FILE_KEYS)]
pub(crate) struct Args {
    /// Properties file with Java's keys
    #[arg(short = 'c', long = "config", env = "RAFT_NAMESRV_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings of this node, as the file has them, and exit
    #[arg(short = 'p', long = "print-config")]
    print: bool,
    /// Id of this node, a number from 1
    #[arg(long, env = "RAFT_NAMESRV_NODE_ID", value_parser = parse_node_id)]
    node_id: Option<NodeId>,
    /// Data directory [default: ./data]
    #[arg(long, env = "RAFT_NAMESRV_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of the RocketMQ port [default: 0.0.0.0:9876]
    #[arg(long, env = "RAFT_NAMESRV_LISTEN", value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Address of the peer port [default: the RocketMQ port + 100]
    #[arg(long, env = "RAFT_NAMESRV_PEER_LISTEN", value_name = "IP:PORT")]
    peer_listen: Option<SocketAddr>,
    /// Address of the HTTP port [default: the RocketMQ port + 200]
    #[arg(long, env = "RAFT_NAMESRV_HTTP_LISTEN", value_name = "IP:PORT")]
    http_listen: Option<SocketAddr>,
    /// Members of a new cluster, the same list at each: 1=HOST:PEERPORT,2=… [default: this node alone]
    #[arg(long, env = "RAFT_NAMESRV_MEMBERS", value_name = "LIST")]
    members: Option<Members>,
    /// How answers are written: json or rocketmq [default: json]
    #[arg(long, env = "ROCKETMQ_SERIALIZE_TYPE", value_parser = parse_serialization, value_name = "TYPE")]
    serialize_type: Option<Serialization>,
    /// Log format; in the environment RAFT_NAMESRV_LOG says how much: warn, debug, or as by default info,openraft=warn
    #[arg(long, env = "RAFT_NAMESRV_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Runs a node until SIGTERM or Ctrl-C.
///
/// # Errors
/// See the exit codes.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let file = match &args.config {
        Some(path) => PropertiesFile::read(path).map_err(Failure::refused)?,
        None => PropertiesFile::default(),
    };
    let (print, log_format) = (args.print, args.log_format);
    let config = Config::new(args.given(), file).map_err(Failure::refused)?;
    if print {
        let lines: Vec<String> =
            config.shown().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        return Ok(output::line(&lines.join("\n"))?);
    }
    start_logging(log_format);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    for (key, value) in config.shown() {
        tracing::info!("setting {key}={value}");
    }
    let listeners =
        Listeners::bind(config.listen, config.peer_listen, config.http_listen).map_err(failure)?;
    let serialization = config.server.serialization;
    let node = config.into_node(&listeners).map_err(failure)?;
    crate::run(node, listeners, super::stop_signal(), |running| {
        let http = running.http_address.map_or_else(|| "-".to_owned(), |a| a.to_string());
        tracing::info!(address = %running.address, peers = %running.peer_address, %http, "serving");
        // Whoever started this process waits for Java's line; a closed stdout is no reason to end.
        drop(output::line(&format!("The Name Server boot success. serializeType={serialization}")));
    })
    .await
    .map_err(failure)
}

fn failure(error: RunError) -> Failure {
    let text = error.to_string();
    match error {
        RunError::Refused(_) => Failure::refused(text),
        RunError::Listen(_) => Failure::listen(text),
        RunError::Failed(_) => Failure::dead(text),
    }
}

fn start_logging(format: LogFormat) {
    let filter =
        EnvFilter::try_from_env("RAFT_NAMESRV_LOG").unwrap_or_else(|_| EnvFilter::new("info,openraft=warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

impl Args {
    fn given(self) -> Given {
        Given {
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
