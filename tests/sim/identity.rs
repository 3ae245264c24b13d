//! What a broker says of itself.

use crate::remoting_client::RemotingClient;
use raft_namesrv::wire::RemotingCommand;
use raft_namesrv::wire::codes::request as code;
use serde_json::{Value, json};
use storage::route_info::BrokerKey;

/// A broker as it is registered.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) key: BrokerKey,
    pub(crate) name: String,
    pub(crate) id: &'static str,
    /// Its slaves may act for it: its group hears of a new lowest id.
    pub(crate) acting: bool,
    pub(crate) timeout_ms: u128,
}

/// A topic of a broker name.
pub(crate) fn topic(name: &str, number: u64) -> String {
    format!("{name}_t{number}")
}

impl Identity {
    pub(crate) fn is_master(&self) -> bool {
        self.id == "0"
    }

    fn fields(&self) -> [(&str, &str); 4] {
        [
            ("brokerName", &self.name),
            ("brokerAddr", &self.key.address),
            ("clusterName", &self.key.cluster),
            ("brokerId", self.id),
        ]
    }

    pub(crate) fn heartbeat(&self, client: &mut RemotingClient) -> RemotingCommand {
        client.request(code::BROKER_HEARTBEAT, &self.fields())
    }

    pub(crate) fn unregister(&self, client: &mut RemotingClient) -> RemotingCommand {
        client.request(code::UNREGISTER_BROKER, &self.fields())
    }

    /// Asks whether its version is known.
    pub(crate) fn query(&self, client: &mut RemotingClient, version: u64) -> RemotingCommand {
        client
            .request(code::QUERY_DATA_VERSION, &self.fields())
            .with_body(data_version(version).to_string().into_bytes())
    }

    pub(crate) fn register(&self, client: &mut RemotingClient, version: u64) -> RemotingCommand {
        let body = self.body(version);
        let crc = (crc32fast::hash(&body) & 0x7FFF_FFFF).to_string();
        let command = client.request(code::REGISTER_BROKER, &self.fields());
        let command = command.with("compressed", "false").with("bodyCrc32", &crc);
        let command = command.with("enableActingMaster", if self.acting { "true" } else { "false" });
        command.with("heartbeatTimeoutMillis", &self.timeout_ms.to_string()).with_body(body)
    }

    /// A few topics; how many queues one of them has tells the version.
    fn body(&self, version: u64) -> Vec<u8> {
        let topic = |number: u64| {
            let queues = if number == 0 { version % 16 + 1 } else { 4 };
            let name = topic(&self.name, number);
            let config = json!({
                "attributes": {}, "order": false, "perm": 6, "readQueueNums": queues,
                "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0,
                "writeQueueNums": queues,
            });
            (name, config)
        };
        let topics: serde_json::Map<String, Value> = (0..3).map(topic).collect();
        let wrapper = json!({
            "dataVersion": data_version(version),
            "topicConfigTable": topics, "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {},
        });
        json!({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).to_string().into_bytes()
    }
}

fn data_version(version: u64) -> Value {
    json!({"counter": version, "stateVersion": 0, "timestamp": 1_700_000_000_000_u64})
}
