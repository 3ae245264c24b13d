//! The settings file, and the settings that a cluster has then.

use crate::process::{Node, cluster_with, leader, stdout_of};

/// Whether a line of `settings` says this.
fn holds(node: &Node, wanted: &str) -> bool {
    stdout_of(&["settings", "-n", &node.at()]).lines().any(|line| line == wanted)
}

/// The warnings among lines of the log.
fn warnings(log: &[String]) -> Vec<&String> {
    log.iter().filter(|line| line.contains("does not count")).collect()
}

#[test]
fn a_file_with_another_value_gives_one_warning_and_both_values_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    std::fs::write(&file, "orderMessageEnable=true\n").unwrap();
    let mut nodes = cluster_with(dir.path(), &["-c", file.to_str().unwrap()]);
    for node in &nodes {
        assert!(holds(node, "orderMessageEnable=true") && holds(node, "configFile.orderMessageEnable=true"));
        let warned = !warnings(&node.begun).is_empty() || node.has_logged("does not count");
        assert!(!warned, "a new cluster has what its file says");
    }

    let follower = (leader(&nodes) + 1) % 3;
    let ended = nodes.remove(follower).kill();
    std::fs::write(&file, "orderMessageEnable=false\nenableAllTopicList=true\n").unwrap();
    let node = ended.start();
    // Before it serves or just after.
    let mut log = node.begun.clone();
    if warnings(&log).is_empty() {
        log.extend(node.logged_until("does not count"));
    }
    assert!(holds(&node, "orderMessageEnable=true") && holds(&node, "configFile.orderMessageEnable=false"));
    let [warning] = warnings(&log)[..] else { panic!("{log:#?}") };
    let text = "orderMessageEnable=false in the settings file does not count: the cluster has true";
    assert!(warning.contains("WARN") && warning.contains(text), "{warning}");
    assert!(!node.has_logged("does not count"));
}

/// Java's paths mean nothing here; code 319 shows them as in the file.
#[test]
fn javas_paths_and_keys_of_other_parts_are_shown_as_the_file_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    let text = "kvConfigPath=/d/kv.json\nconfigStorePath=/d/namesrv.conf\nclientWorkerThreads=7\n";
    std::fs::write(&file, text).unwrap();
    let node = Node::start(&dir.path().join("data"), &["-c", file.to_str().unwrap()]);
    for line in text.lines().chain(["rocketmqHome="]) {
        assert!(holds(&node, line), "{line} in {}", stdout_of(&["settings", "-n", &node.at()]));
    }
}
