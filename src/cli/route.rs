//! `route`: where a topic lives. The command asks each address and compares the answers.

use super::client::Client;
use super::{Failure, output, output::Format, target::Target};
use crate::wire::codes::{request, result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Flags of `route`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the topic
    topic: String,
    /// Answer only with all that was acknowledged before: each node asks the leader first (nodes of raft-namesrv only)
    #[arg(long)]
    linearizable: bool,
    #[command(flatten)]
    target: Target,
}

/// One nameserver's answer.
struct Answer {
    address: String,
    /// The route, or why there is none.
    route: Result<Value, Failure>,
    revision: Option<String>,
}

/// Asks each address and compares the answers.
///
/// # Errors
/// An address gives no answer, there is no such topic, or the answers differ.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let mut answers = Vec::new();
    for address in args.target.addresses() {
        answers.push(ask(address, &args.topic, args.linearizable, args.target.timeout()).await);
    }
    match args.target.format() {
        Format::Json => output::json(&as_json(&answers))?,
        Format::Text => print(&args.topic, &answers)?,
    }
    check(&args.topic, &answers)
}

async fn ask(address: &str, topic: &str, linearizable: bool, timeout: Duration) -> Answer {
    let answer = fetch(address, topic, linearizable, timeout).await;
    let (route, revision) = match answer {
        Ok((route, revision)) => (Ok(route), revision),
        Err(failure) => (Err(failure), None),
    };
    Answer { address: address.to_owned(), route, revision }
}

async fn fetch(
    address: &str,
    topic: &str,
    linearizable: bool,
    timeout: Duration,
) -> Result<(Value, Option<String>), Failure> {
    let mut client = Client::connect(address, timeout).await?;
    let mode = if linearizable { "linearizable" } else { "local" };
    let command = client
        .request(request::GET_ROUTEINFO_BY_TOPIC)
        .with("topic", topic)
        .with("acceptStandardJsonOnly", "true")
        .with("__READ_MODE", mode);
    let answer = client.call(&command).await?;
    if answer.code != result::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        let first = remark.lines().next().unwrap_or_default();
        return Err(Failure::refused(format!("code {}: {first}", answer.code)));
    }
    let revision = answer.field("__REVISION").map(str::to_owned);
    let route = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::refused(format!("{address}: the route is no JSON: {e}")))?;
    Ok((route, revision))
}

fn as_json(answers: &[Answer]) -> Value {
    let one = |a: &Answer| match &a.route {
        Ok(route) => json!({ "address": a.address, "revision": a.revision, "route": route }),
        Err(error) => json!({ "address": a.address, "error": error.message }),
    };
    answers.iter().map(one).collect()
}

fn print(topic: &str, answers: &[Answer]) -> Result<(), Failure> {
    for (number, answer) in answers.iter().enumerate() {
        let at = answer.revision.as_ref().map_or_else(String::new, |r| format!(" (revision {r})"));
        match &answer.route {
            Err(failure) => output::line(&format!("{}: {}", answer.address, failure.message))?,
            Ok(route) => {
                let earlier = answers.iter().take(number);
                let equal = earlier.into_iter().find(|a| a.route.as_ref().is_ok_and(|r| same(r, route)));
                if let Some(equal) = equal {
                    output::line(&format!("{}{at}: the same as {}", answer.address, equal.address))?;
                } else {
                    output::line(&format!("{topic} at {}{at}", answer.address))?;
                    output::table(["BROKER", "CLUSTER", "READ", "WRITE", "PERM", "ADDRESSES"], rows(route))?;
                }
            }
        }
    }
    Ok(())
}

fn rows(route: &Value) -> Vec<[String; 6]> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let brokers: BTreeMap<String, &Value> =
        items(route, "brokerDatas").map(|b| (text(&b["brokerName"]), b)).collect();
    let row = |queue: &Value| {
        let name = text(&queue["brokerName"]);
        let broker = brokers.get(&name).copied().unwrap_or(&Value::Null);
        let addresses = broker["brokerAddrs"].as_object().into_iter().flatten();
        let addresses: Vec<String> =
            addresses.map(|(id, address)| format!("{id}={}", text(address))).collect();
        let perm = match queue["perm"].as_i64().unwrap_or(0) & 6 {
            6 => "read+write".to_owned(),
            4 => "read".to_owned(),
            2 => "write".to_owned(),
            _ => "none".to_owned(),
        };
        let [read, write] = ["readQueueNums", "writeQueueNums"].map(|key| text(&queue[key]));
        [name, text(&broker["cluster"]), read, write, perm, addresses.join(" ")]
    };
    items(route, "queueDatas").map(row).collect()
}

fn items<'a>(route: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    route[key].as_array().into_iter().flatten()
}

/// Whether two routes have the same content: Java's lists come in any order.
fn same(a: &Value, b: &Value) -> bool {
    sorted(a) == sorted(b)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> = fields.iter().map(|(k, v)| (k, sorted(v))).collect();
            fields.into_iter().map(|(k, v)| (k.clone(), v)).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn check(topic: &str, answers: &[Answer]) -> Result<(), Failure> {
    let failed: Vec<&str> = answers.iter().filter(|a| a.route.is_err()).map(|a| a.address.as_str()).collect();
    if !failed.is_empty() {
        let advice = answers.iter().find_map(|a| a.route.as_ref().err()?.advice);
        return Err(Failure::refused(format!("no route of {topic} from {}", failed.join(", "))).with(advice));
    }
    let mut routes = answers.iter().filter_map(|a| a.route.as_ref().ok());
    let Some(first) = routes.next() else { return Ok(()) };
    if routes.all(|route| same(first, route)) {
        return Ok(());
    }
    Err(Failure::refused(format!("the answers about {topic} differ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_lists_and_keys_does_not_matter_but_content_does() {
        let a = json!({"queueDatas": [{"brokerName": "a", "perm": 6}, {"brokerName": "b", "perm": 4}]});
        let b = json!({"queueDatas": [{"perm": 4, "brokerName": "b"}, {"perm": 6, "brokerName": "a"}]});
        let c = json!({"queueDatas": [{"brokerName": "a", "perm": 4}, {"brokerName": "b", "perm": 4}]});
        assert!(same(&a, &b));
        assert!(!same(&a, &c));
    }

    #[test]
    fn a_row_names_queues_permission_and_addresses() {
        let route = json!({
            "brokerDatas": [{"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": "h:1", "1": "h:2"}}],
            "queueDatas": [{"brokerName": "b", "perm": 4, "readQueueNums": 8, "writeQueueNums": 7}],
        });
        assert_eq!(rows(&route), [["b", "c", "8", "7", "read", "0=h:1 1=h:2"].map(str::to_owned)]);
    }
}
