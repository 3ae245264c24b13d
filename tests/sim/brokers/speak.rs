//! How a broker's process speaks to a node, over one connection after the other.
//!
//! Half of the connections begin with something else than a registration: until the first one they are weak.

use super::{BEAT, PATIENCE, Shared};
use crate::dice::Dice;
use crate::host::Moment;
use crate::network::client_address;
use crate::remoting_client::RemotingClient;
use raft::NodeId;
use raft_namesrv::wire::RemotingCommand;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout, timeout_at};

/// A registration goes with every so many heartbeats.
const BEATS_PER_REGISTRATION: u64 = 3;
/// How long a broker waits for the answer to a registration.
const REGISTRATION_PATIENCE: Duration = Duration::from_secs(16);

struct Connection {
    node: NodeId,
    number: u64,
    client: RemotingClient,
}

/// A connection that speaks.
struct Speaking<'a> {
    shared: &'a Shared,
    connection: Connection,
    /// The one that it replaces, which ends after so many beats of this one.
    old: Option<Connection>,
    old_ends_after: u64,
    /// Beats before the first registration.
    weak_for: u64,
    /// Its heartbeats ask for the data version.
    queries: bool,
    beats: u64,
    waiting: BTreeMap<i32, Waiting>,
    /// The version that each broker of the process registered last.
    registered_versions: Vec<u64>,
}

/// A request without an answer.
struct Waiting {
    at: Moment,
    broker: usize,
    what: Words,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Registration,
    Query,
    Heartbeat,
}

impl Waiting {
    fn is_late(&self, now: Moment) -> bool {
        let registration = self.what == Words::Registration;
        now > self.at + if registration { REGISTRATION_PATIENCE } else { PATIENCE }
    }
}

impl Shared {
    pub(super) async fn speak_to(self: Arc<Self>, node: NodeId, mut dice: Dice) {
        sleep(dice.ms(0, 400)).await;
        let mut old = None;
        loop {
            let address = client_address(node);
            let connecting =
                self.network.connect(self.place, self.clock, &address, Some(REGISTRATION_PATIENCE));
            let connected = timeout(PATIENCE, connecting).await;
            let replaced = old.take();
            if let Ok(Ok(stream)) = connected {
                let number = self.connections.fetch_add(1, Ordering::Relaxed);
                let connection = Connection { node, number, client: RemotingClient::new(stream) };
                old = Speaking::new(&self, connection, replaced, &mut dice).speak().await;
            } else if let Some(replaced) = replaced {
                self.ends(replaced);
            }
            if self.leaving.load(Ordering::Relaxed) {
                return;
            }
            if old.is_none() {
                sleep(dice.ms(100, 400)).await;
            }
        }
    }

    fn ends(&self, connection: Connection) {
        let mut seen = self.record.lock();
        for broker in &self.brokers {
            seen.living.ended(self.clock.now(), &broker.key, (connection.node, connection.number));
        }
    }
}

impl<'a> Speaking<'a> {
    fn new(shared: &'a Shared, connection: Connection, old: Option<Connection>, dice: &mut Dice) -> Self {
        Self {
            shared,
            connection,
            old,
            old_ends_after: dice.within(1, 4),
            weak_for: if dice.chance(50) { dice.within(1, 4) } else { 0 },
            queries: dice.chance(50),
            beats: 0,
            waiting: BTreeMap::new(),
            registered_versions: vec![0; shared.brokers.len()],
        }
    }

    /// Speaks until the connection ends. Gives it back when it shall end only once the next one speaks.
    async fn speak(mut self) -> Option<Connection> {
        // How it ends does not matter: there will be another.
        let stays = self.beat_and_listen().await.unwrap_or(false);
        self.end_old();
        if stays {
            return Some(self.connection);
        }
        self.shared.ends(self.connection);
        None
    }

    fn end_old(&mut self) {
        self.old.take().into_iter().for_each(|old| self.shared.ends(old));
    }

    async fn beat_and_listen(&mut self) -> io::Result<bool> {
        let clock = self.shared.clock;
        let mut next = clock.now();
        loop {
            let now = clock.now();
            if now >= next {
                next = now + BEAT;
                if self.shared.hung.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                if self.shared.leaving.load(Ordering::Relaxed) {
                    return self.sign_off().await.map(|()| false);
                }
                if self.waiting.values().any(|asked| asked.is_late(now)) {
                    return Ok(false);
                }
                let bounce = self.shared.bounce.lock().unwrap().remove(&self.connection.node);
                if let Some(overlaps) = bounce {
                    return Ok(overlaps);
                }
                for broker in 0..self.shared.brokers.len() {
                    let (what, request) = self.words(broker);
                    self.waiting.insert(request.opaque, Waiting { at: now, broker, what });
                    self.connection.client.send(&request).await?;
                }
                self.beats += 1;
                if self.beats >= self.old_ends_after {
                    self.end_old();
                }
            }
            let Ok(answer) = timeout_at(clock.instant(next), self.connection.client.next()).await else {
                continue;
            };
            self.hears(&answer?);
        }
    }

    async fn sign_off(&mut self) -> io::Result<()> {
        for broker in &self.shared.brokers {
            let request = broker.unregister(&mut self.connection.client);
            timeout(PATIENCE, self.connection.client.ask(&request)).await.map_err(io::Error::other)??;
        }
        Ok(())
    }

    /// What it says of a broker now.
    fn words(&mut self, broker: usize) -> (Words, RemotingCommand) {
        let version = self.shared.version.load(Ordering::Relaxed);
        let (identity, client) = (&self.shared.brokers[broker], &mut self.connection.client);
        let registering =
            self.waiting.values().any(|asked| asked.broker == broker && asked.what == Words::Registration);
        let due = |beats: u64| {
            beats.is_multiple_of(BEATS_PER_REGISTRATION) || version != self.registered_versions[broker]
        };
        if !registering && self.beats.checked_sub(self.weak_for).is_some_and(due) {
            self.registered_versions[broker] = version;
            return (Words::Registration, identity.register(client, version));
        }
        if self.queries {
            return (Words::Query, identity.query(client, version));
        }
        (Words::Heartbeat, identity.heartbeat(client))
    }

    fn hears(&mut self, answer: &RemotingCommand) {
        let Some(asked) = self.waiting.remove(&answer.opaque).filter(|_| answer.code == 0) else { return };
        let (node, now) = (self.connection.node, self.shared.clock.now());
        let broker = &self.shared.brokers[asked.broker];
        let key = &broker.key;
        let mut seen = self.shared.record.lock();
        seen.living.answered(key, (node, self.connection.number));
        match asked.what {
            Words::Registration => {
                seen.answered(asked.at, now, node, key);
                seen.registered(now, node, broker);
                seen.living.registered(asked.at, key, (node, self.connection.number));
            }
            // Then it registers with its next words.
            Words::Query if answer.field("changed") == Some("true") => {
                self.registered_versions[asked.broker] = 0
            }
            Words::Query | Words::Heartbeat => {}
        }
    }
}
