//! `play`: pretend brokers as a tool of its own.

use crate::process::{Node, Play, brokers, json_of, until};

#[test]
fn a_broker_that_dies_leaves_and_returns_and_nothing_fails_by_that() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let flags = ["--json", "--brokers", "1", "--topics", "3", "--lookups", "1", "--die-every", "5"];
    let play = Play::start(&node.at(), &flags);
    for (what, count) in [("it came", 1), ("it died", 0), ("it returned", 1)] {
        until(what, || brokers(&node.at()).len() == count);
    }
    let summary: serde_json::Value = serde_json::from_str(&play.terminate()).unwrap();
    assert!(summary["registrations"].as_u64().unwrap() >= 2, "{summary}");
    assert!(summary["lookups"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(
        (&summary["failedRegistrations"], &summary["failedLookups"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    assert!(brokers(&node.at()).is_empty(), "it unregistered at the end");
}

#[test]
fn a_play_with_an_end_sums_up_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let flags = ["--brokers", "2", "--topics", "3", "--seconds", "1", "--check"];
    let summary = json_of(&[&["play", "--json", "-n", &node.at()], &flags[..]].concat());
    assert!(summary["registrations"].as_u64().unwrap() >= 2, "{summary}");
    assert_eq!(summary["missing"].as_array().unwrap().len(), 0, "{summary}");
}
