//! Warns when a node's settings file disagrees with the replicated settings. The file counts only while the cluster
//! bootstraps; later the cluster's values hold.

use crate::service::{Ready, Service};
use std::sync::Arc;
use storage::Command;
use storage::command::{Change, Name};

/// Waits until this node is ready, and then logs one warning per setting whose value in the file differs from the
/// cluster's. A node of a new cluster is ready only after it has applied the bootstrap commands, so it warns of
/// nothing.
pub(super) async fn warn_once(node: raft::Node, service: Arc<Service>, bootstrap: Vec<Command>) {
    if service.ready().wait_for(|ready| *ready == Ready::Yes).await.is_err() {
        return;
    }
    for (name, replicated, in_file) in differences(&node.table(), &bootstrap) {
        tracing::warn!(
            "{name}={in_file} in the settings file does not count: the cluster has {replicated}; \
             `raft-namesrv settings set {name} {in_file}` changes it for all nodes"
        );
    }
}

/// The settings that differ: name, the cluster's value, the file's value.
fn differences(table: &storage::RouteInfo, bootstrap: &[Command]) -> Vec<(Name, Name, Name)> {
    let updates = bootstrap.iter().filter_map(|command| match &command.change {
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
    fn only_settings_that_differ_from_the_cluster_are_listed() {
        let mut table = RouteInfo::default();
        table.apply_entry(LogId { term: 1, index: 1 }, &[settings(&[("enableTopicList", "false")])]);
        let file =
            [settings(&[("enableTopicList", "true"), ("orderMessageEnable", "FALSE"), ("noSuchKey", "1")])];
        let found = differences(&table, &file);
        assert_eq!(found, [(Name::from("enableTopicList"), Name::from("false"), Name::from("true"))]);
    }
}
