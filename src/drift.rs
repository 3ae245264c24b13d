//! Replicated settings in a node's file: they count when the cluster is born, and only then.

use crate::service::{Ready, Service};
use std::sync::Arc;
use storage::Command;
use storage::command::{Change, Name};

/// Once this node is ready: one warning when its file asks for something else than the cluster has. A node of a new
/// cluster is ready only when the first commands are applied, so it has nothing to warn of.
pub(crate) async fn warn_once(node: raft::Node, service: Arc<Service>, birth: Vec<Command>) {
    if service.ready().wait_for(|ready| *ready == Ready::Yes).await.is_err() {
        return;
    }
    for (name, held, in_file) in differences(&node.table(), &birth) {
        tracing::warn!(
            "{name}={in_file} in the settings file does not count: the cluster has {held}; \
             `raft-namesrv settings set {name} {in_file}` changes it for all nodes"
        );
    }
}

/// Name, the cluster's text, the file's text.
fn differences(table: &storage::RouteInfo, birth: &[Command]) -> Vec<(Name, Name, Name)> {
    let updates = birth.iter().filter_map(|command| match &command.change {
        Change::UpdateSettings(update) => Some(update),
        _ => None,
    });
    updates.flat_map(|update| table.settings().updated(&update.properties).1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::command::{Origin, UpdateSettings};
    use storage::{LogId, RouteInfo};

    fn settings(pairs: &[(&str, &str)]) -> Command {
        let properties = pairs.iter().map(|(key, text)| (Name::from(*key), Name::from(*text))).collect();
        Command { origin: Origin::default(), change: Change::UpdateSettings(UpdateSettings { properties }) }
    }

    #[test]
    fn only_what_the_cluster_has_otherwise_is_told() {
        let mut table = RouteInfo::default();
        table.apply_entry(LogId { term: 1, index: 1 }, &[settings(&[("enableTopicList", "false")])]);
        let file =
            [settings(&[("enableTopicList", "true"), ("orderMessageEnable", "FALSE"), ("noSuchKey", "1")])];
        let told = differences(&table, &file);
        assert_eq!(told, [(Name::from("enableTopicList"), Name::from("false"), Name::from("true"))]);
    }
}
