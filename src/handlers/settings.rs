//! Settings (318, 319).

use super::{Plan, ReplyShape};
use crate::printable::{Keep, printable};
use crate::protocol::{Reply, properties, remarks};
use crate::warn_limit::WarnLimit;
use crate::wire::codes::result::{NO_PERMISSION, SUCCESS};
use std::collections::BTreeMap;
use storage::RouteInfo;
use storage::command::{Change, Name, UpdateSettings};
use storage::settings::{SettingKind, Settings};

/// Paths of Java's nameserver. They have no effect here; code 319 shows them, and no request may change them.
pub const JAVA_PATHS: [&str; 3] = ["configStorePath", "kvConfigPath", "rocketmqHome"];
/// The key of the list of further keys that no request may change.
const BLACK_LIST_KEY: &str = "configBlackList";
/// The keys of the list that code 319 shows by default, as Java does.
const BLACK_LIST_DEFAULT: [&str; 3] = [BLACK_LIST_KEY, "configStorePath", "kvConfigPath"];

/// Keys that a remark names at most, and the length of each.
const REMARK_KEYS_MAX: usize = 10;
const REMARK_KEY_CHARS_MAX: usize = 64;

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
/// out with a warning; apply ignores unknown keys and bad values. As in Java that is success; a remark names the keys
/// without effect.
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
    let ignored = ignored(&of_node, &properties);
    if properties.is_empty() {
        return Plan::Reply(ignored.map_or_else(Reply::success, |remark| Reply::refused(SUCCESS, remark)));
    }
    let shape = ignored.map_or(ReplyShape::Plain, ReplyShape::Remark);
    Plan::Propose(Change::UpdateSettings(UpdateSettings { properties }), shape)
}

/// The key, as a terminal may show it.
fn shown(key: &str) -> String {
    let key: String = key.chars().take(REMARK_KEY_CHARS_MAX).collect();
    printable(&key, Keep::Nothing).into_owned()
}

/// Names the properties of a request that have no effect, if there are any.
fn ignored(of_node: &[(Name, Name)], others: &[(Name, Name)]) -> Option<String> {
    let unknown = others.iter().filter(|(key, _)| Settings::kind(key) == SettingKind::Unknown);
    let names = |keys: &mut dyn Iterator<Item = &(Name, Name)>, why: &str| {
        let (first, left): (Vec<_>, Vec<_>) =
            keys.enumerate().partition(|(number, _)| *number < REMARK_KEYS_MAX);
        let mut names: Vec<String> = first.iter().map(|(_, (key, _))| shown(key)).collect();
        if !left.is_empty() {
            names.push(format!("{} more", left.len()));
        }
        (!names.is_empty()).then(|| format!("{} ({why})", names.join(", ")))
    };
    let of_node = names(&mut of_node.iter(), "set on the node itself: its flags, environment or file");
    let unknown = names(&mut unknown.into_iter(), "no such setting");
    let all: Vec<String> = of_node.into_iter().chain(unknown).collect();
    (!all.is_empty()).then(|| format!("not changed: {}", all.join("; ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn update_of(keys: &[&str]) -> Plan<'static> {
        let properties = keys.iter().map(|key| (Name::from(*key), Name::from("1"))).collect();
        update(properties, &NodeSettings::default())
    }

    #[test]
    fn what_is_not_changed_is_named_and_the_rest_goes_without_a_remark() {
        let Plan::Propose(_, shape) = update_of(&["orderMessageEnable", "clusterTest"]) else { panic!() };
        assert_eq!(shape, ReplyShape::Plain);
        let Plan::Propose(_, ReplyShape::Remark(remark)) =
            update_of(&["orderMessageEnable", "noSuchKey", "listenPort"])
        else {
            panic!()
        };
        let expected = "not changed: listenPort (set on the node itself: its flags, environment or file); \
                        noSuchKey (no such setting)";
        assert_eq!(remark, expected);
        let Plan::Reply(reply) = update_of(&["listenPort"]) else { panic!() };
        assert_eq!((reply.code, reply.remark.is_some()), (SUCCESS, true));
        let Plan::Reply(reply) = update_of(&[]) else { panic!() };
        assert_eq!(reply, Reply::success());
    }

    #[test]
    fn a_remark_does_not_grow_with_the_request() {
        let keys: Vec<String> = (0..5_000).map(|n| format!("{n}{}", "k".repeat(500))).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let Plan::Propose(_, ReplyShape::Remark(remark)) = update_of(&keys) else { panic!() };
        assert!(remark.len() < 1_000 && remark.ends_with("4990 more (no such setting)"), "{remark}");
    }
}
