//! Settings (318, 319).

use super::{Plan, ReplyShape};
use crate::protocol::{Reply, properties, remarks};
use crate::warn_limit::WarnLimit;
use crate::wire::codes::result::NO_PERMISSION;
use std::collections::BTreeMap;
use storage::RouteInfo;
use storage::command::{Change, Name, UpdateSettings};
use storage::settings::{SettingKind, Settings};

/// Keys that no request may change, whatever `configBlackList` adds.
const BLACK_LIST: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

/// Settings of this node that code 319 shows and code 318 does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// The settings that code 319 shows, Java property name → text: `listenPort`, `bindAddress` and the like.
    pub shown: BTreeMap<Name, Name>,
    /// Keys that `configBlackList` adds to those that are always black-listed.
    pub black_list: Vec<Name>,
}

impl NodeSettings {
    /// The settings of a node on this address; `black_list` is the text of `configBlackList`: keys separated by `;`.
    #[must_use]
    pub fn new(bind_address: &str, listen_port: u16, idle_s: u64, black_list: &str) -> Self {
        let added: Vec<Name> =
            black_list.split(';').map(str::trim).filter(|key| !key.is_empty()).map(Name::from).collect();
        let mut shown_list: Vec<&str> = vec!["configBlackList", "configStorePath", "kvConfigPath"];
        shown_list.extend(added.iter().map(|key| &**key).filter(|key| !BLACK_LIST.contains(key)));
        let mut node = Self { shown: BTreeMap::new(), black_list: Vec::new() };
        node.show("bindAddress", bind_address);
        node.show("configBlackList", &shown_list.join(";"));
        node.show("listenPort", &listen_port.to_string());
        node.show("serverChannelMaxIdleTimeSeconds", &idle_s.to_string());
        for without_effect in ["configStorePath", "kvConfigPath", "rocketmqHome"] {
            node.show(without_effect, "");
        }
        node.black_list = added;
        node
    }

    /// Adds a setting to those that are shown.
    pub fn show(&mut self, key: &str, text: &str) {
        self.shown.insert(key.into(), text.into());
    }

    fn is_black_listed(&self, key: &str) -> bool {
        BLACK_LIST.contains(&key) || self.black_list.iter().any(|listed| **listed == *key)
    }
}

/// UPDATE_NAMESRV_CONFIG: the whole request is one entry, or nothing of it is proposed. Settings of the node are left out
/// with a warning; apply ignores unknown keys and bad values.
#[must_use]
pub fn update(properties: Vec<(Name, Name)>, node: &NodeSettings) -> Plan<'static> {
    if properties.iter().any(|(key, _)| node.is_black_listed(key)) {
        return Plan::Reply(Reply::refused(NO_PERMISSION, remarks::BLACK_LISTED));
    }
    let (of_node, properties): (Vec<_>, Vec<_>) =
        properties.into_iter().partition(|(key, _)| Settings::kind(key) == SettingKind::Node);
    static IGNORED: WarnLimit = WarnLimit::new();
    if !of_node.is_empty()
        && let Some(held_back) = IGNORED.allow()
    {
        let keys: Vec<&str> = of_node.iter().map(|(key, _)| &**key).collect();
        tracing::warn!(
            ?keys,
            held_back,
            "settings of a node are not changed by request: set them on the node itself"
        );
    }
    if properties.is_empty() {
        return Plan::Reply(Reply::success());
    }
    Plan::Propose(Change::UpdateSettings(UpdateSettings { properties }), ReplyShape::Plain)
}

/// GET_NAMESRV_CONFIG: the replicated settings and the settings of this node, by key.
#[must_use]
pub fn get(table: &RouteInfo, node: &NodeSettings) -> Reply {
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    let replicated = table.settings().properties();
    all.extend(replicated.iter().map(|(key, text)| (*key, text.as_str())));
    all.extend(node.shown.iter().map(|(key, text)| (&**key, &**text)));
    Reply::with_body(properties::write(all))
}
