//! Which ways bytes go, and which not.

use super::{Network, Place};
use crate::host::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What waited in front of a cut is there within this after it.
const TROUBLE_LASTS: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Paths {
    /// Directions that carry nothing.
    cuts: BTreeSet<(Place, Place)>,
    /// Machines without power.
    dark: BTreeSet<Place>,
    /// Machines that run and reach no other.
    unplugged: BTreeSet<Place>,
    /// When a machine last had a cut.
    troubled: BTreeMap<Place, Moment>,
}

impl Paths {
    pub(super) fn carry(&self, from: Place, to: Place) -> bool {
        let off = |place| self.dark.contains(&place) || self.unplugged.contains(&place);
        !self.cuts.contains(&(from, to)) && !off(from) && !off(to)
    }

    /// Time goes on.
    pub(super) fn step(&mut self, now: Moment) {
        self.troubled.extend(self.cuts.iter().flat_map(|(from, to)| [(*from, now), (*to, now)]));
        self.troubled.extend(self.unplugged.iter().map(|place| (*place, now)));
    }
}

impl Network {
    /// The power goes: no peer gets an end of its connections.
    pub(crate) fn power_off(&self, place: Place) {
        let mut inner = self.lock();
        inner.paths.dark.insert(place);
        inner.changed = true;
        inner.listeners.retain(|_, listener| listener.place != place);
        inner.close_all(place);
    }

    pub(crate) fn power_on(&self, place: Place) {
        let mut inner = self.lock();
        inner.changed |= inner.paths.dark.remove(&place);
    }

    /// A machine is cut off from everything.
    pub(crate) fn unplug(&self, place: Place) {
        let mut inner = self.lock();
        inner.changed |= inner.paths.unplugged.insert(place);
    }

    pub(crate) fn plug_in(&self, place: Place) {
        let mut inner = self.lock();
        inner.changed |= inner.paths.unplugged.remove(&place);
    }

    pub(crate) fn cut(&self, from: Place, to: Place) {
        let mut inner = self.lock();
        inner.changed |= inner.paths.cuts.insert((from, to));
    }

    pub(crate) fn heal(&self) {
        let mut inner = self.lock();
        inner.paths.cuts.clear();
        inner.paths.unplugged.clear();
        inner.changed = true;
    }

    pub(crate) fn heal_between(&self, a: Place, b: Place) {
        let mut inner = self.lock();
        inner.paths.cuts.retain(|cut| *cut != (a, b) && *cut != (b, a));
        inner.changed = true;
    }

    /// Both directions work.
    pub(crate) fn linked(&self, a: Place, b: Place) -> bool {
        let inner = self.lock();
        inner.paths.carry(a, b) && inner.paths.carry(b, a)
    }

    /// One direction works at least.
    pub(crate) fn half_linked(&self, a: Place, b: Place) -> bool {
        let inner = self.lock();
        inner.paths.carry(a, b) || inner.paths.carry(b, a)
    }

    /// The peers of a machine's process get the ends of its connections at once: nothing of it was cut lately, no node is
    /// out of its reach, and few packets are lost.
    pub(crate) fn tells_at_once(&self, place: Place) -> bool {
        let inner = self.lock();
        let Paths { cuts, unplugged, troubled, .. } = &inner.paths;
        let lately = troubled.get(&place).is_some_and(|at| inner.now < *at + TROUBLE_LASTS);
        !lately
            && unplugged.is_empty()
            && !cuts.iter().any(|(from, to)| *from == place || *to == place)
            && inner.is_fair()
    }
}
