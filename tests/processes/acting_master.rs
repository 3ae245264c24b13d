//! Acting masters: permissions that a nameserver changes on its own.

use crate::client::{Client, registration, request};
use crate::process::{Node, stdout_of, until};
use raft_namesrv::wire::codes::request as code;

/// A slave that stands in for its master may not be written to; log and history give the reason.
#[test]
fn why_a_topic_may_not_be_written_and_then_may_again_is_in_the_log_and_in_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let register = |id, address| {
        let mut client = Client::connect(node.address).unwrap();
        client.done(&registration("g", id, address, &["t0", "t1"]).with("enableActingMaster", "true"));
        client
    };
    let permission_is = |perm: u32| {
        let ask = request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t0")]);
        let answer = Client::connect(node.address).unwrap().done(&ask);
        String::from_utf8_lossy(&answer.body).contains(&format!("\"perm\":{perm},"))
    };
    let why = || stdout_of(&["why", "t0", "-n", &node.at()]);
    let master = register("0", "10.0.0.1:10911");
    let _slave = register("1", "10.0.0.2:10911");
    assert!(permission_is(6));

    drop(master);
    let line = "write permission changed revision=";
    until("the log says so", || node.has_logged(line));
    assert!(permission_is(4));
    let reason = why();
    assert!(
        reason.contains(
            "2 topics of g may no longer be written: its master is gone, a slave acts as the master"
        ),
        "{reason}"
    );

    // With the version that it had before: its registration is the reason that brings the permission back.
    let _master = register("0", "10.0.0.1:10911");
    assert!(permission_is(6));
    until("the log says so", || node.has_logged("topic changed revision="));
    let reason = why();
    assert!(reason.contains("t0 changed on g"), "{reason}");
    println!("{reason}");
}
