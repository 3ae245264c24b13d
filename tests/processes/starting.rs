//! What a node checks and makes before it serves.

use crate::process::{Node, failure_of, program, stdout_of};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory and all in it, each with its mode.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), metadata.permissions().mode() & 0o777)];
    if metadata.is_dir() {
        all.extend(fs::read_dir(path).unwrap().flat_map(|entry| modes(&entry.unwrap().path())));
    }
    all
}

/// The log holds addresses, topics and KV values of all users of the cluster.
#[test]
fn a_data_directory_is_for_its_user_alone_also_one_of_an_earlier_version() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let of_the_user_alone = || {
        let found = modes(&data);
        assert!(found.len() > 5, "{found:?}");
        for (path, mode) in found {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{}: {mode:o}", path.display());
        }
    };
    let node = Node::start(&data, &[]);
    stdout_of(&["kv", "put", "-n", &node.at(), "NS", "key", "value"]);
    of_the_user_alone();
    node.kill();
    for (path, mode) in modes(&data) {
        fs::set_permissions(path, Permissions::from_mode(mode | mode >> 3 & 0o55 | mode >> 6 & 0o5)).unwrap();
    }
    let _node = Node::start(&data, &[]);
    of_the_user_alone();
}

/// To start it again does not help, as exit code 4 would say.
#[test]
fn a_data_directory_that_this_user_may_not_make_is_exit_code_1() {
    // There nobody makes a directory, root neither.
    let data = "/sys/raft-namesrv";
    let (code, text) = failure_of(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(data) && text.contains("must belong to the user"), "{text}");
}

#[test]
fn members_and_ports_that_cannot_work_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let refused = |flags: &[&str], exit_code: i32, why: &str| {
        let (code, text) = failure_of(&[&["serve", "--data", data.to_str().unwrap()], flags].concat());
        assert!(code == exit_code && text.contains(why), "{flags:?}: {code}: {text}");
        assert!(!data.exists(), "{flags:?}");
    };
    refused(&["--members", "1=a:0"], 2, "port 0");
    refused(&["--members", "1=0.0.0.0:9976"], 2, "no host");
    refused(&["--members", "1=[::]:9976"], 2, "no host");
    refused(&["--members", "1=a b:9976"], 2, "no spaces");
    refused(&["--members", "1=a:1,2=A:1"], 2, "same id or address");
    refused(&["--listen", "127.0.0.1:9876", "--peer-listen", "127.0.0.1:10076"], 1, "are one port");
    refused(&["--listen", "127.0.0.1:65500"], 1, "is no port");
}

#[test]
fn a_node_listens_at_a_name_of_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["--listen", "localhost:0"]);
    assert!(node.address.ip().is_loopback(), "{}", node.address);
}

/// A compose file has `RAFT_NAMESRV_MEMBERS: ${MEMBERS}`, and nobody has set MEMBERS.
#[test]
fn an_empty_environment_variable_counts_as_none() {
    let printed = |variables: &[&str]| {
        let mut command = program();
        command.args(["serve", "-p"]).envs(variables.iter().map(|variable| (variable, "")));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let variables = ["MEMBERS", "LISTEN", "NODE_ID", "DATA", "CONFIG", "LOG_FORMAT"];
    let variables = variables.map(|name| format!("RAFT_NAMESRV_{name}"));
    assert_eq!(printed(&variables.each_ref().map(String::as_str)), printed(&[]));
}
