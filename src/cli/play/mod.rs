//! `play`: pretend brokers and clients, so that demonstrations and chaos scripts need no Java.
//!
//! Each broker keeps a connection to every nameserver, as a real one does. All carry the topics
//! `play-topic-0` … ; the read queues of `play-topic-0` count a broker's changes, so that at the end each nameserver
//! can be asked whether it has every change that was acknowledged.

mod broker;
mod lookups;

use super::client::Client;
use super::{Failure, output, output::Format, target::Target};
use crate::wire::codes::{request, result};
use broker::{Broker, CLUSTER};
use indicatif::ProgressBar;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use storage::runtime::{Runtime, SystemRuntime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a broker stays away after it dropped its connections.
const AWAY: Duration = Duration::from_secs(3);

/// Flags of `play`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many brokers, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    brokers: u16,
    /// Number of the first broker, up to 20000: several runs share no broker when their numbers differ
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=20_000))]
    first: u16,
    /// How many topics each broker has, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    topics: u32,
    /// Time between two registrations of a broker, seconds
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    period: u64,
    /// Idle time after which a nameserver removes a broker, milliseconds [default: that of the nameserver, 120000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    broker_timeout_ms: Option<u32>,
    /// Every so many milliseconds one broker changes a topic and registers at once [default: never]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    change_every_ms: Option<u64>,
    /// Every so many seconds one broker drops its connections, and comes back 3 s later [default: never]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    die_every: Option<u64>,
    /// How many clients look topics up at each nameserver
    #[arg(long, value_name = "N", default_value_t = 0)]
    lookups: u16,
    /// Stop after so many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// At the end ask each nameserver, by linearizable reads, for every acknowledged change; a missing one is a failure
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    target: Target,
}

/// What happened, counted by all tasks.
#[derive(Debug, Default)]
struct Counters {
    registrations: AtomicU64,
    failed_registrations: AtomicU64,
    lookups: AtomicU64,
    failed_lookups: AtomicU64,
    slowest_lookup_us: AtomicU64,
}

/// What the command prints at the end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    registrations: u64,
    failed_registrations: u64,
    lookups: u64,
    failed_lookups: u64,
    slowest_lookup_ms: u64,
    missing: Vec<String>,
}

/// Everything that the tasks share.
struct Shared {
    topics: u32,
    period: Duration,
    broker_timeout_ms: Option<u32>,
    counters: Counters,
    stop: watch::Receiver<bool>,
    timeout: Duration,
    /// Whether a topic may be unknown for a while.
    brokers_die: bool,
}

/// Plays until the time is over or a signal comes; then checks (if asked), leaves and sums up.
///
/// # Errors
/// A look-up failed at a nameserver that was up, or an acknowledged change is missing.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (stop_sender, stop) = watch::channel(false);
    let shared = Arc::new(Shared {
        topics: args.topics,
        period: Duration::from_secs(args.period),
        broker_timeout_ms: args.broker_timeout_ms,
        counters: Counters::default(),
        stop,
        timeout: args.target.timeout(),
        brokers_die: args.die_every.is_some(),
    });
    let brokers: Vec<Arc<Broker>> =
        (args.first..args.first + args.brokers).map(|number| Arc::new(Broker::new(number))).collect();
    let mut tasks = JoinSet::new();
    for address in args.target.addresses() {
        for broker in &brokers {
            tasks.spawn(broker::keep_registered(broker.clone(), address.clone(), shared.clone()));
        }
        for _ in 0..args.lookups {
            tasks.spawn(lookups::keep_looking(address.clone(), shared.clone()));
        }
    }
    direct(&args, &shared, &brokers).await;
    let missing = if args.check { missing_changes(&args.target, &brokers).await } else { Vec::new() };
    stop_sender.send_replace(true);
    while tasks.join_next().await.is_some() {}
    sum_up(&args.target, &shared.counters, missing)
}

