//! `dev`: a whole cluster on this machine, each node a process of its own.

use super::{Failure, output};
use crate::config::{DEFAULT_PORT, HTTP_PORT_DISTANCE, PEER_PORT_DISTANCE};
use crate::logging::LOG_VARIABLE;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Flags of `dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many nodes, 1 to 9
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Folder for the nodes' data, kept between runs: the cluster goes on where it was
    #[arg(long, value_name = "DIR", default_value = "data/dev")]
    data: PathBuf,
    /// RocketMQ port of the first node; the others get the next ones (peers: 100 more, HTTP: 200 more)
    #[arg(long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..=65000))]
    port: u16,
}

struct NodeProcess {
    id: u16,
    address: String,
    http_address: String,
    command_line: String,
    child: Child,
}

/// Starts the nodes, prints what to try, and ends them at Ctrl-C or SIGTERM.
///
/// # Errors
/// A node does not start, or all of them have ended.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::refused(format!("cannot find this program to start nodes: {e}")))?;
    let mut nodes = Vec::new();
    let stop = stop_signal();
    tokio::pin!(stop);
    let booted = tokio::select! {
        // The signal counts from before the first node starts, so that no node is left behind.
        biased;
        () = &mut stop => None,
        booted = boot(&program, args, &mut nodes) => Some(booted),
    };
    if !matches!(booted, Some(Ok(()))) {
        stop_all(nodes).await;
        return booted.unwrap_or(Ok(()));
    }
    introduce(&program, &nodes, &args.data)?;
    watch(nodes, stop).await
}

/// Ctrl-C, SIGTERM, or the end of the terminal: no node is left behind.
async fn stop_signal() {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return super::stop_signal().await };
    tokio::select! {
        () = super::stop_signal() => {}
        _ = hangup.recv() => {}
    }
}

/// Starts the nodes and waits until each says that it serves.
async fn boot(program: &Path, args: &Args, nodes: &mut Vec<NodeProcess>) -> Result<(), Failure> {
    let members = members(args);
    for id in 1..=args.nodes {
        nodes.push(start(program, args, id, &members)?);
    }
    let mut booted = JoinSet::new();
    for node in nodes {
        let Some(stdout) = node.child.stdout.take() else { continue };
        let id = node.id;
        booted.spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            let first = lines.next_line().await;
            // A node must never block on a full pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            (id, matches!(first, Ok(Some(_))))
        });
    }
    while let Some(result) = booted.join_next().await {
        if let Ok((id, false)) = result {
            return Err(Failure::refused(format!("node {id} did not start; its messages stand above")));
        }
    }
    Ok(())
}

fn members(args: &Args) -> String {
    let member = |id: u16| format!("{id}=127.0.0.1:{}", args.port + id - 1 + PEER_PORT_DISTANCE);
    (1..=args.nodes).map(member).collect::<Vec<_>>().join(",")
}

fn start(program: &Path, args: &Args, id: u16, members: &str) -> Result<NodeProcess, Failure> {
    let port = args.port + id - 1;
    let address = format!("127.0.0.1:{port}");
    let http_address = format!("127.0.0.1:{}", port + HTTP_PORT_DISTANCE);
    let data = args.data.join(format!("node-{id}"));
    let flags = [
        "serve".to_owned(),
        format!("--node-id={id}"),
        format!("--data={}", data.display()),
        format!("--listen={address}"),
        format!("--members={members}"),
    ];
    let command_line = format!("{} {}", program.display(), flags.join(" "));
    let mut command = Command::new(program);
    if std::env::var_os(LOG_VARIABLE).is_none() {
        // Three logs at once would hide what this command prints.
        command.env(LOG_VARIABLE, "warn");
    }
    let child = command
        .args(&flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Ctrl-C reaches this process only; it then ends the nodes in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| Failure::refused(format!("cannot start node {id} ({command_line}): {e}")))?;
    Ok(NodeProcess { id, address, http_address, command_line, child })
}

/// The commands name this program by its path, so that they run wherever they are copied to.
fn introduce(program: &Path, nodes: &[NodeProcess], data: &Path) -> Result<(), Failure> {
    let rows = nodes.iter().map(|node| {
        let pid = node.child.id().map_or_else(String::new, |pid| pid.to_string());
        [node.id.to_string(), pid, node.address.clone(), node.http_address.clone()]
    });
    output::table(["NODE", "PID", "ADDRESS", "HTTP"], rows.collect())?;
    let all = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(";");
    let program = program.display();
    output::text(&format!(
        "\nFor brokers and clients: NAMESRV_ADDR='{all}'\nData: {}\n\nTry, in another terminal:\n\n  \
         # each node: its role, its newest revision, whether it is ready\n  \
         {program} status -n '{all}'\n  \
         # four pretend brokers with 100 topics; they leave when you end it\n  \
         {program} play -n '{all}' --brokers 4 --topics 100\n  \
         # where a topic lives, asked at each node and compared\n  \
         {program} route play-topic-0 -n '{all}'\n\n\
         Kill a node with `kill -9 PID` and look again. With {LOG_VARIABLE}=info the nodes print their logs.\n\
         Ctrl-C ends all.",
        data.display()
    ))?;
    Ok(())
}

/// Reports nodes that end by themselves, until asked to stop.
async fn watch(nodes: Vec<NodeProcess>, stop_signal: impl Future<Output = ()>) -> Result<(), Failure> {
    let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
    let mut running = JoinSet::new();
    for node in nodes {
        let mut stop = stop.subscribe();
        running.spawn(async move {
            let mut node = node;
            tokio::select! {
                status = node.child.wait() => report_end(&node, status),
                _ = stop.recv() => stop_node(node).await,
            }
        });
    }
    let all_ended = async { while running.join_next().await.is_some() {} };
    tokio::select! {
        () = stop_signal => {}
        () = all_ended => return Err(Failure::refused("all nodes have ended".to_owned())),
    }
    drop(stop.send(()));
    while running.join_next().await.is_some() {}
    Ok(())
}

fn report_end(node: &NodeProcess, status: std::io::Result<ExitStatus>) {
    let how = status.map_or_else(|e| e.to_string(), |s| s.to_string());
    let text = format!("node {} ended: {how}. Start it again with:\n  {}", node.id, node.command_line);
    // A closed stdout is no reason to end the other nodes.
    drop(output::text(&text));
}

async fn stop_all(nodes: Vec<NodeProcess>) {
    for node in nodes {
        stop_node(node).await;
    }
}

async fn stop_node(mut node: NodeProcess) {
    let pid = node.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    drop(node.child.wait().await);
}
