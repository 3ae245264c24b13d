//! Runs the program: to its end, or as a node.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// For what must come at once on an idle machine, and may take long on a busy one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raft-namesrv"));
    // The developer's own settings must not reach the tests.
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("RAFT_NAMESRV") || n == "NAMESRV_ADDR") {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
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
    pub(crate) boot_line: String,
    _log: Receiver<String>,
}

impl Node {
    /// Starts a one-node cluster on free ports, and waits until it serves.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = follow(child.stderr.take().unwrap());
        let mut boot_line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut boot_line).unwrap();
        let mut seen = Vec::new();
        let address = loop {
            let line = log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no address in {seen:#?}"));
            if let Some((_, rest)) = line.split_once("serving address=") {
                break rest.split_whitespace().next().unwrap().parse().unwrap();
            }
            seen.push(line);
        };
        Self { child, address, boot_line, _log: log }
    }

    /// Its address as the commands take it.
    pub(crate) fn at(&self) -> String {
        self.address.to_string()
    }

    /// Ends it as an operator does; gives its exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }

    /// Ends it with kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Gone already when the test ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // The pipe is read on, so that the node never blocks, even when nobody listens.
            let _ = sender.send(line);
        }
    });
    receiver
}
