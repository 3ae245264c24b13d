//! Settings (318, 319).

use super::{Plan, ReplyShape};
use crate::protocol::{Reply, properties, remarks};
use crate::warn_limit::WarnLimit;
use crate::wire::codes::result::NO_PERMISSION;
use std::collections::BTreeMap;
use storage::RouteInfo;
use storage::command::{Change, Name, UpdateSettings};

/// Paths of Java's nameserver. They have no effect here; code 319 shows them, and no request may change them.
pub const JAVA_PATHS: [&str; 3] = ["configStorePath", "kvConfigPath", "rocketmqHome"];
/// The key of the list of further keys that no request may change.
const BLACK_LIST_KEY: &str = "configBlackList";
/// The keys of the list that code 319 shows by default, as Java does.
const BLACK_LIST_DEFAULT: [&str; 3] = [BLACK_LIST_KEY, "configStorePath", "kvConfigPath"];

/// Settings of this node that code 319 shows and code 318 does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// The settings that code 319 shows, Java property name → text: `listenPort`, `bindAddress` and the like.
    pub shown: BTreeMap<Name, Name>,
    /// Keys that `configBlackList` adds to those that are always black-listed.
    pub black_list: Vec<Name>,
}

impl Default for NodeSettings {
    /// The settings of a node with Java's defaults.
    fn default() -> Self {
        let shown =
            [("bindAddress", "0.0.0.0"), ("listenPort", "9876"), ("serverChannelMaxIdleTimeSeconds", "120")];
        Self::new(shown.map(|(key, text)| (key, text.to_owned())), "")
    }
}

impl NodeSettings {
    /// The settings of a node, by key; `black_list` is the text of `configBlackList`: keys separated by `;`.
    #[must_use]
    pub fn new(shown: impl IntoIterator<Item = (&'static str, String)>, black_list: &str) -> Self {
        let added: Vec<Name> =
            black_list.split(';').map(str::trim).filter(|key| !key.is_empty()).map(Name::from).collect();
        let mut listed = BLACK_LIST_DEFAULT.to_vec();
        listed.extend(added.iter().map(|key| &**key).filter(|key| !is_always_black_listed(key)));
        let mut node = Self { shown: BTreeMap::new(), black_list: Vec::new() };
        node.show(BLACK_LIST_KEY, &listed.join(";"));
        for path in JAVA_PATHS {
            node.show(path, "");
        }
        for (key, text) in shown {
            node.show(key, &text);
        }
        node.black_list = added;
        node
    }

    /// Adds a setting to those that are shown.
    pub fn show(&mut self, key: &str, text: &str) {
        self.shown.insert(key.into(), text.into());
    }

    fn is_black_listed(&self, key: &str) -> bool {
        is_always_black_listed(key) || self.black_list.iter().any(|listed| **listed == *key)
    }
}

fn is_always_black_listed(key: &str) -> bool {
    key == BLACK_LIST_KEY || JAVA_PATHS.contains(&key)
}

/// UPDATE_NAMESRV_CONFIG: the whole request is one entry, or nothing of it is proposed. Settings of the node are left
/// out with a warning; apply ignores unknown keys and bad values.
#[must_use]
pub fn update(properties: Vec<(Name, Name)>, node: &NodeSettings) -> Plan<'static> {
    if properties.iter().any(|(key, _)| node.is_black_listed(key)) {
        return Plan::Reply(Reply::refused(NO_PERMISSION, remarks::BLACK_LISTED));
    }
    let (of_node, properties): (Vec<_>, Vec<_>) =
        properties.into_iter().partition(|(key, _)| node.shown.contains_key(key));
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
