//! A pretend client: it looks topics up at one nameserver and counts the look-ups that fail while that is up.

use super::Shared;
use crate::cli::client::Client;
use crate::wire::codes::{request, result};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use storage::runtime::{Runtime, SystemRuntime};
use tokio::time::{Instant, sleep};

/// Time between two look-ups of one client.
const PAUSE: Duration = Duration::from_millis(5);
/// Time before a connection is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// How a look-up ended.
enum LookupResult {
    Answered,
    /// The topic is unknown.
    Unknown,
    /// Another code than success, or no answer in time on a connection that stands.
    Failed,
    /// The connection is gone: the nameserver ended or was killed.
    Gone,
}

/// Looks up until the play stops.
///
/// A nameserver that has answered on a connection counts as up as long as that connection stands: an error or no answer
/// in time is then a failed look-up. A broken connection is none, and neither is "not ready" on a new one.
pub(super) async fn keep_looking(address: String, shared: Arc<Shared>) {
    while !*shared.stop.borrow() {
        if let Ok(client) = Client::connect(&address, shared.timeout).await {
            look_while_connected(client, &shared).await;
        }
        sleep(RETRY).await;
    }
}

async fn look_while_connected(mut client: Client, shared: &Shared) {
    let counters = &shared.counters;
    let mut has_answered = false;
    while !*shared.stop.borrow() {
        let start = Instant::now();
        let result = look_up(&mut client, shared).await;
        match result {
            LookupResult::Answered => {
                has_answered = true;
                let us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                counters.slowest_lookup_us.fetch_max(us, Relaxed);
                counters.lookups.fetch_add(1, Relaxed);
            }
            LookupResult::Unknown if shared.brokers_die => {}
            LookupResult::Unknown | LookupResult::Failed if has_answered => {
                counters.lookups.fetch_add(1, Relaxed);
                counters.failed_lookups.fetch_add(1, Relaxed);
            }
            LookupResult::Unknown | LookupResult::Failed => {}
            LookupResult::Gone => return,
        }
        sleep(PAUSE).await;
    }
}

async fn look_up(client: &mut Client, shared: &Shared) -> LookupResult {
    let number = SystemRuntime.random_u64() % u64::from(shared.topics).max(1);
    let topic = format!("play-topic-{number}");
    let command = client.request(request::GET_ROUTEINFO_BY_TOPIC).with("topic", &topic);
    let start = Instant::now();
    match client.call(&command).await {
        Ok(answer) if answer.code == result::SUCCESS => LookupResult::Answered,
        Ok(answer) if answer.code == result::TOPIC_NOT_EXIST => LookupResult::Unknown,
        Ok(_) => LookupResult::Failed,
        Err(_) if start.elapsed() >= shared.timeout => LookupResult::Failed,
        Err(_) => LookupResult::Gone,
    }
}
