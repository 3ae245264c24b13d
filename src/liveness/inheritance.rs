//! What a process that has just begun takes over from the others: how long each broker has been silent.
//!
//! Without it every restart of a node would give every broker its full time again at that node, and with leaders that are
//! restarted one after the other a silent broker would stay for ever.
//!
//! To ensure correctness, silences are taken over only when all other voters have told theirs: then each word that
//! was heard anywhere is in the silences of the node that heard it, or comes after them in that node's stream. Each has
//! left out what the predecessor of this process may have heard, for it told them after it had this process's first report.

use super::clock::Running;
use super::report::Silences;
use raft::NodeId;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use storage::route_info::BrokerKey;

/// When brokers were last heard, as one process counts it.
#[derive(Debug)]
struct Told {
    process: u64,
    heard: HashMap<BrokerKey, Running>,
}

/// Silences that were told, until they are taken over.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    told: BTreeMap<NodeId, Told>,
    over: bool,
}

impl Inheritance {
    /// Whether other nodes are to be asked.
    pub(super) fn is_open(&self) -> bool {
        !self.over
    }

    /// A node told silences.
    pub(super) fn told(&mut self, now: Running, node: NodeId, silences: Silences) {
        if self.over {
            return;
        }
        let ago = |ms| now.saturating_sub(Duration::from_millis(ms));
        let heard = silences.brokers.into_iter().map(|(broker, ms)| (broker, ago(ms))).collect();
        self.told.insert(node, Told { process: silences.process, heard });
    }

    /// What was told may lack something: it must be asked for again. Gives whether anything was told.
    pub(super) fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.told).is_empty()
    }

    /// When each broker was last heard by anybody, once all these nodes have told it, each as the process that it is.
    pub(super) fn take(
        &mut self,
        voters: impl Iterator<Item = (NodeId, Option<u64>)>,
    ) -> Option<HashMap<BrokerKey, Running>> {
        if self.over {
            return None;
        }
        let told =
            voters.map(|(node, process)| self.told.get(&node).filter(|told| Some(told.process) == process));
        // Nothing is put together before all have told.
        let told: Vec<&Told> = told.collect::<Option<_>>()?;
        let (first, others) = told.split_first()?;
        let newest = |broker: &BrokerKey, at: Running| {
            others.iter().try_fold(at, |at, told| Some(at.max(*told.heard.get(broker)?)))
        };
        let all = first.heard.iter().filter_map(|(broker, at)| Some((broker.clone(), newest(broker, *at)?)));
        let all = all.collect();
        self.over = true;
        self.told = BTreeMap::new();
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_broker::key;
    use super::*;

    const NOW: Running = Duration::from_secs(1_000);

    fn silences(process: u64, of: &[(usize, u64)]) -> Silences {
        Silences { process, brokers: of.iter().map(|(n, ms)| (key(*n), *ms)).collect() }
    }

    fn ago(ms: u64) -> Running {
        NOW - Duration::from_millis(ms)
    }

    #[test]
    fn the_shortest_silence_of_each_once_all_have_told() {
        let mut inheritance = Inheritance::default();
        let voters = || [(2, Some(20)), (3, Some(30))].into_iter();
        assert!(inheritance.take(voters()).is_none());
        inheritance.told(NOW, 2, silences(20, &[(1, 500), (2, 100), (3, 1)]));
        assert!(inheritance.take(voters()).is_none(), "one may have heard what the other did not");
        inheritance.told(NOW, 3, silences(30, &[(1, 400), (2, 900)]));
        let heard = inheritance.take(voters()).unwrap();
        assert_eq!(heard, HashMap::from([(key(1), ago(400)), (key(2), ago(100))]));
        assert!(!inheritance.is_open() && inheritance.take(voters()).is_none(), "once");
    }

    #[test]
    fn a_process_that_is_no_more_has_told_nothing() {
        let mut inheritance = Inheritance::default();
        inheritance.told(NOW, 2, silences(20, &[(1, 500)]));
        assert!(inheritance.take([(2, Some(21))].into_iter()).is_none(), "another process");
        assert!(inheritance.take([(2, None)].into_iter()).is_none(), "cut off");
        assert!(inheritance.forget());
        assert!(inheritance.take([(2, Some(20))].into_iter()).is_none());
        assert!(inheritance.take(std::iter::empty()).is_none(), "a node alone inherits nothing");
    }
}
