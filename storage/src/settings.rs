//! The replicated settings: the same on all nodes, changed by a log entry only.

use crate::command::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings that alter what a nameserver answers or what a command means. Names are Java's property names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `orderMessageEnable`: routes carry `orderTopicConf`.
    pub order_message_enable: bool,
    /// `returnOrderTopicConfigToBroker`: registrations are answered with namespace ORDER_TOPIC_CONFIG.
    pub return_order_topic_config_to_broker: bool,
    /// `supportActingMaster`.
    pub support_acting_master: bool,
    /// `enableTopicList`: codes 224, 311, 312, 313.
    pub enable_topic_list: bool,
    /// `enableAllTopicList`: code 206.
    pub enable_all_topic_list: bool,
    /// `notifyMinBrokerIdChanged`: code 905 is sent.
    pub notify_min_broker_id_changed: bool,
    /// `needWaitForService`.
    pub need_wait_for_service: bool,
    /// `waitSecondsForService`.
    pub wait_seconds_for_service: i32,
    /// `deleteTopicWithBrokerRegistration`.
    pub delete_topic_with_broker_registration: bool,
    /// Keys of Java that have no effect here, with the text that was set last.
    pub without_effect: BTreeMap<Name, Name>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            support_acting_master: false,
            enable_topic_list: true,
            enable_all_topic_list: true,
            notify_min_broker_id_changed: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            delete_topic_with_broker_registration: false,
            without_effect: BTreeMap::new(),
        }
    }
}
