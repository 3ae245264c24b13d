//! A wire to a node from brokers or from the other nodes, which a test can cut.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What becomes of what is sent over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It arrives.
    Whole,
    /// Nothing arrives, not even that a connection ends.
    Silent,
    /// All connections are closed, and new ones at once.
    Closed,
}

/// Takes connections for a node, and passes on what both sides say.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    inside: Arc<Inside>,
}

struct Inside {
    to: SocketAddr,
    /// Whether it must know who connects.
    tells_apart: bool,
    state: Mutex<Held>,
    changed: Condvar,
    /// Bytes that came from the node.
    answered: AtomicU64,
}

struct Held {
    state: State,
    /// Processes to which it is silent, whatever it is to others.
    silent_to: BTreeSet<u32>,
    streams: Vec<TcpStream>,
}

impl Wire {
    pub(crate) fn to(node: SocketAddr) -> Self {
        Self::new(node, false)
    }

    /// One that can fall silent to single processes.
    pub(crate) fn that_tells_apart(node: SocketAddr) -> Self {
        Self::new(node, true)
    }

    fn new(node: SocketAddr, tells_apart: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::new(Inside {
            to: node,
            tells_apart,
            state: Mutex::new(Held { state: State::Whole, silent_to: BTreeSet::new(), streams: Vec::new() }),
            changed: Condvar::new(),
            answered: AtomicU64::new(0),
        });
        let taking = inside.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let inside = taking.clone();
                std::thread::spawn(move || inside.connect(near));
            }
        });
        Self { address, inside }
    }

    pub(crate) fn set(&self, state: State) {
        let mut held = self.inside.state.lock().unwrap();
        held.state = state;
        if state == State::Closed {
            for stream in held.streams.drain(..) {
                // Gone already when its peer closed it.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.inside.changed.notify_all();
    }

    /// Falls silent to one process, or is to it again what it is to others.
    pub(crate) fn set_silent_to(&self, process: u32, silent: bool) {
        let mut held = self.inside.state.lock().unwrap();
        if silent {
            held.silent_to.insert(process);
        } else {
            held.silent_to.remove(&process);
        }
        self.inside.changed.notify_all();
    }

    /// Whether the node behind it ever answered.
    pub(crate) fn was_used(&self) -> bool {
        self.inside.answered.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.set(State::Closed);
    }
}

impl Inside {
    /// Waits while it is silent to this process. `false`: it is closed.
    fn passes(&self, from: u32) -> bool {
        let held = self.state.lock().unwrap();
        let silent = |held: &mut Held| held.state == State::Silent || held.silent_to.contains(&from);
        self.changed.wait_while(held, silent).unwrap().state == State::Whole
    }

    fn connect(self: Arc<Self>, near: TcpStream) {
        let from = if self.tells_apart { process_behind(&near) } else { Some(0) };
        let Some(from) = from else { return };
        if !self.passes(from) {
            return;
        }
        let Ok(far) = TcpStream::connect(self.to) else { return };
        {
            let mut held = self.state.lock().unwrap();
            if held.state == State::Closed {
                return;
            }
            held.streams.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
        }
        let (from_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let asks = self.clone();
        std::thread::spawn(move || asks.pass_on(from, from_near, to_far, |_| ()));
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
        // Those of other users cannot be read, and those that end meanwhile hold nothing.
        let files = std::fs::read_dir(format!("/proc/{process}/fd"));
        files.into_iter().flatten().flatten().any(|file| {
            std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
        })
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    others.filter(|process| *process != std::process::id()).find(holds)
}
