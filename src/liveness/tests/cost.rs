//! What a thousand brokers cost.

use super::super::core::{Core, Leader};
use super::super::report::{Message, Reply};
use super::super::stream::REPORT_EVERY;
use super::super::{Heard, LivenessOptions, SessionId};
use super::world::{NODES, World};
use std::time::Duration;
use storage::Position;
use storage::command::DataVersion;
use storage::route_info::{BrokerKey, BrokerLiveInfo};
use tokio::time::Instant;

const BROKERS: usize = 1_000;
/// What gathers between two reports when each broker speaks once a second.
const BATCH: usize = 200;

#[test]
fn a_thousand_brokers_with_a_heartbeat_a_second_write_nothing() {
    let mut world = World::new(3, true);
    world.run(Duration::from_secs(2));
    let brokers: Vec<_> = (0..BROKERS).map(|_| world.broker(120_000, &NODES)).collect();
    brokers.iter().for_each(|broker| world.registers_everywhere(*broker));
    world.run(Duration::from_secs(2));
    let (entries, bytes) = (world.log.len(), world.bytes_sent);
    for _ in 0..3 {
        brokers.iter().for_each(|broker| world.beats_everywhere(*broker));
        world.run(Duration::from_secs(1));
    }
    assert_eq!((world.log.len(), world.proposals), (entries, 0));
    assert!(world.removed.is_empty());
    let per_heartbeat = (world.bytes_sent - bytes) / (3 * BROKERS * NODES.len());
    assert!(per_heartbeat < 100, "{per_heartbeat} bytes of reports for a heartbeat at one node");
}

/// All the work of a heartbeat that one node hears: its own ledger, the report to the leader in batches of 200, both
/// encodings, the leader's ledger and word, its answer. The figure is printed (`--nocapture`), not asserted: machines
/// differ.
#[test]
fn the_work_of_a_heartbeat() {
    let start = Instant::now();
    let keys: Vec<_> = (0..BROKERS)
        .map(|n| BrokerKey {
            cluster: "DefaultCluster".into(),
            address: format!("10.0.{}.{}:10911", n / 256, n % 256).into(),
        })
        .collect();
    let live = BrokerLiveInfo {
        broker: "broker-a".into(),
        id: 0,
        data_version: DataVersion::default(),
        timeout_ms: 120_000,
        ha_address: None,
        incarnation: Position { index: 7, number: 0 },
    };
    let mut cores = [1, 2].map(|node| {
        let mut core = Core::new(&LivenessOptions::new(node), node, start);
        core.members(start, &[(1, true), (2, true)]);
        core.follow_all(start, keys.iter().map(|key| (key, &live)));
        core
    });
    let incarnation = |_: &BrokerKey| Some(live.incarnation);
    let leader = Leader { term: 1, applied: 9, incarnation: &incarnation };
    let (mut now, mut reports) = (start, 0);
    let rounds = 20;
    let began = Instant::now();
    for _ in 0..rounds {
        for (number, batch) in (0u64..).zip(keys.chunks(BATCH)) {
            now += REPORT_EVERY;
            for (session, key) in (number * BATCH as u64..).zip(batch) {
                cores[1].heard(now, SessionId(session), key, Heard::Heartbeat, None);
            }
            let report = cores[1].poll(now, 1).unwrap();
            reports += 1;
            let Message::Report(report) =
                Message::decode(&Message::Report(report).encode().unwrap()).unwrap()
            else {
                panic!("not a report")
            };
            let answer = Reply::Report(cores[0].receive(now, 2, report, Some(&leader))).encode();
            let Reply::Report(answer) = Reply::decode(&answer).unwrap() else { panic!("not an answer") };
            cores[1].answered(now, 1, answer);
            cores[0].tick(now, Some(&leader));
            assert!(cores[0].decide(now, &leader).removal.is_none());
        }
    }
    let spent = began.elapsed();
    assert_eq!(reports, rounds * BROKERS / BATCH);
    println!("{:.2} µs per heartbeat", spent.as_secs_f64() * 1e6 / (rounds * BROKERS) as f64);
}
