//! Recordings of a Java nameserver, replayed against this one: each request as it was sent, each answer compared.
//!
//! `tests/recordings/json` was recorded from a server with default settings (5.3.3, with variants of 5.5.0 where these
//! differ), `tests/recordings/rocketmq` from one that writes binary headers, `tests/recordings/captures` holds frames of
//! real brokers, clients and tools. Where this project answers otherwise on purpose, the step says so (`ours`).

mod codec;
mod compare;
mod data;
mod frame;
mod replay;
mod servers;

use servers::{On, Servers};

/// Replays one recording on servers of its own.
async fn play(folder: &str, name: &str, on: On) {
    let recording = data::load(folder, name);
    let _alone = servers::alone(&recording).await;
    let servers = Servers::start(folder, on).await;
    let differences = replay::replay(&recording, &servers.addresses).await;
    servers.stop().await;
    assert!(differences.is_empty(), "{folder}/{name} differs:\n  {}", differences.join("\n  "));
}

/// One test per recording and kind of servers.
macro_rules! replays {
    ($folder:ident: $($name:ident,)*) => {
        mod $folder {
            replays!(@on one_node, OneNode, $folder: $($name,)*);
            replays!(@on follower, Follower, $folder: $($name,)*);
            replays!(@on spread, Spread, $folder: $($name,)*);

            #[test]
            fn every_recording_is_listed() {
                assert_eq!(super::data::names(stringify!($folder)), [$(stringify!($name)),*]);
            }
        }
    };
    (@on $module:ident, $on:ident, $folder:ident: $($name:ident,)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::super::play(stringify!($folder), stringify!($name), super::super::On::$on).await;
                }
            )*
        }
    };
}

replays! {
    json:
    acting_master_route,
    bad_frames,
    binary_header_variants,
    broker_addr_changed,
    broker_id_changed,
    broker_member_group,
    channel_close_after_reconnect,
    channel_close_json,
    channel_close_master_keeps_slave,
    channel_close_rocketmq,
    cluster_info,
    config_bad_text,
    config_black_list,
    config_get,
    config_update,
    delete_topic,
    delete_topic_cluster,
    filter_servers,
    heartbeat_expiry,
    heartbeat_keeps_alive,
    json_header_variants,
    kv_basic_json,
    kv_basic_rocketmq,
    kv_long_value,
    kv_missing_fields,
    kv_unicode_and_escapes,
    many_topics,
    mixed_serialization,
    name_server_not_ready,
    notify_min_broker_id,
    oneway,
    order_topic_conf,
    pipelined_and_split,
    prime_slave_acting_master,
    prime_slave_registers_topics,
    proxy_protocol,
    query_data_version_bad,
    query_data_version_json,
    query_data_version_rocketmq,
    register_and_route_json,
    register_and_route_rocketmq,
    register_compressed,
    register_compressed_bad,
    register_crc,
    register_data_versions,
    register_delete_topics,
    register_empty_body,
    register_malformed_json,
    register_missing_addr,
    register_missing_broker_id,
    register_missing_names,
    register_old_version_body,
    register_same_data_version,
    register_single_topic,
    register_slave_json,
    register_slave_rocketmq,
    register_topic,
    response_frames_ignored,
    route_client_languages,
    route_client_versions,
    route_multi_broker,
    route_unicode_names,
    route_unknown_and_missing_topic,
    static_topic,
    system_topic_list,
    topic_lists,
    topic_lists_disabled,
    topic_names,
    unit_topic_lists,
    unregister_wrong_fields,
    unsupported_codes,
    write_perm,
    zone_filter,
}

replays! {
    rocketmq:
    acting_master_route,
    binary_header_variants,
    broker_member_group,
    cluster_info,
    config_black_list,
    json_header_variants,
    kv_basic_json,
    kv_basic_rocketmq,
    kv_missing_fields,
    kv_unicode_and_escapes,
    mixed_serialization,
    notify_min_broker_id,
    oneway,
    pipelined_and_split,
    query_data_version_bad,
    query_data_version_json,
    query_data_version_rocketmq,
    register_and_route_json,
    register_and_route_rocketmq,
    register_crc,
    register_single_topic,
    register_slave_json,
    register_slave_rocketmq,
    response_frames_ignored,
    route_client_versions,
    route_unicode_names,
    route_unknown_and_missing_topic,
    topic_lists,
    topic_lists_disabled,
    unit_topic_lists,
    unsupported_codes,
    write_perm,
    zone_filter,
}
