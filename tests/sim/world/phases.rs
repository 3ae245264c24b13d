//! What happens in a run, one phase after the other.

use super::{GUARD_WINDOW, HANGS, Outcome, VANISHES, World};
use crate::brokers::Broker;
use crate::clients;
use crate::faults::Faults;
use crate::invariants::dead_leave::SETTLED_AFTER;
use crate::invariants::{guard_keeps, progress};
use crate::node::NODES;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// Until a new cluster must be there.
const BOOTSTRAP_MAX: Duration = Duration::from_secs(15);
/// After the last fault there must be progress within this, the longest timeout of a broker not counted.
const PROGRESS_WITHIN: Duration = Duration::from_secs(12);
/// And for so long it goes on then.
const CALM_FOR: Duration = Duration::from_secs(2);
/// Where leaders change all the time: until a machine that vanished is found out, and a while more.
const FOUND_OUT_WITHIN: Duration = Duration::from_secs(14);
/// Everything may take this much longer where the leader changes all the time.
const TRANSFER_MARGIN: Duration = Duration::from_secs(1);
/// Until the others have no log any more that goes on where a node stopped.
const SNAPSHOTS_AFTER: Duration = Duration::from_secs(5);
/// A broker that died within the same second as the leader is gone from the survivors.
const DIED_TOGETHER_WITHIN: Duration = Duration::from_secs(5);
/// Between two leaders that are killed.
const KILLED_EVERY_MS: (u64, u64) = (4_500, 6_000);
/// A killed leader is started again after this.
const STARTED_AGAIN_MS: (u64, u64) = (100, 500);

impl World {
    pub(super) fn phases(&mut self, seed: u64) -> Result<Outcome, String> {
        for node in &mut self.nodes {
            node.start(self.now);
        }
        for client in 0..3 {
            clients::start(client, &self.outside, seed, &self.network, &self.record);
        }
        for broker in &mut self.brokers {
            broker.start(self.now, &self.outside, &self.network, &self.record);
        }
        self.until("after the birth", BOOTSTRAP_MAX)?;
        self.faults(seed)?;
        let longest = self.brokers.iter().map(|broker| broker.timeout).max().unwrap_or_default();
        let patience = PROGRESS_WITHIN + longest + self.record.lock().dead.patience;
        self.until("after the faults", patience)?;
        if self.hangs {
            self.leaders_are_killed(patience)?;
        }
        if self.many_snapshots && self.dice.chance(50) {
            self.a_leader_knows_from_a_snapshot(patience)?;
        }
        if self.dice.chance(25) {
            self.a_broker_and_the_leader_die_together(patience)?;
        }
        if self.changing_leaders {
            self.record.lock().dead.patience += TRANSFER_MARGIN;
            self.next_change = Some(self.now);
        }
        if self.dice.chance(15) {
            self.ends_count_again()?;
        }
        self.record.lock().notices.calm(Some(self.now));
        self.brokers[0].die(self.now, true);
        self.brokers[usize::try_from(VANISHES).unwrap()].die(self.now, false);
        self.brokers[2].changes();
        self.calm(if self.next_change.is_some() { FOUND_OUT_WITHIN } else { CALM_FOR })?;
        // Leaders that change faster than the grace keep a silent broker: nothing but time tells of it.
        self.next_change = None;
        self.until("at the end", patience)?;
        if self.guarded {
            self.all_brokers_vanish()?;
        }
        let seen = self.record.lock();
        Ok(Outcome {
            trace: seen.trace,
            simulated: self.now,
            applied: seen.applied,
            removals: seen.removals,
            writes: seen.acknowledged.writes,
            notices: seen.notices.count(),
            due_notices: seen.notices.due(),
            routes: seen.routes.judged,
        })
    }

    fn faults(&mut self, seed: u64) -> Result<(), String> {
        let mut faults = Faults::new(seed);
        let end = self.now + self.dice.ms(4_000, 16_000);
        while self.now < end.max(faults.lasts_until()) {
            if self.now < end {
                faults.step(self);
            } else {
                faults.go_on(self);
            }
            self.step()?;
        }
        faults.end(self);
        Ok(())
    }

    /// Until it is long ago that a node was cut off or stood still, which may never be where leaders are killed all the time.
    fn ends_count_again(&mut self) -> Result<(), String> {
        self.calm(SETTLED_AFTER)?;
        let latest = self.now + Duration::from_secs(60);
        while self.now < latest && !self.record.lock().reachability.ends_count(self.now) {
            self.step()?;
        }
        Ok(())
    }

    /// Nothing goes wrong.
    fn calm(&mut self, lasts: Duration) -> Result<(), String> {
        let end = self.now + lasts;
        while self.now < end {
            self.step()?;
        }
        Ok(())
    }

