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
    /// `supportActingMaster`: a slave stands in for a master that is missing.
    pub support_acting_master: bool,
    /// `enableTopicList`: codes 224, 311, 312, 313.
    pub enable_topic_list: bool,
    /// `enableAllTopicList`: code 206.
    pub enable_all_topic_list: bool,
    /// `notifyMinBrokerIdChanged`: code 905 is sent.
    pub notify_min_broker_id_changed: bool,
    /// `needWaitForService`: no routes for a while after the start of a process.
    pub need_wait_for_service: bool,
    /// `waitSecondsForService`: how long, seconds.
    pub wait_seconds_for_service: i32,
    /// `deleteTopicWithBrokerRegistration`: a registration removes what it does not list.
    pub delete_topic_with_broker_registration: bool,
    /// Keys of Java that have no effect here, with the text that was set last; a default is not kept.
    pub without_effect: BTreeMap<Name, Name>,
}

/// What a property name means to the replicated settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// Replicated, and it has an effect.
    Replicated,
    /// Replicated and shown, without any effect here.
    WithoutEffect,
    /// No replicated setting: a command that names it changes nothing, as in Java.
    Unknown,
}

/// How Java reads a property.
#[derive(Clone, Copy)]
enum Form {
    Boolean,
    Integer,
    Long,
    Text,
}

/// A property and the text of its default.
struct Property {
    name: &'static str,
    form: Form,
    default: &'static str,
}

const fn property(name: &'static str, form: Form, default: &'static str) -> Property {
    Property { name, form, default }
}

/// A setting with an effect: its name, what its values are, what they do, and where it is kept.
pub struct ReplicatedSetting {
    /// Java's property name.
    pub name: &'static str,
    /// What a value is: `true or false`, or a number with its unit.
    pub form: &'static str,
    /// What a value does, for an operator.
    pub help: &'static str,
    slot: fn(&mut Settings) -> Slot<'_>,
}

const fn flag(
    name: &'static str,
    slot: fn(&mut Settings) -> Slot<'_>,
    help: &'static str,
) -> ReplicatedSetting {
    ReplicatedSetting { name, form: "true or false", help, slot }
}

/// All settings with an effect, in the order of their names.
pub const REPLICATED: [ReplicatedSetting; 9] = [
    flag(
        "deleteTopicWithBrokerRegistration",
        |s| Slot::Flag(&mut s.delete_topic_with_broker_registration),
        "a registration removes the topics of its broker name that it does not list",
    ),
    flag(
        "enableAllTopicList",
        |s| Slot::Flag(&mut s.enable_all_topic_list),
        "code 206 (all topics) is answered; false: refused",
    ),
    flag(
        "enableTopicList",
        |s| Slot::Flag(&mut s.enable_topic_list),
        "codes 224, 311, 312 and 313 (topics of a cluster, unit topics) are answered; false: refused",
    ),
    flag(
        "needWaitForService",
        |s| Slot::Flag(&mut s.need_wait_for_service),
        "a node answers no route for waitSecondsForService after its process started",
    ),
    flag(
        "notifyMinBrokerIdChanged",
        |s| Slot::Flag(&mut s.notify_min_broker_id_changed),
        "the brokers of a broker name get code 905 when its lowest broker id changes",
    ),
    flag(
        "orderMessageEnable",
        |s| Slot::Flag(&mut s.order_message_enable),
        "routes carry orderTopicConf, from the KV namespace ORDER_TOPIC_CONFIG",
    ),
    flag(
        "returnOrderTopicConfigToBroker",
        |s| Slot::Flag(&mut s.return_order_topic_config_to_broker),
        "registrations are answered with the KV namespace ORDER_TOPIC_CONFIG",
    ),
    flag(
        "supportActingMaster",
        |s| Slot::Flag(&mut s.support_acting_master),
        "a route names a slave as master while its broker name has none",
    ),
    ReplicatedSetting {
        name: "waitSecondsForService",
        form: "a number, seconds",
        help: "see needWaitForService",
        slot: |s| Slot::Number(&mut s.wait_seconds_for_service),
    },
];

