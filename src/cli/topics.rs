//! `topics`: the names of all topics, or those of one cluster.

use super::client::Client;
use super::{Failure, output, output::Format, target::Target};
use crate::wire::codes::request;
use serde::Deserialize;

/// Flags of `topics`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only topics with a broker of this RocketMQ cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Deserialize)]
struct TopicList {
    #[serde(rename = "topicList", default)]
    topics: Vec<String>,
}

/// Asks each address and compares the answers.
///
/// # Errors
/// An address gives no answer or does not allow the list, or the lists differ.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let all = args.target.each(async |address| list(address, args).await).await;
    let Some((first_address, first)) = all.answers.first() else { return all.result(None) };
    match args.target.format() {
        Format::Json => output::json(first)?,
        Format::Text if !first.is_empty() => output::lines(first)?,
        Format::Text => {}
    }
    let wrong = all.answers.iter().skip(1).find_map(|(address, topics)| {
        let topic = differing(first, topics)?;
        Some(format!("{first_address} and {address} differ: {topic} is known to one of them only"))
    });
    all.result(wrong)
}

/// The topics that one address knows, sorted.
async fn list(address: &str, args: &Args) -> Result<Vec<String>, Failure> {
    let mut client = Client::connect(address, args.target.timeout()).await?;
    let command = match &args.cluster {
        Some(cluster) => client.request(request::GET_TOPICS_BY_CLUSTER).with("cluster", cluster),
        None => client.request(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    };
    let answer = client.must(&command).await?;
    let list: TopicList = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::refused(format!("{address}: the topic list is no JSON: {e}")))?;
    let mut topics = list.topics;
    topics.sort();
    Ok(topics)
}

/// The first name that only one of two sorted lists has.
fn differing<'a>(a: &'a [String], b: &'a [String]) -> Option<&'a String> {
    let missing_in = |list: &[String], name: &&String| list.binary_search(name).is_err();
    a.iter().find(|name| missing_in(b, name)).or_else(|| b.iter().find(|name| missing_in(a, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_one_list_lacks_is_found_on_either_side() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(differing(&list(&["a", "b"]), &list(&["a", "b"])), None);
        assert_eq!(differing(&list(&["a"]), &list(&["a", "b"])).unwrap(), "b");
        assert_eq!(differing(&list(&["a", "b"]), &list(&["b"])).unwrap(), "a");
    }
}
