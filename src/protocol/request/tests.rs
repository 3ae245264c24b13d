use super::*;
use crate::protocol::{ReadMode, ReadOptions};
use crate::wire::codes::result;

fn command(code: i32, fields: &[(&str, &str)]) -> RemotingCommand {
    fields.iter().fold(RemotingCommand::request(code, 1), |command, (key, value)| command.with(key, value))
}

fn style(version: i32, fields: &[(&str, &str)]) -> JsonStyle {
    let mut command = command(105, fields);
    command.version = version;
    get_route(&command).style
}

#[test]
fn routes_are_standard_json_by_version_or_by_wish() {
    for (version, accept, expected) in [
        (399, None, JsonStyle::Old),
        (401, None, JsonStyle::Standard),
        (9999, None, JsonStyle::Standard),
        (0, None, JsonStyle::Old),
        (-1, Some("TRUE"), JsonStyle::Standard),
        (399, Some("true"), JsonStyle::Standard),
        (399, Some("1"), JsonStyle::Old),
        (401, Some("false"), JsonStyle::Standard),
    ] {
        let fields: Vec<_> = accept.iter().map(|text| ("acceptStandardJsonOnly", *text)).collect();
        assert_eq!(style(version, &fields), expected, "{version} {accept:?}");
    }
}

#[test]
fn a_zone_counts_only_with_its_mode() {
    let zone = |fields: &[(&str, &str)]| get_route(&command(105, fields)).zone.map(ToOwned::to_owned);
    assert_eq!(zone(&[("__ZONE_NAME", "z")]), None);
    assert_eq!(zone(&[("__ZONE_NAME", "z"), ("__ZONE_MODE", "True")]), Some("z".to_owned()));
    assert_eq!(zone(&[("__ZONE_NAME", "  "), ("__ZONE_MODE", "true")]), None);
    assert_eq!(zone(&[("__ZONE_MODE", "true")]), None);
}

#[test]
fn a_request_without_a_required_field_is_refused() {
    for (code, fields) in [
        (904, &[("clusterName", "c")][..]),
        (904, &[("brokerAddr", "a")]),
        (322, &[("clusterName", "c")]),
        (322, &[]),
        (100, &[("namespace", "n"), ("value", "v")]),
        (100, &[]),
    ] {
        let refused = command(code, fields);
        let reply = Request::parse(&refused).unwrap_err();
        assert_eq!((reply.code, reply.ext.is_none()), (result::SYSTEM_ERROR, true), "{code} {fields:?}");
    }
}

#[test]
fn everything_else_may_be_missing() {
    for code in
        [101, 102, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 327, 901]
    {
        assert!(Request::parse(&command(code, &[])).is_ok(), "{code}");
    }
    assert_eq!(Request::parse(&command(34, &[])), Ok(Request::Unsupported(34)));
}

#[test]
fn bodies_are_read() {
    let with = |code, body: &str| {
        command(code, &[("clusterName", "c"), ("brokerAddr", "a")]).with_body(body.as_bytes().to_vec())
    };
    let queues =
        with(217, r#"{"queueDatas":[{"brokerName":"b","perm":"6","readQueueNums":4}],"brokerDatas":[]}"#);
    let Ok(Request::RegisterTopic(parsed)) = Request::parse(&queues) else { panic!("refused") };
    assert_eq!(parsed.queues, [(Name::from("b"), QueueConfig { read: 4, write: 0, perm: 6, sys_flag: 0 })]);
    for body in [
        "junk",
        "5",
        r#"{"queueDatas":5}"#,
        r#"{"queueDatas":[null]}"#,
        r#"{"queueDatas":[{}]}"#,
        r#"{"queueDatas":[{"brokerName":"b","perm":"x"}]}"#,
    ] {
        assert!(Request::parse(&with(217, body)).is_err(), "{body}");
    }
    let version = with(322, r#"{"counter":1,"timestamp":"2","stateVersion":3}"#);
    let Ok(Request::QueryDataVersion(parsed)) = Request::parse(&version) else { panic!("refused") };
    assert_eq!(parsed.data_version, Some(DataVersion { state_version: 3, timestamp: 2, counter: 1 }));
    for body in ["not json", "5", "\"x\"", r#"{"counter":"x"}"#, "[1]"] {
        assert!(Request::parse(&with(322, body)).is_err(), "{body}");
    }
    for body in ["", "null", "[]"] {
        let query = with(322, body);
        let Ok(Request::QueryDataVersion(parsed)) = Request::parse(&query) else { panic!("refused: {body}") };
        assert_eq!(parsed.data_version, None);
    }
    let settings = with(318, "b=2\n#x\na=1");
    let expected = vec![("a".into(), "1".into()), ("b".into(), "2".into())];
    assert_eq!(Request::parse(&settings), Ok(Request::UpdateConfig(expected)));
    assert_eq!(Request::parse(&with(318, "a=\\u00zz")), Err(Reply::error("string2Properties error")));
}

#[test]
fn reads_say_how_they_want_to_be_answered() {
    let of = |fields: &[(&str, &str)]| {
        let options = ReadOptions::of(&command(105, fields));
        (options.mode, options.wants_revision)
    };
    assert_eq!(of(&[]), (None, false));
    assert_eq!(of(&[("__READ_MODE", "local")]), (Some(ReadMode::Local), true));
    assert_eq!(of(&[("__READ_MODE", "Linearizable")]), (Some(ReadMode::Linearizable), true));
    assert_eq!(of(&[("__READ_MODE", "odd")]), (None, true));
    assert_eq!(of(&[("__MIN_REVISION", "7")]), (Some(ReadMode::MinRevision(7)), true));
    assert_eq!(of(&[("__MIN_REVISION", "x")]), (None, true));
    assert_eq!(
        of(&[("__MIN_REVISION", "7"), ("__READ_MODE", "local")]),
        (Some(ReadMode::MinRevision(7)), true)
    );
    assert_eq!(
        of(&[("__MIN_REVISION", "7"), ("__READ_MODE", "linearizable")]),
        (Some(ReadMode::Linearizable), true)
    );
}
