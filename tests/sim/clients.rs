//! Clients that write numbers and read them back, and look topics up.

use crate::dice::Dice;
use crate::host::{Clock, Host};
use crate::invariants::progress::NAMESPACE;
use crate::invariants::routes::Ask;
use crate::network::{Network, Place, client_address};
use crate::node::NODES;
use crate::record::Record;
use crate::remoting_client::RemotingClient;
use raft::NodeId;
use raft_namesrv::wire::RemotingCommand;
use raft_namesrv::wire::codes::{request as code, result::QUERY_NOT_FOUND};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long clients wait for anything.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where the first client is; those behind follow.
const FIRST_PLACE: Place = 100;

pub(crate) struct Client {
    pub(crate) place: Place,
    key: String,
    dice: Dice,
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
}

/// Starts a client.
pub(crate) fn start(number: u64, host: &Host, seed: u64, network: &Arc<Network>, record: &Arc<Record>) {
    let client = Client {
        place: FIRST_PLACE + number,
        key: format!("k{number}"),
        dice: Dice::of(seed, "client", number),
        clock: host.clock,
        network: Arc::clone(network),
        record: Arc::clone(record),
    };
    host.spawn(client.run());
}

impl Client {
    async fn run(mut self) {
        loop {
            let node = self.dice.pick(&NODES).unwrap();
            let address = client_address(node);
            let connecting = self.network.connect(self.place, self.clock, &address, Some(PATIENCE));
            if let Ok(Ok(stream)) = timeout(PATIENCE, connecting).await {
                // Broken, or no answer in time: another node, another try.
                let _ = self.talk_to(node, RemotingClient::new(stream)).await;
            }
            sleep(self.dice.ms(50, 300)).await;
        }
    }

    async fn talk_to(&mut self, node: NodeId, mut client: RemotingClient) -> io::Result<()> {
        for _ in 0..self.dice.within(3, 12) {
            if self.dice.chance(60) {
                self.write(node, &mut client).await?;
            }
            self.read(node, &mut client).await?;
            self.look_up(node, &mut client).await?;
            sleep(self.dice.ms(50, 500)).await;
        }
        Ok(())
    }

    async fn write(&mut self, node: NodeId, client: &mut RemotingClient) -> io::Result<()> {
        let number = self.record.lock().acknowledged.tries(&self.key);
        let text = number.to_string();
        let fields = [("namespace", NAMESPACE), ("key", &*self.key), ("value", &*text)];
        let request = client.request(code::PUT_KV_CONFIG, &fields);
        let answer = timeout(PATIENCE, client.ask(&request)).await.map_err(io::Error::other)??;
        if answer.code == 0 {
            let mut seen = self.record.lock();
            seen.acknowledged.wrote(&self.key, node, number);
            seen.note("wrote", number);
        }
        Ok(())
    }

    async fn read(&mut self, node: NodeId, client: &mut RemotingClient) -> io::Result<()> {
        let linearizable = self.dice.chance(30);
        let before = self.record.lock().acknowledged.at_least(&self.key, node, linearizable);
        let fields = [("namespace", NAMESPACE), ("key", &*self.key)];
        let request = through_leader(client.request(code::GET_KV_CONFIG, &fields), linearizable);
        let answer = timeout(PATIENCE, client.ask(&request)).await.map_err(io::Error::other)??;
        let shown = match answer.code {
            0 => answer.field("value").and_then(|value| value.parse().ok()),
            QUERY_NOT_FOUND => Some(0),
            _ => None,
        };
        if let Some(shown) = shown {
            let mut seen = self.record.lock();
            let verdict = seen.acknowledged.read(&self.key, node, before, shown);
            seen.violated(verdict);
        }
        Ok(())
    }

    async fn look_up(&mut self, node: NodeId, client: &mut RemotingClient) -> io::Result<()> {
        let (number, linearizable, topic) = (self.dice.next(), self.dice.chance(30), self.dice.within(0, 3));
        let Some((master, name)) = self.record.lock().routes.master(number) else { return Ok(()) };
        let ask = Ask { at: self.clock.now(), node, master, name, topic, linearizable };
        let topic = ask.topic();
        let request = client.request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", &topic)]);
        let request = request.with("acceptStandardJsonOnly", "true");
        let request = through_leader(request, linearizable);
        let answer = timeout(PATIENCE, client.ask(&request)).await.map_err(io::Error::other)??;
        self.record.lock().looked_up(self.clock.now(), &ask, answer.code, &answer.body);
        Ok(())
    }
}

fn through_leader(request: RemotingCommand, linearizable: bool) -> RemotingCommand {
    if linearizable { request.with("__READ_MODE", "linearizable") } else { request }
}
