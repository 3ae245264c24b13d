//! The leader's last check of a command before it goes into an entry.

use super::{Prepared, RouteInfo};
use crate::command::{Change, Command, RemoveBrokers};
use crate::outcome::Outcome;

impl RouteInfo {
    /// The leader's last check of a command, against its own applied table: drops what changes nothing, fills
    /// in incarnations.
    ///
    /// This table lacks what is proposed and not yet applied: a registration that changes nothing now does after a
    /// removal that is on its way. The caller checks that ([`crate::removed`]).
    #[must_use]
    pub fn prepare(&self, mut command: Command) -> Prepared {
        let done = match &mut command.change {
            Change::RemoveBrokers(removals) => self.prepare_removals(removals),
            Change::RegisterBroker(registration) => match self.plan_registration(registration) {
                Ok(plan) => plan.is_empty().then_some(Outcome::Done { changed: false }),
                Err(refused) => Some(refused),
            },
            Change::RegisterTopic(topic) => match self.plan_register_topic(topic) {
                Ok(put) => put.is_empty().then_some(Outcome::Done { changed: false }),
                Err(refused) => Some(refused),
            },
            Change::DeleteTopic(topic) => {
                self.plan_delete_topic(topic).is_empty().then_some(Outcome::Done { changed: false })
            }
            Change::SetWritePermission(permission) => {
                let (changes, outcome) = self.plan_set_write_permission(permission);
                (!changes).then_some(outcome)
            }
            Change::PutKv(put) => (!self.put_kv_changes(put)).then_some(Outcome::Done { changed: false }),
            Change::DeleteKv(delete) => {
                (!self.delete_kv_changes(delete)).then_some(Outcome::Done { changed: false })
            }
            Change::UpdateSettings(update) => {
                let (_, changes) = self.settings.updated(&update.properties);
                changes.is_empty().then_some(Outcome::Done { changed: false })
            }
            Change::SetEvictionGuard(guard) => {
                (guard.active == self.eviction_guard().is_some()).then_some(Outcome::Done { changed: false })
            }
        };
        match done {
            Some(outcome) => Prepared::Done(outcome),
            None => Prepared::Propose(Box::new(command)),
        }
    }

    /// Drops removals that mean no broker here, and names the incarnation of the others.
    fn prepare_removals(&self, removals: &mut RemoveBrokers) -> Option<Outcome> {
        removals.brokers.retain_mut(|removal| {
            let incarnation = self.removal_target(removal).map(|(_, live)| live.incarnation);
            removal.incarnation = incarnation.or(removal.incarnation);
            incarnation.is_some()
        });
        removals.brokers.is_empty().then_some(Outcome::Removed { count: 0 })
    }
}
