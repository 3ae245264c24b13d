//! One pretend broker: its topics, and its connection to one nameserver.

use super::Shared;
use crate::cli::Failure;
use crate::cli::client::Client;
use crate::wire::RemotingCommand;
use crate::wire::codes::request;
use serde_json::{Map, json};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Cluster of all pretend brokers.
pub(super) const CLUSTER: &str = "play-cluster";
/// Port of the first one's address: no process listens there.
const FIRST_PORT: u32 = 30_000;
/// Read queues of `play-topic-0` before the first change.
const FIRST_CHANGE: u64 = 4;
/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time before a connection is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// What a broker is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    alive: bool,
    /// Counts the broker's changes.
    change: u64,
}

/// A pretend broker, shared by its connections.
#[derive(Debug)]
pub(super) struct Broker {
    /// Broker name.
    pub(super) name: String,
    address: String,
    state: watch::Sender<State>,
    acknowledged: Mutex<Option<u64>>,
}

impl Broker {
    pub(super) fn new(number: u16) -> Self {
        Self {
            name: format!("play-broker-{number}"),
            address: format!("127.0.0.1:{}", FIRST_PORT + u32::from(number)),
            state: watch::Sender::new(State { alive: true, change: FIRST_CHANGE }),
            acknowledged: Mutex::new(None),
        }
    }

    /// Changes its topic table; every connection registers at once.
    pub(super) fn change(&self) {
        self.state.send_modify(|state| state.change += 1);
    }

    /// Closes its connections without unregistering, or comes back.
    pub(super) fn set_alive(&self, alive: bool) {
        if !alive {
            *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.state.send_modify(|state| state.alive = alive);
    }

    /// The newest change that a nameserver acknowledged, while the broker lives.
    pub(super) fn acknowledged(&self) -> Option<u64> {
        *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acknowledge(&self, change: u64) {
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state.borrow().alive {
            *acknowledged = Some(acknowledged.map_or(change, |known| known.max(change)));
        }
    }

    fn registration(&self, command: RemotingCommand, change: u64, topics: u32) -> RemotingCommand {
        let topic = |number: u32| {
            let queues = if number == 0 { change } else { FIRST_CHANGE };
            let name = format!("play-topic-{number}");
            let config =
                json!({ "topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6 });
            (name, config)
        };
        let table: Map<_, _> = (0..topics).map(topic).collect();
        let version = json!({ "counter": change, "stateVersion": 0, "timestamp": 1 });
        let body = json!({
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": version, "topicConfigTable": table, "topicQueueMappingInfoMap": {},
            },
        });
        let body = body.to_string().into_bytes();
        let crc = crc32fast::hash(&body) & 0x7fff_ffff;
        self.identified(command)
            .with("haServerAddr", "127.0.0.1:10912")
            .with("compressed", "false")
            .with("bodyCrc32", &crc.to_string())
            .with_body(body)
    }

    fn identified(&self, command: RemotingCommand) -> RemotingCommand {
        command
            .with("brokerName", &self.name)
            .with("brokerAddr", &self.address)
            .with("clusterName", CLUSTER)
            .with("brokerId", "0")
    }
}

/// Keeps a broker registered at one nameserver until the play stops; then unregisters it.
pub(super) async fn keep_registered(broker: Arc<Broker>, address: String, shared: Arc<Shared>) {
    let mut stop = shared.stop.clone();
    let mut state = broker.state.subscribe();
    while !*stop.borrow() {
        // A dead broker has no connections.
        if !state.borrow_and_update().alive {
            tokio::select! {
                _ = state.changed() => {}
                _ = stop.changed() => {}
            }
            continue;
        }
        if let Ok(mut client) = Client::connect(&address, shared.timeout).await {
            let lived = live(&broker, &mut client, &shared).await;
            if lived.is_ok() && *stop.borrow() {
                let command = client.request(request::UNREGISTER_BROKER);
                // A nameserver that does not answer now removes the broker when its connection ends.
                drop(client.call(&broker.identified(command)).await);
                return;
            }
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Registers and sends heartbeats over one connection, until it breaks, the broker dies or the play stops.
async fn live(broker: &Broker, client: &mut Client, shared: &Shared) -> Result<(), Failure> {
    let mut stop = shared.stop.clone();
    let mut state = broker.state.subscribe();
    let mut register_at = Instant::now();
    let mut beat_at = Instant::now() + HEARTBEAT;
    loop {
        tokio::select! {
            _ = stop.changed() => return Ok(()),
            _ = state.changed() => register_at = Instant::now(),
            () = sleep_until(register_at) => {}
            () = sleep_until(beat_at) => {
                beat_at = Instant::now() + HEARTBEAT;
                let command = client.request(request::BROKER_HEARTBEAT);
                client.send(&broker.identified(command).oneway()).await?;
                continue;
            }
        }
        let now = *state.borrow_and_update();
        if !now.alive || *stop.borrow() {
            return Ok(());
        }
        if register_at <= Instant::now() {
            register(broker, client, shared, now.change).await?;
            register_at = Instant::now() + shared.period;
        }
    }
}

async fn register(broker: &Broker, client: &mut Client, shared: &Shared, change: u64) -> Result<(), Failure> {
    let command = client.request(request::REGISTER_BROKER);
    let command = broker.registration(command, change, shared.topics);
    let command = match shared.broker_timeout_ms {
        Some(ms) => command.with("heartbeatTimeoutMillis", &ms.to_string()),
        None => command,
    };
    let answer = client.must(&command).await;
    shared.counters.registrations.fetch_add(1, Relaxed);
    match answer {
        Ok(_) => broker.acknowledge(change),
        Err(failure) => {
            shared.counters.failed_registrations.fetch_add(1, Relaxed);
            return Err(failure);
        }
    }
    Ok(())
}