/// Keys that Java shows and that mean nothing here, in order.
const WITHOUT_EFFECT: [Property; 24] = [
    property("clientRequestThreadPoolNums", Form::Integer, "8"),
    property("clientRequestThreadPoolQueueCapacity", Form::Integer, "50000"),
    property("clusterTest", Form::Boolean, "false"),
    property("defaultThreadPoolNums", Form::Integer, "16"),
    property("defaultThreadPoolQueueCapacity", Form::Integer, "10000"),
    property("enableControllerInNamesrv", Form::Boolean, "false"),
    property("enableShutdownGracefully", Form::Boolean, "false"),
    property("productEnvName", Form::Text, "center"),
    property("scanNotActiveBrokerInterval", Form::Long, "5000"),
    property("serverAsyncSemaphoreValue", Form::Integer, "64"),
    property("serverCallbackExecutorThreads", Form::Integer, "0"),
    property("serverNettyWorkerGroupEnable", Form::Boolean, "true"),
    property("serverOnewaySemaphoreValue", Form::Integer, "256"),
    property("serverPooledByteBufAllocatorEnable", Form::Boolean, "true"),
    property("serverSelectorThreads", Form::Integer, "3"),
    property("serverSocketBacklog", Form::Integer, "1024"),
    property("serverSocketRcvBufSize", Form::Integer, "0"),
    property("serverSocketSndBufSize", Form::Integer, "0"),
    property("serverWorkerThreads", Form::Integer, "8"),
    property("shutdownWaitTimeSeconds", Form::Integer, "30"),
    property("unRegisterBrokerQueueCapacity", Form::Integer, "3000"),
    property("useEpollNativeSelector", Form::Boolean, "false"),
    property("writeBufferHighWaterMark", Form::Integer, "0"),
    property("writeBufferLowWaterMark", Form::Integer, "0"),
];

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

/// Where a setting is kept, to read or write it.
enum Slot<'a> {
    Flag(&'a mut bool),
    Number(&'a mut i32),
}

impl Settings {
    /// What a property name means.
    #[must_use]
    pub fn kind(name: &str) -> SettingKind {
        if replicated(name).is_some() {
            SettingKind::Replicated
        } else if without_effect(name).is_some() {
            SettingKind::WithoutEffect
        } else {
            SettingKind::Unknown
        }
    }

    /// All properties with their text, sorted by name. Code 319 shows them, with those of the node.
    #[must_use]
    pub fn properties(&self) -> BTreeMap<&'static str, String> {
        let mut copy = self.clone();
        let mut all = BTreeMap::new();
        for setting in &REPLICATED {
            let text = match (setting.slot)(&mut copy) {
                Slot::Flag(flag) => flag.to_string(),
                Slot::Number(number) => number.to_string(),
            };
            all.insert(setting.name, text);
        }
        for Property { name, default, .. } in &WITHOUT_EFFECT {
            let text = self.without_effect.get(*name).map_or(*default, |text| text);
            all.insert(name, text.to_string());
        }
        all
    }

    /// These settings after an update, and what changed: name, old text, new text, in the order of the names.
    ///
    /// As in Java, a number with a space behind it is none, a boolean is true only as `true` in any case, and unknown
    /// names and numbers that do not parse are ignored. The last of several values of a name counts.
    #[must_use]
    pub fn updated(&self, properties: &[(Name, Name)]) -> (Self, Vec<(Name, Name, Name)>) {
        let mut after = self.clone();
        for (name, text) in properties {
            after.set(name, text);
        }
        let (old, new) = (self.properties(), after.properties());
        let changes = old.into_iter().zip(new.into_values()).filter(|((_, old), new)| old != new);
        let changes = changes.map(|((name, old), new)| (name.into(), old.into(), new.into())).collect();
        (after, changes)
    }

    fn set(&mut self, name: &str, text: &str) {
        match replicated(name).map(|setting| (setting.slot)(self)) {
            Some(Slot::Flag(flag)) => *flag = is_true(text),
            Some(Slot::Number(number)) => *number = text.parse().unwrap_or(*number),
            None => self.set_without_effect(name, text),
        }
    }

    fn set_without_effect(&mut self, name: &str, text: &str) {
        let Some(Property { name, form, default }) = without_effect(name) else { return };
        let text = match form {
            Form::Boolean => Some(is_true(text).to_string()),
            Form::Integer => text.parse::<i32>().ok().map(|number| number.to_string()),
            Form::Long => text.parse::<i64>().ok().map(|number| number.to_string()),
            Form::Text => Some(text.to_owned()),
        };
        match text {
            None => {}
            Some(text) if text == *default => {
                self.without_effect.remove(*name);
            }
            Some(text) => {
                self.without_effect.insert((*name).into(), text.into());
            }
        }
    }
}

