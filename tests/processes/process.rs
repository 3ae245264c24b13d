//! Runs the program: to its end, or as a node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Limit of waits that end at once on an idle machine and may take long on a busy one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn program() -> Command {
    program_by(env!("CARGO_BIN_EXE_raft-namesrv"))
}

pub(crate) fn program_by(path: &str) -> Command {
    let mut command = Command::new(path);
    // The developer's own settings must not reach the tests.
    let read = |name: &str| {
        name.starts_with("RAFT_NAMESRV") || ["NAMESRV_ADDR", "ROCKETMQ_SERIALIZE_TYPE"].contains(&name)
    };
    for (name, _) in std::env::vars().filter(|(name, _)| read(name)) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The program, not ended by a write beyond its limit of a file's size: the write fails.
pub(crate) fn program_whose_writes_may_fail() -> Command {
    let mut shell = program_by("sh");
    // An ignored signal stays ignored in the program that the shell becomes.
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_raft-namesrv")]);
    shell
}

/// From now on a process can write no byte beyond this place of any file.
pub(crate) fn limit_files_to(child: &Child, bytes: u64) {
    let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).unwrap();
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

/// Runs a command that must succeed; gives its stdout.
pub(crate) fn stdout_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail; gives its exit code and stderr.
pub(crate) fn failure_of(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded: {output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Runs a command that must print JSON.
pub(crate) fn json_of(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout_of(arguments)).unwrap()
}

/// A node of its own process; killed when dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) address: SocketAddr,
    peers: SocketAddr,
    http: SocketAddr,
    pub(crate) boot_line: String,
    data: PathBuf,
    arguments: Vec<String>,
    /// What it logged before it served.
    pub(crate) begun: Vec<String>,
    log: Receiver<String>,
}

/// SIGTERM.
pub(crate) fn send_sigterm(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// A node that was ended, to be started again on its ports.
pub(crate) struct Ended {
    data: PathBuf,
    arguments: Vec<String>,
}

impl Ended {
    pub(crate) fn start(&self) -> Node {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        Node::start(&self.data, &arguments)
    }
}

impl Node {
    /// Starts a node on free ports, of a cluster of its own unless `more` says otherwise, and waits until it serves.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        Self::try_start(data, more).unwrap_or_else(|log| panic!("no address in {log:#?}"))
    }

    /// As [`Node::start`]; gives its log when it ends instead.
    fn try_start(data: &Path, more: &[&str]) -> Result<Self, Vec<String>> {
        Self::try_start_by(program(), data, more)
    }

    /// A node whose writes beyond its limit of a file's size fail, instead of ending it.
    pub(crate) fn start_with_writes_that_fail(data: &Path) -> Self {
        Self::try_start_by(program_whose_writes_may_fail(), data, &[])
            .unwrap_or_else(|log| panic!("no address in {log:#?}"))
    }

    /// A node by a command of the test's own, never to be started again.
    pub(crate) fn start_as(program: Command) -> Self {
        Self::try_spawn(program, Path::new(""), &[]).unwrap_or_else(|log| panic!("no address in {log:#?}"))
    }

    fn try_start_by(mut program: Command, data: &Path, more: &[&str]) -> Result<Self, Vec<String>> {
        program
            .args(["serve", "--data"])
            .arg(data)
            .args(if more.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(more);
        Self::try_spawn(program, data, more)
    }

    fn try_spawn(mut program: Command, data: &Path, more: &[&str]) -> Result<Self, Vec<String>> {
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = follow(child.stderr.take().unwrap());
        let mut boot_line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut boot_line).unwrap();
        let mut begun = Vec::new();
        let [address, peers, http] = loop {
            let Ok(line) = log.recv_timeout(PATIENCE) else {
                let _ = child.kill();
                child.wait().unwrap();
                return Err(begun);
            };
            if line.contains("serving address=") {
                break ["address=", "peers=", "http="].map(|field| address_in(&line, field));
            }
            begun.push(line);
        };
        let arguments = more.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(Self { child, address, peers, http, boot_line, data: data.to_owned(), arguments, begun, log })
    }

    /// Where its HTTP port is.
    pub(crate) fn http(&self) -> String {
        self.http.to_string()
    }

    /// Its id as a process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Where other nodes connect to.
    pub(crate) fn peers(&self) -> String {
        self.peers.to_string()
    }

    /// Whether it has logged this since the last such call.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.log.try_iter().any(|line| line.contains(text))
    }

    /// What it has logged since the last such call.
    pub(crate) fn logged(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// What it logs, since the last such call, until a line has this text.
    pub(crate) fn logged_until(&self, text: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.contains(text)) {
            let line = self.log.recv_timeout(PATIENCE);
            lines.push(line.unwrap_or_else(|_| panic!("never '{text}' in {lines:#?}")));
        }
        lines
    }

    /// Its memory.
    pub(crate) fn resident_kib(&self) -> usize {
        self.memory_kib("VmRSS:")
    }

    /// The most that it had at one time.
    pub(crate) fn peak_resident_kib(&self) -> usize {
        self.memory_kib("VmHWM:")
    }

    fn memory_kib(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        kib.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// Stops it as a debugger does, or lets it go on.
    pub(crate) fn pause(&self, paused: bool) {
        let signal = if paused { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its address as the commands take it.
    pub(crate) fn at(&self) -> String {
        self.address.to_string()
    }

    /// Sends SIGTERM, as an operator does.
    pub(crate) fn send_sigterm(&self) {
        send_sigterm(&self.child);
    }

    /// Sends SIGHUP, as a terminal does when it closes.
    pub(crate) fn send_sighup(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    /// Ends it as an operator does; gives its exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        self.send_sigterm();
        self.child.wait().unwrap().code().unwrap()
    }

    /// From now on it can write no byte beyond this place of any file.
    pub(crate) fn limit_files_to(&self, bytes: u64) {
        limit_files_to(&self.child, bytes);
    }

    /// Waits until it ends by itself; gives its exit code and its log since it served.
    pub(crate) fn ended(mut self) -> (i32, Vec<String>) {
        let mut code = None;
        until("it ends by itself", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        (code.unwrap().code().expect("no signal ended it"), self.log.iter().collect())
    }

    /// Ends it with kill -9.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        Ended { data: std::mem::take(&mut self.data), arguments: std::mem::take(&mut self.arguments) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Fails when the test has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster of three, ready, each node with a directory below `dir`.
pub(crate) fn cluster(dir: &Path) -> Vec<Node> {
    cluster_with(dir, &[])
}

/// The same with more arguments for each node.
pub(crate) fn cluster_with(dir: &Path, more: &[&str]) -> Vec<Node> {
    cluster_behind(dir, more, |_, address| address)
}

/// The same, in which the other nodes reach a node at the address that `proxy` gives for its place and its own address.
pub(crate) fn cluster_behind(
    dir: &Path,
    more: &[&str],
    mut proxy: impl FnMut(usize, SocketAddr) -> SocketAddr,
) -> Vec<Node> {
    // Another process may have taken a port that was free a moment ago: then all begin again, with other ports.
    let mut attempts = (1..=5).map(|attempt| try_cluster(&dir.join(attempt.to_string()), more, &mut proxy));
    let nodes = attempts.find_map(Result::ok).expect("no three free ports");
    all_ready(&nodes);
    nodes
}

/// Waits until nodes serve.
pub(crate) fn all_ready(nodes: &[Node]) {
    until("all are ready", || {
        nodes.iter().all(|node| run(&["probe", "--http", &node.http()]).status.success())
    });
}

fn try_cluster(
    dir: &Path,
    more: &[&str],
    mut proxy: impl FnMut(usize, SocketAddr) -> SocketAddr,
) -> Result<Vec<Node>, Vec<String>> {
    let peers: Vec<_> = (0..3).map(|_| free_address()).collect();
    let mut member =
        |(at, address): (usize, &String)| format!("{}={}", at + 1, proxy(at, address.parse().unwrap()));
    let members = peers.iter().enumerate().map(&mut member).collect::<Vec<_>>().join(",");
    let start = |(at, peer): (usize, &String)| {
        let (id, listen, http) = ((at + 1).to_string(), free_address(), free_address());
        let identity = ["--node-id", &id, "--members", &members];
        let ports = ["--listen", &listen, "--peer-listen", peer, "--http-listen", &http];
        Node::try_start(&dir.join(&id), &[&identity[..], &ports, more].concat())
    };
    peers.iter().enumerate().map(start).collect()
}

/// Below the ports that the kernel gives to outgoing connections: no process takes it while its node is down.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let begin = u16::try_from(std::process::id() % 1_600).unwrap() * 10;
        let port = 15_000 + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 16_000;
        let address = format!("127.0.0.1:{port}");
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// The status of a node, whether it knows a leader or not.
pub(crate) fn status(node: &Node) -> serde_json::Value {
    let output = run(&["status", "--json", "-n", &node.at()]);
    let mut statuses: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    statuses[0].take()
}

/// The place of the node that leads.
pub(crate) fn leader(nodes: &[Node]) -> usize {
    let mut found = None;
    until("there is a leader", || {
        found = nodes.iter().position(|node| status(node)["leading"] == true);
        found.is_some()
    });
    found.unwrap()
}

/// A metric of a node, by its name and labels as they stand there.
pub(crate) fn metric<T: FromStr>(node: &Node, name: &str) -> T {
    metric_at(&node.http(), name)
}

/// The same at an HTTP address.
pub(crate) fn metric_at<T: FromStr>(http: &str, name: &str) -> T {
    let metrics = get(http, "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

/// How many brokers left by expiry and by disconnect, as a node applied it since it started.
pub(crate) fn removed(node: &Node) -> (u64, u64) {
    let count = |cause| metric(node, &format!("rocketmq_namesrv_brokers_removed_total{{cause=\"{cause}\"}}"));
    (count("expired"), count("disconnected"))
}

/// The records of one kind in the history of a broker, at a node.
pub(crate) fn history(node: &Node, broker: &str, kind: &str) -> Vec<String> {
    let history = json_of(&["why", broker, "--json", "--timeout-ms", "20000", "-n", &node.at()]);
    let records = history["records"].as_array().unwrap().iter();
    let wanted = records.filter(|record| record["kind"] == kind);
    wanted.map(|record| record["what"].as_str().unwrap().to_owned()).collect()
}

/// Why a broker left, each time, in the history of a node.
pub(crate) fn why_removed(node: &Node, address: &str) -> Vec<String> {
    history(node, address, "brokerRemoved")
}

/// Waits until all nodes have that many brokers.
pub(crate) fn until_there_are<'a>(nodes: impl IntoIterator<Item = &'a Node>, count: usize) {
    for node in nodes {
        until(&format!("{count} brokers at node {}", node.at()), || brokers(&node.at()).len() == count);
    }
}

/// All the time these nodes know that many brokers.
pub(crate) fn stay_for<'a>(
    time: Duration,
    nodes: impl IntoIterator<Item = &'a Node, IntoIter: Clone>,
    count: usize,
) {
    let (begun, nodes) = (Instant::now(), nodes.into_iter());
    while begun.elapsed() < time {
        for node in nodes.clone() {
            assert_eq!(brokers(&node.at()).len(), count, "at {} after {:?}", node.at(), begun.elapsed());
        }
    }
}

/// Pretend brokers, killed when dropped.
pub(crate) struct Play(Child);

impl Play {
    pub(crate) fn start(nameservers: &str, more: &[&str]) -> Self {
        let mut command = program();
        command.args(["play", "-n", nameservers]).args(more);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Ends it as an operator does; gives what it prints then.
    pub(crate) fn terminate(mut self) -> String {
        send_sigterm(&self.0);
        let mut printed = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}: {printed}");
        printed
    }

    /// Brokers that register with this timeout.
    pub(crate) fn with_timeout(
        nameservers: &[String],
        count: usize,
        timeout: Duration,
        more: &[&str],
    ) -> Self {
        let (count, timeout_ms) = (count.to_string(), timeout.as_millis().to_string());
        let flags = ["--brokers", &count, "--topics", "3", "--broker-timeout-ms", &timeout_ms];
        Self::start(&nameservers.join(","), &[&flags, more].concat())
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The addresses of all brokers that a node knows.
pub(crate) fn brokers(at: &str) -> Vec<String> {
    let listed = json_of(&["brokers", "--json", "--timeout-ms", "20000", "-n", at]);
    let address = |broker: &serde_json::Value| broker["address"].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(address).collect()
}

/// What a node's HTTP port answers, head and body.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits for something that processes do.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The address behind a field of a log line.
fn address_in(line: &str, field: &str) -> SocketAddr {
    let (_, rest) = line.split_once(field).unwrap_or_else(|| panic!("no {field} in {line}"));
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// The lines that a process prints, as they come.
pub(crate) fn follow(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // The pipe is read on, so that the node never blocks, even when the test takes no lines.
            let _ = sender.send(line);
        }
    });
    receiver
}
