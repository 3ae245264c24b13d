//! A wire between brokers and a node, which a test can cut.

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
    state: Mutex<(State, Vec<TcpStream>)>,
    changed: Condvar,
    /// Bytes that came from the node.
    answered: AtomicU64,
}

impl Wire {
    pub(crate) fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::new(Inside {
            to: node,
            state: Mutex::new((State::Whole, Vec::new())),
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
        held.0 = state;
        if state == State::Closed {
            for stream in held.1.drain(..) {
                // Gone already when its peer closed it.
                let _ = stream.shutdown(Shutdown::Both);
            }
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
    /// Waits while it is silent. `false`: it is closed.
    fn passes(&self) -> bool {
        let held = self.state.lock().unwrap();
        self.changed.wait_while(held, |held| held.0 == State::Silent).unwrap().0 == State::Whole
    }

    fn connect(self: Arc<Self>, near: TcpStream) {
        if !self.passes() {
            return;
        }
        let Ok(far) = TcpStream::connect(self.to) else { return };
        {
            let mut held = self.state.lock().unwrap();
            if held.0 == State::Closed {
                return;
            }
            held.1.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
        }
        let (from_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let asks = self.clone();
        std::thread::spawn(move || asks.pass_on(from_near, to_far, |_| ()));
        self.pass_on(far, near, |bytes| {
            self.answered.fetch_add(bytes as u64, Ordering::Relaxed);
        });
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, count: impl Fn(usize)) {
        let mut bytes = [0; 16 << 10];
        loop {
            let read = from.read(&mut bytes).unwrap_or(0);
            if !self.passes() || read == 0 || to.write_all(&bytes[..read]).is_err() {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            count(read);
        }
    }
}
