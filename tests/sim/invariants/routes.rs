//! A node never says that a topic does not exist, nor shows its route without its master, when it must know better; then
//! it says that it is not ready. It must know a master, acknowledged and not gone since,
//! - when it has acknowledged it, or shown it, itself;
//! - when that was acknowledged before its process began: it answers once it has caught up. One that waits for a leader
//!   for some time only may show what is old after that time;
//! - when the look-up goes through the leader and came after the acknowledgement.
//!
//! No route is shown in part, whatever is known. A node that was cut off for longer than allowed answers *not ready* too, and so
//! does one that has had no contact since it began and must wait for a leader.

use crate::host::Moment;
use crate::identity::topic;
use raft::NodeId;
use raft_namesrv::wire::codes::result::TOPIC_NOT_EXIST;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// After a cut a node may hear what was under way, and a leader has its lease.
const HEARS_STILL: Duration = Duration::from_millis(2_500);

/// Nodes are looked at no finer.
const BEGINS_WITHIN: Duration = Duration::from_millis(40);

/// When a node answers, beside what holds for all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Readiness {
    pub(crate) recovery_wait: Option<Duration>,
    pub(crate) staleness_max: Option<Duration>,
}

/// A look-up.
pub(crate) struct Ask {
    pub(crate) at: Moment,
    pub(crate) node: NodeId,
    pub(crate) master: BrokerKey,
    /// Its name.
    pub(crate) name: String,
    /// Of its topics.
    pub(crate) topic: u64,
    pub(crate) linearizable: bool,
}

impl Ask {
    pub(crate) fn topic(&self) -> String {
        topic(&self.name, self.topic)
    }
}

#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) readiness: Readiness,
    /// All masters that were ever acknowledged, by name.
    masters: BTreeMap<BrokerKey, String>,
    /// When a master was acknowledged that has not left the newest table since.
    known: BTreeMap<BrokerKey, Moment>,
    /// When a node had it that has not left that node's table since.
    at: BTreeMap<(NodeId, BrokerKey), Moment>,
    started: BTreeMap<NodeId, Moment>,
    /// Look-ups whose answer was bound to be right.
    pub(crate) judged: u64,
}

impl Routes {
    pub(crate) fn started(&mut self, now: Moment, node: NodeId) {
        self.started.insert(node, now);
        self.at.retain(|(other, _), _| *other != node);
    }

    /// A node answered the registration of a master that is in the newest table. `here`: and in that node's.
    pub(crate) fn acknowledged(
        &mut self,
        now: Moment,
        node: NodeId,
        key: &BrokerKey,
        name: &str,
        here: bool,
    ) {
        self.masters.entry(key.clone()).or_insert_with(|| name.into());
        self.known.entry(key.clone()).or_insert(now);
        if here {
            self.at.entry((node, key.clone())).or_insert(now);
        }
    }

    /// A broker left the newest table.
    pub(crate) fn left(&mut self, key: &BrokerKey) {
        self.known.remove(key);
    }

    /// A broker left the table of a node.
    pub(crate) fn left_node(&mut self, node: NodeId, key: &BrokerKey) {
        self.at.remove(&(node, key.clone()));
    }

    /// Some master, the `number`th, whether it is there or not.
    pub(crate) fn master(&self, number: u64) -> Option<(BrokerKey, String)> {
        let all = self.masters.len();
        if all == 0 {
            return None;
        }
        let (key, name) = self.masters.iter().nth(usize::try_from(number).unwrap() % all)?;
        Some((key.clone(), name.clone()))
    }

    /// Whether it may show what it had, since it may have found no leader since it began.
    fn may_be_old(&self, now: Moment, node: NodeId) -> bool {
        let waited = |wait| self.started.get(&node).is_none_or(|started| now >= *started + wait);
        self.readiness.recovery_wait.is_some_and(waited)
    }

    /// Whether the node must know the master by when it was asked.
    fn must_know(&self, now: Moment, ask: &Ask) -> bool {
        let Some(known) = self.known.get(&ask.master) else { return false };
        let had = self.at.get(&(ask.node, ask.master.clone())).is_some_and(|at| *at <= ask.at);
        let before_it = self.started.get(&ask.node).is_some_and(|started| *known < *started);
        let caught_up = before_it && !self.may_be_old(now, ask.node);
        had && *known <= ask.at || caught_up || ask.linearizable && *known <= ask.at
    }

    /// What is wrong with an answer of a node that has been running cut off since `alone`.
    pub(crate) fn too_old(&self, now: Moment, ask: &Ask, code: i32, alone: Option<Moment>) -> Option<String> {
        let alone = alone.filter(|_| code == 0 || code == TOPIC_NOT_EXIST)?;
        if self.may_be_old(now, ask.node) {
            return None;
        }
        let text =
            format!("node {}, asked at {:?} for {}, answers {code} though", ask.node, ask.at, ask.topic());
        if self.readiness.staleness_max.is_some_and(|max| ask.at > alone + max + HEARS_STILL) {
            return Some(format!("{text} cut off since {alone:?}"));
        }
        // It has not heard of anybody since it began.
        let knows_no_node =
            self.started.get(&ask.node).is_some_and(|started| alone <= *started + BEGINS_WITHIN);
        knows_no_node.then(|| format!("{text} it has been alone since it began"))
    }

    /// `here`: the node's table has the master.
    pub(crate) fn answered(
        &mut self,
        now: Moment,
        ask: &Ask,
        (code, body): (i32, &[u8]),
        here: bool,
    ) -> Result<(), String> {
        let (node, topic) = (ask.node, ask.topic());
        let tells = |what: &str| Err(format!("node {node}, asked at {:?} for {topic}, {what}", ask.at));
        if code != 0 && code != TOPIC_NOT_EXIST {
            return Ok(());
        }
        let must = self.must_know(now, ask);
        self.judged += u64::from(must);
        if code == TOPIC_NOT_EXIST {
            let known = self.known.get(&ask.master);
            let started = self.started.get(&node);
            return if must {
                tells(&format!("does not know it; acknowledged {known:?}, began {started:?}"))
            } else {
                Ok(())
            };
        }
        let route: Value = serde_json::from_slice(body).unwrap_or_default();
        let masters = masters_of(&route);
        if masters.as_ref().is_none_or(|_| route["queueDatas"][0]["brokerName"] != ask.name.as_str()) {
            return tells(&format!("shows a part of it: {route}"));
        }
        let shown = masters.is_some_and(|masters| masters.contains(&&*ask.master.address));
        if must && !shown {
            return tells(&format!("does not show {:?}: {route}", ask.master));
        }
        if shown && here && self.known.contains_key(&ask.master) {
            self.at.entry((node, ask.master.clone())).or_insert(now);
        }
        Ok(())
    }
}

/// Addresses of the masters in a route. `None`: it is no whole route, some queues or addresses are not there.
fn masters_of(route: &Value) -> Option<Vec<&str>> {
    let brokers = route["brokerDatas"].as_array()?;
    let names: Vec<_> = brokers.iter().map(|broker| &broker["brokerName"]).collect();
    let queues = route["queueDatas"].as_array().filter(|queues| !queues.is_empty())?;
    let whole = queues.iter().all(|queue| names.contains(&&queue["brokerName"]))
        && brokers.iter().all(|broker| broker["brokerAddrs"].as_object().is_some_and(|all| !all.is_empty()));
    whole.then(|| brokers.iter().filter_map(|broker| broker["brokerAddrs"]["0"].as_str()).collect())
}
