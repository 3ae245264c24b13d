//! Brokers whose removal is on its way into the tables: until it is applied, the tables do not show what a registration
//! of one of them would change.

use crate::Change;
use crate::command::Name;

/// The brokers that a change removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedBrokers {
    /// In no order.
    addresses: Vec<Name>,
}

impl Change {
    /// The brokers that the change removes; `None` for any other kind of change.
    #[must_use]
    pub fn removed_brokers(&self) -> Option<RemovedBrokers> {
        let Self::RemoveBrokers(removals) = self else { return None };
        let addresses = removals.brokers.iter().map(|removal| removal.address.clone()).collect();
        Some(RemovedBrokers { addresses })
    }

    /// Whether the change registers one of these brokers: after their removal it brings the broker back, even if it
    /// would change nothing before.
    #[must_use]
    pub fn registers_one_of(&self, removed: &RemovedBrokers) -> bool {
        let Self::RegisterBroker(registration) = self else { return false };
        removed.addresses.contains(&registration.address)
    }
}

#[cfg(test)]
mod tests {
    use crate::Change;
    use crate::command::{Cause, DeleteKv, Registration, Removal, RemoveBrokers, SetWritePermission};

    fn removal_of(addresses: &[&str]) -> Change {
        let removal = |address: &&str| Removal {
            cluster: "c".into(),
            broker: "b".into(),
            address: (*address).into(),
            incarnation: None,
            cause: Cause::Asked,
        };
        let brokers = addresses.iter().map(removal).collect();
        Change::RemoveBrokers(RemoveBrokers { brokers, decided_in_term: None })
    }

    fn registration_of(address: &str) -> Change {
        Change::RegisterBroker(Box::new(Registration::of_master("other".into(), "b".into(), address.into())))
    }

    #[test]
    fn only_a_registration_of_a_removed_address_brings_something_back() {
        let removed = removal_of(&["a:1", "a:2"]).removed_brokers().unwrap();
        // The cluster that a removal names may be wrong: the address decides.
        assert!(registration_of("a:2").registers_one_of(&removed));
        assert!(!registration_of("a:3").registers_one_of(&removed));
        assert!(!removal_of(&["a:1"]).registers_one_of(&removed), "a removal registers no broker");
        let wipe = Change::SetWritePermission(SetWritePermission { broker: "a:1".into(), writable: false });
        assert!(!wipe.registers_one_of(&removed));
    }

    #[test]
    fn only_removals_remove() {
        assert_eq!(registration_of("a:1").removed_brokers(), None);
        let delete = Change::DeleteKv(DeleteKv { namespace: "n".into(), key: "k".into() });
        assert_eq!(delete.removed_brokers(), None);
    }
}
