//! `dev`: the one command that the README begins with.

use crate::process::{
    PATIENCE, failure_of, follow, program, program_by, run, send_sigterm, stdout_of, until,
};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// A cluster started by `dev`; ended when dropped.
struct Dev {
    child: Child,
    port: u16,
    /// What it printed, to its last sentence.
    printed: Vec<String>,
}

impl Dev {
    /// Gives nothing when it could not start, as when one of its ports is taken.
    fn try_start(data: &Path, attempt: u32) -> Option<Self> {
        let port = port(attempt);
        let mut dev = Self { child: spawn(data, port), port, printed: Vec::new() };
        let lines = follow(dev.child.stdout.take().unwrap());
        while !dev.printed.last().is_some_and(|line| line.ends_with("Ctrl-C ends all.")) {
            dev.printed.push(lines.recv_timeout(PATIENCE).ok()?);
        }
        Some(dev)
    }

    /// The rows of its table: node, pid, address, HTTP address.
    fn nodes(&self) -> Vec<[String; 4]> {
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows =
            self.printed.iter().map(words).skip_while(|row| *row != ["NODE", "PID", "ADDRESS", "HTTP"]);
        let rows = rows.skip(1).map_while(|row| row.try_into().ok());
        rows.collect()
    }

    /// The command that it says to try, by its name.
    fn command(&self, name: &str) -> &str {
        let line =
            self.printed.iter().find(|line| line.starts_with("  ") && line.contains(&format!(" {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {:#?}", self.printed))
    }

    fn terminate(&mut self) -> Option<i32> {
        send_sigterm(&self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Fails when the test has ended it.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
        }
    }
}

/// Another one for each attempt; below those of outgoing connections, and above those that other tests take.
fn port(attempt: u32) -> u16 {
    u16::try_from(31_100 + (std::process::id() * 3 + attempt * 307) % 1_400).unwrap()
}

fn spawn(data: &Path, port: u16) -> Child {
    let mut command = program();
    command.args(["dev", "--port", &port.to_string(), "--data"]).arg(data);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// How many processes have this directory, or one in it, among their arguments.
fn processes_with(data: &Path) -> usize {
    let data = data.as_os_str().as_bytes();
    let has = |process: std::io::Result<std::fs::DirEntry>| {
        let line = std::fs::read(process.ok()?.path().join("cmdline")).ok()?;
        Some(line.windows(data.len()).any(|part| part == data))
    };
    std::fs::read_dir("/proc").unwrap().filter_map(has).filter(|has| *has).count()
}

#[test]
fn three_nodes_serve_the_printed_commands_work_and_no_process_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let dev = (0..5).find_map(|attempt| Dev::try_start(&dir.path().join(attempt.to_string()), attempt));
    let mut dev = dev.expect("no free ports");
    let nodes = dev.nodes();
    assert_eq!(nodes.len(), 3, "{:#?}", dev.printed);
    for ((id, port), [node, pid, address, http]) in (1..).zip(dev.port..).zip(&nodes) {
        assert_eq!((node, address), (&id.to_string(), &format!("127.0.0.1:{port}")));
        assert_eq!(http, &format!("127.0.0.1:{}", port + 200));
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.contains("serve") && line.contains(address), "{line}");
    }

    // In a shell that has this program nowhere on its path.
    let shell = |command: &str| program_by("sh").args(["-c", command]).output().unwrap();
    let mut status = None;
    until("all are ready and led", || {
        let output = shell(dev.command("status"));
        let text = String::from_utf8(output.stdout).unwrap();
        let all = output.status.success() && text.matches("  yes").count() == 3;
        status = Some(text);
        all
    });
    assert!(status.unwrap().contains("leader"));
    let play = shell(&format!("{} --seconds 1", dev.command("play")));
    assert!(play.status.success(), "{play:?}");
    // Its brokers have left: the command runs, and says that the topic is gone.
    let route = String::from_utf8(shell(dev.command("route")).stdout).unwrap();
    assert_eq!(route.matches("code 17").count(), 3, "{route}");

    let [[_, _, first, _], _, [_, pid, last, _]] = &nodes[..] else { panic!("{nodes:?}") };
    let status = stdout_of(&["status", "-n", first]);
    assert_eq!(status.matches("  yes").count(), 3, "one address shows all members: {status}");
    stdout_of(&["kv", "put", "NS", "key", "value", "-n", first]);
    until("the entry is at another node", || {
        let output = program().args(["kv", "get", "NS", "key", "-n", last]).output().unwrap();
        output.stdout == b"value\n"
    });

    assert_eq!(processes_with(dir.path()), 4);
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("the killed member is shown as such, and is no failure", || {
        let output = run(&["status", "--json", "-n", first]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ids: Vec<_> = (0..3).map(|at| status[at]["nodeId"].as_u64()).collect();
        assert_eq!(ids, [1, 2, 3].map(Some), "{status}");
        output.status.success() && status[1]["ready"] == true && status[2]["error"].is_string()
    });
    assert_eq!(dev.terminate(), Some(0));
    assert_eq!(processes_with(dir.path()), 0);
}

#[test]
fn no_process_is_left_when_it_is_ended_while_its_nodes_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path(), port(7));
    until("a node begins", || dir.path().join("node-1").exists());
    send_sigterm(&child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(processes_with(dir.path()), 0);
}

#[test]
fn a_node_that_does_not_start_is_named_and_the_others_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let free = (9..14).find_map(|attempt| std::net::TcpListener::bind(("127.0.0.1", port(attempt))).ok());
    let held = free.expect("no free port");
    let taken = held.local_addr().unwrap();
    let data = dir.path().to_str().unwrap();
    let (code, stderr) = failure_of(&["dev", "--port", &taken.port().to_string(), "--data", data]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains(&format!("on {taken}:")) && stderr.contains("node 1 did not start"), "{stderr}");
    assert_eq!(processes_with(dir.path()), 0);
}
