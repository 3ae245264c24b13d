//! What the leader refuses since a part of the tables would grow too large.
//!
//! The leader asks before it proposes; apply carries out what is in the log, whatever its size.

use super::{RouteInfo, kv};
use crate::command::{Change, Name, PutKv, Registration};
use crate::limits::{BROKERS_MAX, KV_NAMESPACE_BYTES_MAX};

impl Change {
    /// The KV namespace that the change adds to, and how much at most.
    #[must_use]
    pub fn kv_growth(&self) -> Option<(&Name, usize)> {
        match self {
            Self::PutKv(put) => Some((&put.namespace, kv::entry_bytes(&put.key, put.value.as_ref()))),
            _ => None,
        }
    }
}

impl RouteInfo {
    /// Checks that the tables have room for a change. `kv_in_flight`: what changes that are proposed and not applied
    /// add to the KV namespace of this one.
    ///
    /// # Errors
    /// What would be too large, and its limit.
    pub fn check_growth(&self, change: &Change, kv_in_flight: usize) -> Result<(), String> {
        match change {
            Change::PutKv(put) => self.check_kv_growth(put, kv_in_flight),
            Change::RegisterBroker(registration) => self.check_broker_growth(registration),
            _ => Ok(()),
        }
    }

    fn check_kv_growth(&self, put: &PutKv, in_flight: usize) -> Result<(), String> {
        let (before, after) =
            (self.kv_entry_bytes(&put.namespace, &put.key), kv::entry_bytes(&put.key, put.value.as_ref()));
        let total = (self.kv_namespace_bytes(&put.namespace) + in_flight + after).saturating_sub(before);
        if after <= before || total <= KV_NAMESPACE_BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "with this value KV namespace {} would take {total} bytes in a reply, at most {KV_NAMESPACE_BYTES_MAX} \
             are allowed",
            put.namespace
        ))
    }

    fn check_broker_growth(&self, registration: &Registration) -> Result<(), String> {
        match self.groups.get(&registration.broker) {
            None if self.groups.len() >= BROKERS_MAX => Err(format!(
                "there are {} broker names, at most {BROKERS_MAX} are allowed",
                self.groups.len()
            )),
            Some(group)
                if group.brokers.len() >= BROKERS_MAX
                    && !group.brokers.iter().any(|(_, address)| *address == registration.address) =>
            {
                let (name, count) = (&registration.broker, group.brokers.len());
                Err(format!("broker name {name} has {count} brokers, at most {BROKERS_MAX} are allowed"))
            }
            _ => Ok(()),
        }
    }
}
