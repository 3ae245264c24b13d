//! The network between machines: connections with delay, loss, cuts in one direction or both, and machines that
//! lose their power.
//!
//! It behaves as TCP does: bytes keep their order within a connection, a lost packet comes late and holds up what is
//! behind it, bytes for a machine whose process stands still are taken nevertheless, and a connection whose path is cut
//! breaks at each end after that end's patience. Connections are independent of each other, so messages of two lanes
//! overtake one another.

mod paths;
mod peers;
mod stream;
mod wire;

pub(crate) use peers::{PATIENCE as PEERS_PATIENCE, SimPeers, client_address, peer_address};
pub(crate) use stream::SimStream;

use crate::dice::Dice;
use crate::host::{Clock, Moment, STEP, STEP_MS};
use paths::Paths;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;
use wire::{ACCEPTED, EndNumber, Found, Wire};

/// A machine. Nodes have their id; brokers and clients come behind.
pub(crate) type Place = u64;

/// A packet of a connection to be made that got no answer is sent again after this.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);

/// Packets lost of 1,000 that are no fault.
const FAIR_PERMILLE: u64 = 10;
/// Between two looks at connections that might have to break.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// How long packets are under way, and how many are lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) delay_max_ms: u64,
    /// Of 1,000 packets, so many are lost and sent again 200 ms later or more.
    pub(crate) lost_permille: u64,
}

pub(crate) struct Network(Mutex<Inner>);

pub(crate) struct Inner {
    seed: u64,
    /// The step that runs has begun then.
    now: Moment,
    looked: Moment,
    /// Cuts or power, since connections were looked at.
    changed: bool,
    pub(crate) weather: Weather,
    paths: Paths,
    listeners: BTreeMap<String, Listener>,
    wires: BTreeMap<u64, Wire>,
    made: BTreeMap<(Place, Place), u64>,
    /// Ends that nodes found, by machine and connection.
    ended: BTreeMap<(Place, u64), Ended>,
    /// When a node last read something, by machine and connection.
    last_read: BTreeMap<(Place, u64), Moment>,
    next: u64,
}

/// A node found a connection ended, otherwise than by the node itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) node: Place,
    pub(crate) at: Moment,
    /// When the other side last sent something while the path was there.
    pub(crate) spoke: Moment,
}

struct Listener {
    place: Place,
    /// How long the accepted ends bear a path that is cut, until they set a user time-out.
    patience: Option<Duration>,
    waiting: VecDeque<(Moment, u64, Place)>,
    waker: Option<Waker>,
}

enum Attempt {
    Made(u64),
    Refused,
    Lost,
}