fn replicated(name: &str) -> Option<&'static ReplicatedSetting> {
    REPLICATED.iter().find(|setting| setting.name == name)
}

fn without_effect(name: &str) -> Option<&'static Property> {
    WITHOUT_EFFECT.iter().find(|property| property.name == name)
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(settings: &Settings, pairs: &[(&str, &str)]) -> (Settings, Vec<(Name, Name, Name)>) {
        let pairs: Vec<(Name, Name)> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        settings.updated(&pairs)
    }

    /// What the Java nameserver shows by default, but for the settings of a node.
    const JAVA_DEFAULTS: &str = "\
clientRequestThreadPoolNums=8 clientRequestThreadPoolQueueCapacity=50000 clusterTest=false \
defaultThreadPoolNums=16 defaultThreadPoolQueueCapacity=10000 deleteTopicWithBrokerRegistration=false \
enableAllTopicList=true enableControllerInNamesrv=false enableShutdownGracefully=false enableTopicList=true \
needWaitForService=false notifyMinBrokerIdChanged=false orderMessageEnable=false productEnvName=center \
returnOrderTopicConfigToBroker=true scanNotActiveBrokerInterval=5000 serverAsyncSemaphoreValue=64 \
serverCallbackExecutorThreads=0 serverNettyWorkerGroupEnable=true serverOnewaySemaphoreValue=256 \
serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3 serverSocketBacklog=1024 \
serverSocketRcvBufSize=0 serverSocketSndBufSize=0 serverWorkerThreads=8 shutdownWaitTimeSeconds=30 \
supportActingMaster=false unRegisterBrokerQueueCapacity=3000 useEpollNativeSelector=false \
waitSecondsForService=45 writeBufferHighWaterMark=0 writeBufferLowWaterMark=0";

    #[test]
    fn defaults_are_those_of_java() {
        let shown: Vec<String> = Settings::default()
            .properties()
            .into_iter()
            .map(|(name, text)| format!("{name}={text}"))
            .collect();
        assert_eq!(shown.join(" "), JAVA_DEFAULTS);
    }

    #[test]
    fn every_setting_can_be_changed_and_is_reported() {
        for (name, text) in Settings::default().properties() {
            let other = match text.as_str() {
                "true" => "false",
                "false" => "TRUE",
                "center" => "east",
                _ => "+77",
            };
            let (after, changes) = update(&Settings::default(), &[(name, other)]);
            let shown = after.properties().remove(name).unwrap();
            assert_eq!(changes, [(name.into(), text.as_str().into(), shown.as_str().into())]);
            assert_ne!(Settings::kind(name), SettingKind::Unknown);
            let (back, _) = update(&after, &[(name, &text)]);
            assert_eq!(back, Settings::default(), "{name}: a default leaves no trace");
        }
    }

    #[test]
    fn what_does_not_parse_is_ignored_as_in_java() {
        let (after, changes) = update(
            &Settings::default(),
            &[
                ("noSuchKey", "5"),
                ("waitSecondsForService", "soon"),
                ("waitSecondsForService", "46 "),
                ("waitSecondsForService", "99999999999"),
                ("serverWorkerThreads", ""),
                ("listenPort", "1"),
            ],
        );
        assert_eq!((after, changes), (Settings::default(), vec![]));
        // A boolean that is not true is false.
        let (after, _) = update(&Settings::default(), &[("enableTopicList", "yes")]);
        assert!(!after.enable_topic_list);
        let (after, _) =
            update(&Settings::default(), &[("waitSecondsForService", "1"), ("waitSecondsForService", "2")]);
        assert_eq!(after.wait_seconds_for_service, 2, "the last one counts");
    }

    #[test]
    fn kinds_do_not_overlap() {
        assert!(REPLICATED.iter().map(|setting| setting.name).is_sorted());
        assert!(REPLICATED.iter().all(|setting| without_effect(setting.name).is_none()));
        assert_eq!(Settings::kind("orderMessageEnable"), SettingKind::Replicated);
        assert_eq!(Settings::kind("clusterTest"), SettingKind::WithoutEffect);
        assert_eq!(Settings::kind("clientWorkerThreads"), SettingKind::Unknown);
        assert_eq!(Settings::kind("listenPort"), SettingKind::Unknown, "a setting of a node");
    }
}
