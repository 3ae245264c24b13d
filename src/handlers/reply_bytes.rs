//! How large the reply to a read may be, before it is made.

use crate::protocol::Request;
use storage::RouteInfo;
use storage::limits::json_bytes_max;

/// What an id takes beside an address, or the names of fields beside a broker name.
const FIELDS_BYTES: usize = 128;

/// Whether a read goes over the whole table: on a large table it would delay the look-ups of its thread.
#[must_use]
pub fn reads_whole_table(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::ListTopics(_)
            | Request::ListClusterTopics(_)
            | Request::ListSystemTopics
            | Request::GetClusterInfo
            | Request::ListKv(_)
    )
}

/// The most that the body of the reply to such a read takes, bytes. Goes over the whole table too.
#[must_use]
pub fn reply_bytes_max(request: &Request<'_>, table: &RouteInfo) -> usize {
    match request {
        Request::ListTopics(_) | Request::ListClusterTopics(_) => {
            FIELDS_BYTES + table.topics().map(|(topic, _)| json_bytes_max(topic)).sum::<usize>()
        }
        Request::ListSystemTopics | Request::GetClusterInfo => brokers_bytes_max(table),
        Request::ListKv(Some(namespace)) => FIELDS_BYTES + table.kv_namespace_bytes(namespace),
        _ => 0,
    }
}

/// All clusters and broker names, and the addresses of the brokers.
fn brokers_bytes_max(table: &RouteInfo) -> usize {
    let clusters = table.clusters().map(|(cluster, brokers)| {
        json_bytes_max(cluster) + brokers.iter().map(|broker| json_bytes_max(broker)).sum::<usize>()
    });
    let groups = table.groups().map(|(broker, group)| {
        let addresses = group.brokers.iter().map(|(_, address)| FIELDS_BYTES + json_bytes_max(address));
        let zone = group.zone.as_ref().map_or(0, |zone| json_bytes_max(zone));
        let names = 2 * json_bytes_max(broker) + json_bytes_max(&group.cluster) + zone;
        FIELDS_BYTES + names + addresses.sum::<usize>()
    });
    FIELDS_BYTES + clusters.sum::<usize>() + groups.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::{broker, kv, topic};
    use crate::protocol::{TopicFilter, body};
    use storage::command::{Change, Origin, PutKv, Registration, TopicConfig};
    use storage::{Command, LogId};

    #[test]
    fn no_reply_is_larger_than_was_expected() {
        let mut table = RouteInfo::default();
        let mut index = 0;
        let mut apply = |change| {
            index += 1;
            table.apply_entry(LogId { term: 1, index }, &[Command { origin: Origin::default(), change }]);
        };
        for name in ["b", "\u{1}\u{2}\"quoted/", "\u{1F980}"] {
            let mut master =
                Registration::of_master("c\u{7f}".into(), name.into(), format!("{name}:1").into());
            let queues = storage::command::QueueConfig { read: 1, write: 1, perm: 6, sys_flag: 0 };
            master.topics =
                ["", "0"].map(|n| TopicConfig { topic: format!("{n}{name}").into(), queues }).into();
            master.zone = Some(name.into());
            apply(Change::RegisterBroker(Box::new(master)));
            apply(Change::PutKv(PutKv { namespace: "n".into(), key: name.into(), value: Some(name.into()) }));
        }
        let clusters = broker::cluster_info(&table);
        for (request, reply) in [
            (Request::ListTopics(TopicFilter::All), topic::list(TopicFilter::All, &table)),
            (Request::ListClusterTopics(Some("c\u{7f}")), topic::list_of_cluster(Some("c\u{7f}"), &table)),
            (Request::ListSystemTopics, topic::list_system(&table)),
            (Request::GetClusterInfo, clusters),
            (Request::ListKv(Some("n")), kv::list(Some("n"), &table)),
        ] {
            assert!(reads_whole_table(&request) && reply.body.len() > body::topic_list([], None).len());
            let max = reply_bytes_max(&request, &table);
            assert!(reply.body.len() <= max, "{request:?}: {} of {max}", reply.body.len());
        }
    }
}
