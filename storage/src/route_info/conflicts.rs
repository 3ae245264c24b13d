//! Events of a registration beside what it changes: conflicts about a place, and a new lowest id.

use super::RouteInfo;
use crate::command::{Name, Registration};
use crate::outcome::{ConflictKind, Event};

impl RouteInfo {
    /// Events for each other broker that claims the same place; made before the registration takes the place.
    pub(super) fn push_conflicts(&self, r: &Registration, events: &mut Vec<Event>) {
        let Some(group) = self.groups.get(&r.broker) else { return };
        let holder = group.address(r.id).filter(|holder| **holder != r.address);
        let key = holder.and_then(|holder| self.broker_key(&r.broker, holder));
        let state = key.as_ref().and_then(|key| self.live.get(key)).map(|l| l.data_version.state_version);
        // A higher state version is a switch by a controller, not a conflict.
        if state.is_some_and(|state| state == r.data_version.state_version) {
            events.push(self.conflict(ConflictKind::Address, r));
        }
        let others = group.brokers.iter().filter_map(|(_, address)| self.broker_key(&r.broker, address));
        if let Some(other) = others.into_iter().find(|key| key.cluster != r.cluster) {
            events.push(Event::Conflict {
                kind: ConflictKind::Cluster,
                broker: r.broker.clone(),
                id: r.id,
                holder: place(&other.cluster, &other.address),
                claimant: place(&r.cluster, &r.address),
            });
        }
    }

    /// Two addresses under the id of a registration.
    pub(super) fn conflict(&self, kind: ConflictKind, r: &Registration) -> Event {
        let holder = self.groups.get(&r.broker).and_then(|g| g.address(r.id)).cloned().unwrap_or_default();
        let key = self.broker_key(&r.broker, &holder);
        let cluster = key.map_or_else(|| r.cluster.clone(), |key| key.cluster);
        Event::Conflict {
            kind,
            broker: r.broker.clone(),
            id: r.id,
            holder: place(&cluster, &holder),
            claimant: place(&r.cluster, &r.address),
        }
    }

    /// The event of a registration with a lower id than all others of its group.
    pub(super) fn push_lower_id(&self, r: &Registration, events: &mut Vec<Event>) {
        let Some(group) = self.groups.get(&r.broker) else { return };
        if !self.settings.notify_min_broker_id_changed {
            return;
        }
        // Not to the registering broker itself, unless it is alone in its group (it changed its own id), as in Java.
        let alone = group.brokers.len() == 1;
        let targets = group.brokers.iter().filter(|(id, _)| alone || *id != r.id);
        events.push(Event::MinBrokerIdChanged {
            broker: r.broker.clone(),
            min_id: r.id,
            min_address: r.address.clone(),
            ha_address: r.ha_address.clone(),
            offline_address: None,
            targets: targets.map(|(_, address)| address.clone()).collect(),
        });
    }
}

fn place(cluster: &str, address: &str) -> Name {
    format!("{address} ({cluster})").into()
}