/// Lets brokers change and die, until it is time to stop.
async fn direct(args: &Args, shared: &Shared, brokers: &[Arc<Broker>]) {
    let far = Duration::from_secs(86_400 * 365);
    let change = args.change_every_ms.map_or(far, Duration::from_millis);
    let die = args.die_every.map_or(far, Duration::from_secs);
    let start = Instant::now();
    let end = start + args.seconds.map_or(far, Duration::from_secs);
    let (mut next_change, mut next_death) = (start + change, start + die);
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(250));
    let stop = super::stop_signal();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = sleep_until(end) => break,
            () = sleep_until(next_change) => {
                next_change += change;
                any(brokers).change();
            }
            () = sleep_until(next_death) => {
                next_death += die;
                let broker = any(brokers).clone();
                broker.set_alive(false);
                tokio::spawn(async move {
                    sleep(AWAY).await;
                    broker.set_alive(true);
                });
            }
        }
        let counters = &shared.counters;
        spinner.set_message(format!(
            "{} registrations ({} failed), {} look-ups ({} failed)",
            counters.registrations.load(Relaxed),
            counters.failed_registrations.load(Relaxed),
            counters.lookups.load(Relaxed),
            counters.failed_lookups.load(Relaxed),
        ));
    }
    spinner.finish_and_clear();
}

fn any(brokers: &[Arc<Broker>]) -> &Arc<Broker> {
    // The range of the argument allows no empty list.
    let count = u64::try_from(brokers.len()).unwrap_or(1).max(1);
    let number = usize::try_from(SystemRuntime.random_u64() % count).unwrap_or(0);
    &brokers[number]
}

/// Asks every nameserver for `play-topic-0` and compares its queues with what was acknowledged.
async fn missing_changes(target: &Target, brokers: &[Arc<Broker>]) -> Vec<String> {
    let mut missing = Vec::new();
    for address in target.addresses() {
        // Noted before the read: the read must show what is acknowledged by now.
        let acknowledged: Vec<_> = brokers.iter().filter_map(|b| Some((b, b.acknowledged()?))).collect();
        let route = match counted_route(address, target.timeout()).await {
            Ok(route) => route,
            Err(failure) => {
                missing.push(format!("{address}: {}", failure.message));
                continue;
            }
        };
        for (broker, wanted) in acknowledged {
            let found = route.iter().find(|(name, _)| *name == broker.name).map(|(_, queues)| *queues);
            // A broker that died meanwhile may be gone.
            if found.is_none_or(|queues| queues < wanted) && broker.acknowledged().is_some() {
                missing.push(format!(
                    "{address}: {} has change {found:?}, {wanted} was acknowledged",
                    broker.name
                ));
            }
        }
    }
    missing
}

async fn counted_route(address: &str, timeout: Duration) -> Result<Vec<(String, u64)>, Failure> {
    let mut client = Client::connect(address, timeout).await?;
    let command = client
        .request(request::GET_ROUTEINFO_BY_TOPIC)
        .with("topic", "play-topic-0")
        .with("acceptStandardJsonOnly", "true")
        .with("__READ_MODE", "linearizable");
    let answer = client.call(&command).await?;
    if answer.code == result::TOPIC_NOT_EXIST {
        return Ok(Vec::new());
    }
    if answer.code != result::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        return Err(Failure::refused(format!("code {}: {remark}", answer.code)));
    }
    let route: serde_json::Value = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::refused(format!("the route is no JSON: {e}")))?;
    let queues = route["queueDatas"].as_array().into_iter().flatten();
    let one = |queue: &serde_json::Value| {
        Some((queue["brokerName"].as_str()?.to_owned(), queue["readQueueNums"].as_u64()?))
    };
    Ok(queues.filter_map(one).collect())
}

fn sum_up(target: &Target, counters: &Counters, missing: Vec<String>) -> Result<(), Failure> {
    let summary = Summary {
        registrations: counters.registrations.load(Relaxed),
        failed_registrations: counters.failed_registrations.load(Relaxed),
        lookups: counters.lookups.load(Relaxed),
        failed_lookups: counters.failed_lookups.load(Relaxed),
        slowest_lookup_ms: counters.slowest_lookup_us.load(Relaxed) / 1000,
        missing,
    };
    match target.format() {
        Format::Json => output::json(&summary)?,
        Format::Text => output::line(&format!(
            "{} registrations in cluster {CLUSTER}, {} failed; {} look-ups, {} failed, slowest {} ms",
            summary.registrations,
            summary.failed_registrations,
            summary.lookups,
            summary.failed_lookups,
            summary.slowest_lookup_ms,
        ))?,
    }
    if !summary.missing.is_empty() {
        return Err(Failure::refused(format!(
            "acknowledged, but not there:\n{}",
            summary.missing.join("\n")
        )));
    }
    if summary.failed_lookups > 0 {
        let text = format!("{} look-ups failed at nameservers that were up", summary.failed_lookups);
        return Err(Failure::refused(text));
    }
    Ok(())
}
