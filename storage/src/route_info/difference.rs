//! What the edge needs before it proposes a registration: whether it changes anything, and the least to propose.

use super::{RegistrationCheck, RouteInfo};
use crate::Position;
use crate::command::{Basis, Name, Registration, TopicConfig};

impl RouteInfo {
    /// What a whole registration would do, by the same rules as apply.
    ///
    /// The difference holds only what apply must look at. It stands for the whole registration at exactly the
    /// group version that it names; settings that registration reads are a part of that version, so what they
    /// decide is decided here already.
    #[must_use]
    pub fn check_registration(&self, whole: &Registration) -> RegistrationCheck {
        let plan = match self.plan_registration(whole) {
            Ok(plan) => plan,
            Err(outcome) => return RegistrationCheck::Refused(outcome),
        };
        if plan.is_empty() {
            return RegistrationCheck::Unchanged;
        }
        let put = plan.put.iter();
        RegistrationCheck::Differs(Box::new(Registration {
            cluster: whole.cluster.clone(),
            broker: whole.broker.clone(),
            id: whole.id,
            address: whole.address.clone(),
            ha_address: whole.ha_address.clone(),
            zone: whole.zone.clone(),
            acting_master: whole.acting_master,
            heartbeat_timeout_ms: whole.heartbeat_timeout_ms,
            data_version: whole.data_version,
            filter_servers: plan.filter_servers.cloned(),
            topics: put
                .map(|(topic, queues)| TopicConfig { topic: (*topic).clone(), queues: *queues })
                .collect(),
            basis: Basis::Difference {
                group_version: self.group_version(&whole.broker),
                topic_count: plan.topic_count,
                absent: plan.absent,
            },
            static_infos: plan.static_infos.into_iter().cloned().collect(),
        }))
    }

    /// The topics whose queues on a broker name may differ from those that it had at a former group version. All
    /// others, and the addresses, flags and zone of the name, are as they were then, and so are the settings that
    /// registration reads. `None` when that is not known.
    #[must_use]
    pub fn topics_changed_since(&self, broker: &str, version: Position) -> Option<Vec<Name>> {
        let current = self.group_version(broker);
        if version == current {
            return Some(Vec::new());
        }
        self.topic_changes.get(broker)?.between(version, current)
    }
}
