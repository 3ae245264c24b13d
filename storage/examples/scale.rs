//! What large tables cost: time of registrations, of the edge's check, of a mass removal, of hash and snapshot,
//! and resident memory. `cargo run --release -p storage --example scale`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::command::{
    Basis, Cause, DataVersion, Name, Origin, QueueConfig, Registration, Removal, RemoveBrokers, TopicConfig,
};
use storage::route_info::{BrokerKey, Loader};
use storage::{Change, Command, LogId, RouteInfo, format};

fn main() {
    run("60,000 topics x 8 brokers", 60_000, 8, 4);
    run("10,000 topics x 300 brokers", 10_000, 300, 150);
}

fn run(title: &str, topics: usize, brokers: usize, leaving: usize) {
    println!("{title}");
    let before = resident_mib();
    let mut table = RouteInfo::default();
    let mut slowest = Duration::ZERO;
    let started = cpu_time();
    for broker in 0..brokers {
        // Through bytes, as from the log: no name is shared with another registration.
        let bytes = format::encode("entry", &vec![command(registration(broker, topics, 1))]).unwrap();
        let entry: Vec<Command> = format::decode("entry", &bytes).unwrap();
        let shared = table.clone();
        let applying = cpu_time();
        table.apply_entry(LogId { term: 1, index: broker as u64 + 1 }, &entry);
        slowest = slowest.max(cpu_time() - applying);
        drop(shared);
    }
    println!("  all registered in CPU {:?}, slowest apply {slowest:?}", cpu_time() - started);
    println!("  resident memory {} MiB more than before", resident_mib() - before);

    let whole = registration(brokers / 2, topics, 1);
    time("check of an unchanged registration", || table.check_registration(&whole));
    let mut changed = registration(brokers / 2, topics, 2);
    changed.topics[topics / 2].queues.write += 1;
    time("check with one changed topic", || table.check_registration(&changed));

    time("state hash", || table.state_hash());
    let chunks: Vec<Vec<u8>> = time("snapshot", || table.chunks().map(Result::unwrap).collect());
    let packed: usize = chunks.iter().map(Vec::len).sum();
    println!("  snapshot of {} chunks, {} KiB", chunks.len(), packed >> 10);
    let loaded = time("load", || {
        let mut loader = Loader::new();
        chunks.iter().for_each(|chunk| loader.chunk(chunk).unwrap());
        loader.finish().unwrap()
    });
    drop(loaded);

    let removal = removals(&table, leaving);
    let shared = table.clone();
    let applied = time(&format!("removal of {leaving} brokers in one entry"), || {
        table.apply_entry(LogId { term: 1, index: 1_000 }, &[removal])
    });
    println!("  {:?}, {} events", applied.outcomes, applied.events.len());
    time("drop of the table of before", || drop(shared));
    println!("  resident memory {} MiB", resident_mib());
}

fn time<T>(what: &str, of: impl FnOnce() -> T) -> T {
    let (started, cpu) = (Instant::now(), cpu_time());
    let value = of();
    println!("  {what}: {:?}, CPU {:?}", started.elapsed(), cpu_time() - cpu);
    value
}

/// CPU time of this process: on a busy machine the better measure.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn registration(broker: usize, topics: usize, counter: i64) -> Registration {
    let queues = QueueConfig { read: 8, write: 8, perm: 6, sys_flag: 0 };
    let topic = |n: usize| TopicConfig { topic: format!("topic-of-a-usual-length-{n:06}").into(), queues };
    Registration {
        cluster: "DefaultCluster".into(),
        broker: broker_name(broker),
        id: 0,
        address: address(broker),
        ha_address: Some(format!("10.1.{}.{}:10912", broker / 250, broker % 250).into()),
        zone: None,
        acting_master: Some(false),
        heartbeat_timeout_ms: None,
        data_version: DataVersion { state_version: 0, timestamp: 1_700_000_000_000, counter },
        filter_servers: Some(vec![]),
        topics: (0..topics).map(topic).collect(),
        basis: Basis::Whole,
        static_infos: vec![],
    }
}

fn broker_name(broker: usize) -> Name {
    format!("broker-{broker:03}").into()
}

fn address(broker: usize) -> Name {
    format!("10.1.{}.{}:10911", broker / 250, broker % 250).into()
}

fn removals(table: &RouteInfo, count: usize) -> Command {
    let removal = |n: usize| {
        let key = BrokerKey { cluster: "DefaultCluster".into(), address: address(n) };
        Removal {
            cluster: key.cluster.clone(),
            broker: broker_name(n),
            address: key.address.clone(),
            incarnation: Some(table.live(&key).unwrap().incarnation),
            cause: Cause::Disconnected,
        }
    };
    // Every other one, so that no list is cut in one piece.
    let brokers = (0..count).map(|n| removal(n * 2)).collect();
    let change = Change::RemoveBrokers(RemoveBrokers { brokers, decided_in_term: Some(1) });
    Command { origin: Origin::default(), change }
}

fn command(registration: Registration) -> Command {
    let origin = Origin { node: 1, peer: Arc::from("10.1.0.1:41234"), unix_ms: 1_700_000_000_000 };
    Command { origin, change: Change::RegisterBroker(Box::new(registration)) }
}

fn resident_mib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<i64>().ok());
    kib.unwrap_or(0) >> 10
}