    /// A broker that a node finds in a snapshot only, and that dies when this node has begun to lead.
    fn a_leader_knows_from_a_snapshot(&mut self, patience: Duration) -> Result<(), String> {
        let node = self.dice.pick(&NODES).unwrap();
        self.node(node).kill();
        self.brokers[3].die(self.now, true);
        self.brokers[3].moves();
        self.calm(Duration::from_secs(1))?;
        self.brokers[3].start(self.now, &self.outside, &self.network, &self.record);
        self.calm(SNAPSHOTS_AFTER)?;
        let now = self.now;
        self.node(node).start(now);
        self.until("behind a snapshot", patience)?;
        self.nodes.iter().for_each(|other| other.transfers_leadership_to(node));
        let leads_for = self.dice.ms(0, 1_500);
        self.calm(leads_for)?;
        let seen = self.dice.chance(50);
        self.brokers[3].die(self.now, seen);
        self.until("behind a snapshot and a death", patience)
    }

    /// As on one host. The survivors know of the end of the broker's connections, and their next leader decides.
    fn a_broker_and_the_leader_die_together(&mut self, patience: Duration) -> Result<(), String> {
        self.ends_count_again()?;
        let leader = self.record.lock().reachability.leader().unwrap_or(NODES[0]);
        let broker_first = self.dice.chance(50);
        let between = self.dice.ms(0, 1_000);
        if !broker_first {
            self.node(leader).kill();
            self.calm(between)?;
        }
        let broker = &mut self.brokers[0];
        let mut keys: Vec<_> = if broker.lives() { broker.keys().collect() } else { Vec::new() };
        // Of a broker that only the leader had a session with the survivors know nothing: it goes by its timeout.
        let lives = |key: &BrokerKey| self.record.lock().living.lives.get(key).cloned();
        keys.retain(|key| lives(key).is_some_and(|life| life.is_strong_beside(leader)));
        broker.die(self.now, true);
        let died = self.now;
        let seen = keys.into_iter().filter(|key| self.record.lock().dead.is_seen(key));
        let seen: Vec<_> = seen.collect();
        if broker_first {
            self.calm(between)?;
            self.node(leader).kill();
        }
        let latest = died + DIED_TOGETHER_WITHIN + self.record.lock().dead.patience;
        let survivors = || NODES.into_iter().filter(|node| *node != leader);
        while survivors().any(|node| seen.iter().any(|key| self.record.lock().has(node, key))) {
            if self.now > latest {
                return Err(format!("{seen:?} died together with the leader at {died:?} and is still there"));
            }
            self.step()?;
        }
        let now = self.now;
        self.node(leader).start(now);
        self.until("after a broker and the leader died together", patience)
    }

    /// A broker hangs, and each leader is killed after a while, until the broker is gone.
    fn leaders_are_killed(&mut self, patience: Duration) -> Result<(), String> {
        let broker = usize::try_from(HANGS).unwrap();
        self.brokers[broker].hangs(self.now);
        let end = self.now + 3 * self.brokers[broker].timeout;
        while self.now < end && progress::look(&self.nodes, &self.record.lock()).is_err() {
            let every = self.dice.ms(KILLED_EVERY_MS.0, KILLED_EVERY_MS.1);
            let down = self.dice.ms(STARTED_AGAIN_MS.0, STARTED_AGAIN_MS.1);
            self.calm(every)?;
            let leader = self.record.lock().reachability.leader().unwrap_or(NODES[0]);
            self.node(leader).kill();
            self.calm(down)?;
            let now = self.now;
            self.node(leader).start(now);
        }
        self.until("after leaders were killed", patience)
    }

    /// The guard keeps some of them, for their timeouts at least.
    fn all_brokers_vanish(&mut self) -> Result<(), String> {
        // Nothing else counts as gone at once with them, and all of them are there.
        for broker in &mut self.brokers {
            if !broker.lives() {
                broker.start(self.now, &self.outside, &self.network, &self.record);
            }
        }
        self.calm(GUARD_WINDOW + Duration::from_secs(2))?;
        self.until("before all brokers vanish", PROGRESS_WITHIN)?;
        self.brokers.iter_mut().for_each(|broker| broker.die(self.now, true));
        self.calm(Duration::from_secs(2))?;
        guard_keeps::look(&self.record.lock(), self.brokers.iter().map(Broker::count).sum())
    }

    /// Steps until there is progress.
    fn until(&mut self, when: &str, within: Duration) -> Result<(), String> {
        let begin = self.now;
        loop {
            self.step()?;
            let look = progress::look(&self.nodes, &self.record.lock());
            match look {
                Ok(()) => return Ok(()),
                Err(missing) if self.now > begin + within => {
                    return Err(format!("no progress {when} within {within:?}: {missing}"));
                }
                Err(_) => {}
            }
        }
    }
}
