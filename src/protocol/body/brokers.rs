//! Broker names with their addresses.

use super::writer::Writer;
use crate::protocol::JsonStyle;
use bytes::Bytes;
use storage::RouteInfo;
use storage::command::Name;
use storage::route_info::BrokerData;

/// GET_BROKER_CLUSTER_INFO.
#[must_use]
pub fn cluster_info(table: &RouteInfo) -> Bytes {
    let mut writer = Writer::new(JsonStyle::Old, 64 + 160 * table.groups().len());
    writer.object(|w| {
        w.key("brokerAddrTable").object(|w| {
            for (broker, group) in table.groups() {
                w.text_key(broker);
                broker_data(w, broker, group, &group.brokers);
            }
        });
        w.key("clusterAddrTable").object(|w| {
            for (cluster, brokers) in table.clusters() {
                w.text_key(cluster).list(brokers, |w, broker| w.text(broker));
            }
        });
    });
    writer.finish()
}

/// GET_BROKER_MEMBER_GROUP: registered ids and addresses, none for an unknown name; the cluster is only echoed.
#[must_use]
pub fn member_group(table: &RouteInfo, cluster: Option<&str>, broker: Option<&str>) -> Bytes {
    let group = broker.and_then(|broker| table.group(broker));
    let mut writer = Writer::new(JsonStyle::Old, 256);
    writer.object(|w| {
        w.key("brokerMemberGroup").object(|w| {
            addresses(w, group.map_or(&[], |group| &group.brokers));
            if let Some(broker) = broker {
                w.key("brokerName").text(broker);
            }
            if let Some(cluster) = cluster {
                w.key("cluster").text(cluster);
            }
        });
    });
    writer.finish()
}

/// A broker name in routes and in the cluster info; `brokers` are the ids and addresses to write.
pub(super) fn broker_data(w: &mut Writer, broker: &str, group: &BrokerData, brokers: &[(i64, Name)]) {
    w.object(|w| {
        addresses(w, brokers);
        w.key("brokerName").text(broker);
        w.key("cluster").text(&group.cluster);
        w.key("enableActingMaster").boolean(group.acting_master);
        if let Some(zone) = &group.zone {
            w.key("zoneName").text(zone);
        }
    });
}

fn addresses(w: &mut Writer, brokers: &[(i64, Name)]) {
    w.key("brokerAddrs").object(|w| {
        for (id, address) in brokers {
            w.int_key(*id).text(address);
        }
    });
}
