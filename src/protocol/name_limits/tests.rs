use super::*;
use crate::protocol::Request;
use crate::protocol::registration::parse_registration;
use crate::wire::RemotingCommand;
use crate::wire::codes::result::SYSTEM_ERROR;

/// Where a request takes a name or value: makes the request with a text there.
type Place = fn(&str) -> RemotingCommand;

fn put(namespace: &str, key: &str, value: &str) -> RemotingCommand {
    RemotingCommand::request(100, 1).with("namespace", namespace).with("key", key).with("value", value)
}

fn register(field: &str, text: &str, body: &str) -> RemotingCommand {
    let fields = [("clusterName", "c"), ("brokerName", "b"), ("brokerAddr", "a:1"), ("brokerId", "0")];
    let command = fields
        .iter()
        .filter(|(key, _)| *key != field)
        .fold(RemotingCommand::request(103, 1), |command, (key, value)| command.with(key, value));
    let command = if field.is_empty() { command } else { command.with(field, text) };
    command.with_body(body.as_bytes().to_vec())
}

/// A registration with a body.
fn with_body(body: &str) -> RemotingCommand {
    register("", "", body)
}

fn with_static_info(topic: &str, fields: &str) -> RemotingCommand {
    let map = format!("\"topicQueueMappingInfoMap\":{{\"{topic}\":{{{fields}}}}}");
    with_body(&format!("{{\"topicConfigSerializeWrapper\":{{\"topicConfigTable\":{{}},{map}}}}}"))
}

const PLACES: [(&str, usize, Place); 16] = [
    ("namespace", KV_NAME_BYTES_MAX, |text| put(text, "k", "v")),
    ("key", KV_NAME_BYTES_MAX, |text| put("n", text, "v")),
    ("value", KV_VALUE_BYTES_MAX, |text| put("n", "k", text)),
    ("topic", TOPIC_BYTES_MAX, |text| RemotingCommand::request(217, 1).with("topic", text)),
    ("brokerName", NAME_BYTES_MAX, |text| {
        let body = format!("{{\"queueDatas\":[{{\"brokerName\":\"{text}\"}}]}}");
        RemotingCommand::request(217, 1).with("topic", "t").with_body(body.into_bytes())
    }),
    ("the settings", SETTINGS_TEXT_BYTES_MAX, |text| {
        RemotingCommand::request(318, 1).with_body(text.as_bytes().to_vec())
    }),
    ("brokerName", NAME_BYTES_MAX, |text| register("brokerName", text, "")),
    ("haServerAddr", NAME_BYTES_MAX, |text| register("haServerAddr", text, "")),
    ("zone", NAME_BYTES_MAX, |text| register("__ZONE_NAME", text, "")),
    ("filter server", NAME_BYTES_MAX, |text| {
        with_body(&format!("{{\"filterServerList\":[\"f\",\"{text}\"]}}"))
    }),
    ("topic", TOPIC_BYTES_MAX, |text| {
        let table = format!("\"topicConfigTable\":{{\"t\":{{\"topicName\":\"{text}\"}}}}");
        with_body(&format!("{{\"topicConfigSerializeWrapper\":{{{table}}}}}"))
    }),
    ("static topic", TOPIC_BYTES_MAX, |text| with_static_info(text, "")),
    ("topic of a static topic", TOPIC_BYTES_MAX, |text| {
        with_static_info("t", &format!("\"topic\":\"{text}\""))
    }),
    ("bname of a static topic", NAME_BYTES_MAX, |text| {
        with_static_info("t", &format!("\"bname\":\"{text}\""))
    }),
    ("scope of a static topic", NAME_BYTES_MAX, |text| {
        with_static_info("t", &format!("\"scope\":\"{text}\""))
    }),
    // A part of a light message queue's name: the longest of all that tools make.
    ("topic", TOPIC_BYTES_MAX, |text| {
        RemotingCommand::request(217, 1).with("topic", &format!("%LMQ%{}", text.get(5..).unwrap_or_default()))
    }),
];

fn parse(command: &RemotingCommand) -> Result<(), Reply> {
    if command.code == 103 {
        parse_registration(command).map(drop)
    } else {
        Request::parse(command).map(drop)
    }
}

#[test]
fn a_name_over_its_limit_is_refused_by_its_length_and_one_at_the_limit_is_not() {
    for (number, (what, bytes_max, place)) in PLACES.into_iter().enumerate() {
        assert_eq!(parse(&place(&"n".repeat(bytes_max))), Ok(()), "{number}: {what}");
        let refused = parse(&place(&"n".repeat(bytes_max + 1))).unwrap_err();
        let remark = refused.remark.unwrap();
        assert_eq!(refused.code, SYSTEM_ERROR, "{number}: {what}");
        assert!(remark.starts_with(what), "{number}: {what}: {remark}");
        let lengths = format!("have {} bytes, at most {bytes_max} are allowed", bytes_max + 1);
        assert!(remark.replace(" has ", " have ").ends_with(&lengths), "{number}: {what}: {remark}");
        assert!(remark.len() < 200, "the remark does not repeat all of it");
    }
}

#[test]
fn what_an_earlier_version_has_taken_can_be_read_and_removed() {
    let long = "n".repeat(1 << 20);
    for code in [101, 102, 104, 105, 205, 216, 219, 224, 327] {
        let fields = ["namespace", "key", "topic", "brokerName", "brokerAddr", "clusterName", "cluster"];
        let command = fields.iter().fold(RemotingCommand::request(code, 1), |c, field| c.with(field, &long));
        assert_eq!(parse(&command), Ok(()), "{code}");
    }
    for key in ["", "\0", "a\0b"] {
        let delete = RemotingCommand::request(102, 1).with("namespace", "n").with("key", key);
        assert_eq!(parse(&delete), Ok(()), "{key:?}");
    }
}

#[test]
fn a_kv_name_that_no_tool_can_name_is_refused() {
    for (namespace, key, what) in [
        ("n", "", "key"),
        ("", "k", "namespace"),
        ("n", "\0", "key"),
        ("n", "a\0b", "key"),
        ("\0", "k", "namespace"),
    ] {
        let expected = Reply::error(format!("{what} is empty or has a NUL character"));
        assert_eq!(parse(&put(namespace, key, "v")), Err(expected), "{namespace:?} {key:?}");
    }
    assert_eq!(parse(&put("n", "键 \n", "")), Ok(()));
}