impl Network {
    pub(crate) fn new(seed: u64, weather: Weather) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner {
            seed,
            now: Moment::ZERO,
            looked: Moment::ZERO,
            changed: false,
            weather,
            paths: Paths::default(),
            listeners: BTreeMap::new(),
            wires: BTreeMap::new(),
            made: BTreeMap::new(),
            ended: BTreeMap::new(),
            last_read: BTreeMap::new(),
            next: 0,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// A process listens at an address.
    pub(crate) fn listen(&self, place: Place, address: &str, patience: Option<Duration>) {
        let listener = Listener { place, patience, waiting: VecDeque::new(), waker: None };
        self.lock().listeners.insert(address.into(), listener);
    }

    /// All that a machine's process had open is closed by its kernel, as far as its tasks have not done so.
    pub(crate) fn process_ended(&self, place: Place) {
        let mut inner = self.lock();
        inner.listeners.retain(|_, listener| listener.place != place);
        inner.close_all(place);
    }

    /// The ends of a machine's connections that nodes found.
    pub(crate) fn ended(&self, place: Place) -> Vec<Ended> {
        let inner = self.lock();
        inner.ended.range((place, 0)..=(place, u64::MAX)).map(|(_, ended)| *ended).collect()
    }

    /// When a node last read words of a machine from one of the connections that it had made by then.
    pub(crate) fn last_read(&self, place: Place, made: u64) -> Option<Moment> {
        let inner = self.lock();
        inner.last_read.range((place, 0)..=(place, made)).map(|(_, at)| *at).max()
    }

    /// The number of the last connection that was made.
    pub(crate) fn made(&self) -> u64 {
        self.lock().next
    }

    /// Few packets are lost.
    pub(crate) fn is_fair(&self) -> bool {
        self.lock().is_fair()
    }

    /// A step begins.
    pub(crate) fn step(&self, now: Moment) {
        let mut inner = self.lock();
        inner.now = now;
        if !std::mem::take(&mut inner.changed) && now < inner.looked + LOOK_EVERY {
            return;
        }
        inner.looked = now;
        let Inner { wires, paths, .. } = &mut *inner;
        paths.step(now);
        for wire in wires.values_mut() {
            wire.step(now, &|from, to| paths.carry(from, to));
        }
        wires.retain(|_, wire| !wire.is_over(now));
    }

    /// Connects as TCP does.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        from: Place,
        clock: Clock,
        address: &str,
        patience: Option<Duration>,
    ) -> io::Result<SimStream> {
        loop {
            let way = self.lock().delay(from);
            clock.sleep_until(clock.now() + way).await;
            let attempt = self.lock().attempt(clock.now(), from, address, patience);
            match attempt {
                Attempt::Made(wire) => {
                    let stream = SimStream::new(Arc::clone(self), wire, 0, clock);
                    clock.sleep_until(clock.now() + way).await;
                    return Ok(stream);
                }
                Attempt::Refused => {
                    clock.sleep_until(clock.now() + way).await;
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Attempt::Lost => {}
            }
            clock.sleep_until(clock.now() + CONNECT_AGAIN).await;
        }
    }

    /// Waits for the next connection. Gives it with the place it comes from.
    pub(crate) async fn accept(self: &Arc<Self>, address: &str, clock: Clock) -> (SimStream, Place) {
        loop {
            let due = std::future::poll_fn(|cx| {
                let mut inner = self.lock();
                let Some(listener) = inner.listeners.get_mut(address) else {
                    return std::task::Poll::Pending;
                };
                match listener.waiting.front() {
                    Some((at, ..)) => std::task::Poll::Ready(*at),
                    None => {
                        listener.waker = Some(cx.waker().clone());
                        std::task::Poll::Pending
                    }
                }
            })
            .await;
            clock.sleep_until(due).await;
            let mut inner = self.lock();
            let next = inner.listeners.get_mut(address).and_then(|listener| listener.waiting.pop_front());
            if let Some((_, number, from)) = next
                && inner.wires.contains_key(&number)
            {
                drop(inner);
                return (SimStream::new(Arc::clone(self), number, 1, clock), from);
            }
        }
    }
}

impl Inner {
    /// What an end finds, which may be the end.
    fn receive(&mut self, number: u64, end: EndNumber, now: Moment, room: usize, waker: &Waker) -> Found {
        // This end has already got the end of a connection that is over.
        let Some(wire) = self.wires.get_mut(&number) else { return Found::Broken };
        let found = wire.receive(end, now, room, waker);
        if end == ACCEPTED {
            match found {
                Found::Eof | Found::Broken => self.ends(number, now),
                Found::Bytes(_) => {
                    self.last_read.insert((wire.way(end).1, number), now);
                }
                Found::Nothing(_) => {}
            }
        }
        found
    }

    /// The end that was accepted finds its connection ended.
    fn ends(&mut self, number: u64, now: Moment) {
        let Some(wire) = self.wires.get(&number) else { return };
        let (node, place) = wire.way(ACCEPTED);
        let ended = Ended { node, at: now, spoke: wire.spoke() };
        self.ended.entry((place, number)).or_insert(ended);
    }

    fn is_fair(&self) -> bool {
        self.weather.lost_permille <= FAIR_PERMILLE
    }

    fn delay(&mut self, from: Place) -> Duration {
        self.next += 1;
        Dice::of(self.seed, "connect", from << 32 | self.next).ms(STEP_MS, self.weather.delay_max_ms)
    }

    fn attempt(&mut self, now: Moment, from: Place, address: &str, patience: Option<Duration>) -> Attempt {
        let Some(to) = address.split('.').next().and_then(|place| place.parse().ok()) else {
            return Attempt::Refused;
        };
        if !self.paths.carry(from, to) || !self.paths.carry(to, from) {
            return Attempt::Lost;
        }
        let Some(listener) = self.listeners.get_mut(address) else { return Attempt::Refused };
        let made = self.made.entry((from, to)).or_default();
        *made += 1;
        let dice = Dice::of(self.seed, "wire", from << 48 | to << 40 | *made);
        self.next += 1;
        let number = self.next;
        self.wires.insert(number, Wire::new([from, to], dice, [patience, listener.patience], now));
        listener.waiting.push_back((now + STEP, number, from));
        listener.waker.take().into_iter().for_each(Waker::wake);
        Attempt::Made(number)
    }

    fn close_all(&mut self, place: Place) {
        let Self { wires, now, paths, .. } = self;
        for wire in wires.values_mut() {
            for end in wire.ends_at(place) {
                let (from, to) = wire.way(end);
                wire.close(end, *now + STEP, paths.carry(from, to));
            }
        }
    }
}
