//! A TCP proxy in front of a node, for brokers or for the other nodes. A test can block it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What the proxy does with the bytes of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It forwards them.
    Open,
    /// It holds them back, and the ends of connections too.
    Blocked,
    /// It closes all connections, and new ones at once.
    Closed,
}

/// Accepts connections for a node and forwards the bytes of both sides.
pub(crate) struct TcpProxy {
    pub(crate) address: SocketAddr,
    inside: Arc<Inside>,
}

struct Inside {
    to: SocketAddr,
    /// Whether it finds out which process connects.
    per_process: bool,
    shared: Mutex<Shared>,
    changed: Condvar,
    /// Bytes that came from the node.
    answered: AtomicU64,
}

struct Shared {
    state: State,
    /// Processes that it blocks, whatever its state.
    blocked_processes: BTreeSet<u32>,
    streams: Vec<TcpStream>,
}

impl TcpProxy {
    pub(crate) fn to(node: SocketAddr) -> Self {
        Self::new(node, false)
    }

    /// One that can block single processes.
    pub(crate) fn per_process(node: SocketAddr) -> Self {
        Self::new(node, true)
    }

    fn new(node: SocketAddr, per_process: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::new(Inside {
            to: node,
            per_process,
            shared: Mutex::new(Shared {
                state: State::Open,
                blocked_processes: BTreeSet::new(),
                streams: Vec::new(),
            }),
            changed: Condvar::new(),
            answered: AtomicU64::new(0),
        });
        let accepting = inside.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let inside = accepting.clone();
                std::thread::spawn(move || inside.connect(near));
            }
        });
        Self { address, inside }
    }

    pub(crate) fn set(&self, state: State) {
        let mut shared = self.inside.shared.lock().unwrap();
        shared.state = state;
        if state == State::Closed {
            for stream in shared.streams.drain(..) {
                // Fails when its peer has closed it.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.inside.changed.notify_all();
    }

    /// Blocks one process, or treats it as all others again.
    pub(crate) fn set_blocked(&self, process: u32, blocked: bool) {
        let mut shared = self.inside.shared.lock().unwrap();
        if blocked {
            shared.blocked_processes.insert(process);
        } else {
            shared.blocked_processes.remove(&process);
        }
        self.inside.changed.notify_all();
    }

    /// Whether the node behind it ever answered.
    pub(crate) fn was_used(&self) -> bool {
        self.inside.answered.load(Ordering::Relaxed) > 0
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.set(State::Closed);
    }
}

impl Inside {
    /// Waits while it blocks this process. `false`: it is closed.
    fn passes(&self, from: u32) -> bool {
        let shared = self.shared.lock().unwrap();
        let blocked =
            |shared: &mut Shared| shared.state == State::Blocked || shared.blocked_processes.contains(&from);
        self.changed.wait_while(shared, blocked).unwrap().state == State::Open
    }

    fn connect(self: Arc<Self>, near: TcpStream) {
        let from = if self.per_process { process_behind(&near) } else { Some(0) };
        let Some(from) = from else { return };
        if !self.passes(from) {
            return;
        }
        let Ok(far) = TcpStream::connect(self.to) else { return };
        {
            let mut shared = self.shared.lock().unwrap();
            if shared.state == State::Closed {
                return;
            }
            shared.streams.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
        }
        let (from_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let requests = self.clone();
        std::thread::spawn(move || requests.pass_on(from, from_near, to_far, |_| ()));
        self.pass_on(from, far, near, |bytes| {
            self.answered.fetch_add(bytes as u64, Ordering::Relaxed);
        });
    }

    fn pass_on(&self, process: u32, mut from: TcpStream, mut to: TcpStream, count: impl Fn(usize)) {
        let mut bytes = [0; 16 << 10];
        loop {
            let read = from.read(&mut bytes).unwrap_or(0);
            if !self.passes(process) || read == 0 || to.write_all(&bytes[..read]).is_err() {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            count(read);
        }
    }
}

/// The other process of this host that made a connection; `None` when it has closed it already.
fn process_behind(near: &TcpStream) -> Option<u32> {
    let (its, ours) = (near.peer_addr().ok()?.port(), near.local_addr().ok()?.port());
    let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let socket = connections.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_its =
            fields[1].ends_with(&format!(":{its:04X}")) && fields[2].ends_with(&format!(":{ours:04X}"));
        is_its.then(|| format!("socket:[{}]", fields[9]))
    })?;
    let holds = |process: &u32| {
        // This test cannot read other users' processes; those that end meanwhile hold no file.
        let files = std::fs::read_dir(format!("/proc/{process}/fd"));
        files.into_iter().flatten().flatten().any(|file| {
            std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
        })
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    others.filter(|process| *process != std::process::id()).find(holds)
}
