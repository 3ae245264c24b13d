//! The expected values are those of Java's own decoder, except where the project decides otherwise.

use super::*;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// Header fields that a registration reads, all but the checksum.
const FIELDS: [&str; 9] = [
    "brokerName",
    "brokerAddr",
    "clusterName",
    "haServerAddr",
    "brokerId",
    "heartbeatTimeoutMillis",
    "enableActingMaster",
    "compressed",
    "__ZONE_NAME",
];

fn check_crc(command: &RemotingCommand) -> Result<(), Reply> {
    RegistrationHeader::parse(command).check_crc(&command.body)
}

fn body_digest(command: &RemotingCommand) -> u128 {
    RegistrationHeader::parse(command).body_digest(&command.body)
}

fn parse_with(
    command: &RemotingCommand,
    known: Option<&Blocks>,
    limits: RegistrationLimits,
) -> Result<PartialRegistration, Reply> {
    parse_part(&RegistrationHeader::parse(command), &command.body, known, limits)
}

fn command(body: impl AsRef<[u8]>) -> RemotingCommand {
    RemotingCommand::request(103, 1)
        .with("brokerName", "b")
        .with("brokerAddr", "127.0.0.1:1")
        .with("clusterName", "c")
        .with("haServerAddr", "127.0.0.1:2")
        .with("brokerId", "0")
        .with_body(body.as_ref().to_vec())
}

fn parse(body: &str) -> Result<Registration, Reply> {
    parse_registration(&command(body))
}

fn wrapped(wrapper: &str) -> Result<Registration, Reply> {
    parse(&format!("{{\"topicConfigSerializeWrapper\":{{{wrapper}}}}}"))
}

fn topic(config: &str) -> Result<QueueConfig, Reply> {
    wrapped(&format!("\"topicConfigTable\":{{\"t\":{config}}}"))
        .map(|registration| registration.topics[0].queues)
}

fn part(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

fn deflated(parts: &[&[u8]]) -> RemotingCommand {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    for part in parts {
        encoder.write_all(part).unwrap();
    }
    command(encoder.finish().unwrap()).with("compressed", "true")
}

const COUNT_0: [u8; 4] = [0; 4];
const COUNT_1: [u8; 4] = [0, 0, 0, 1];
const VERSION: &[u8] = br#"{"counter":1,"stateVersion":2,"timestamp":3}"#;

#[test]
fn topics_have_defaults_and_numbers_are_cast() {
    let default = QueueConfig { read: 16, write: 16, perm: 6, sys_flag: 0 };
    let with = |rest: &str| topic(&format!("{{\"topicName\":\"n\",{rest}}}"));
    assert_eq!(topic(r#"{"topicName":5}"#), Ok(default));
    assert_eq!(with("\"perm\":null,\"readQueueNums\":\"\""), Ok(default));
    assert_eq!(
        with("\"perm\":\"4\",\"order\":5,\"unknown\":{\"a\":[1]}"),
        Ok(QueueConfig { perm: 4, ..default })
    );
    assert_eq!(with("\"perm\":4.7,\"readQueueNums\":-3"), Ok(QueueConfig { perm: 4, read: -3, ..default }));
    assert_eq!(with("perm:true,'topicSysFlag':1"), Ok(QueueConfig { perm: 1, sys_flag: 1, ..default }));
}

#[test]
fn fields_of_the_wrong_type_are_refused() {
    for config in [
        "null",
        "5",
        "\"x\"",
        "[]",
        "{}",
        r#"{"topicName":null}"#,
        r#"{"topicName":"n","perm":"x"}"#,
        r#"{"topicName":"n","perm":[]}"#,
        r#"{"topicName":"n","perm":99999999999}"#,
    ] {
        assert_eq!(topic(config).map_err(|reply| reply.code), Err(1), "{config}");
    }
    for wrapper in [
        "\"dataVersion\":5",
        "\"dataVersion\":{\"counter\":\"x\"}",
        "\"dataVersion\":{\"counter\":{\"value\":3}}",
        "\"topicConfigTable\":[]",
        "\"topicConfigTable\":5",
        "\"topicConfigTable\":\"x\"",
        "\"topicQueueMappingInfoMap\":[]",
        "\"topicQueueMappingInfoMap\":{\"t\":5}",
        "\"topicQueueMappingInfoMap\":{\"t\":{\"currIdMap\":{\"x\":1}}}",
        "\"topicQueueMappingInfoMap\":{\"t\":{\"currIdMap\":{\"1\":null}}}",
    ] {
        assert_eq!(wrapped(wrapper).map_err(|reply| reply.code), Err(1), "{wrapper}");
    }
    for body in [
        "{",
        "not json",
        "[]",
        "[1]",
        "\"text\"",
        "123",
        "null",
        " ",
        "{} x",
        r#"{"topicConfigSerializeWrapper":5}"#,
        r#"{"filterServerList":5}"#,
    ] {
        assert_eq!(parse(body).map_err(|reply| reply.code), Err(1), "{body}");
    }
}

#[test]
fn nulls_read_as_empty_or_zero() {
    for body in [
        "{}",
        r#"{"topicConfigSerializeWrapper":null}"#,
        r#"{"topicConfigSerializeWrapper":{}}"#,
        r#"{"topicConfigSerializeWrapper":{"dataVersion":null,"topicConfigTable":null,"topicQueueMappingInfoMap":null}}"#,
        r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":null,"timestamp":""}}}"#,
        "",
    ] {
        let registration = parse(body).unwrap();
        assert_eq!(registration.data_version, DataVersion::default(), "{body}");
        assert!(registration.topics.is_empty() && registration.static_infos.is_empty());
        assert_eq!(registration.filter_servers, Some(Vec::new()), "{body}");
        assert_eq!(registration.basis, Basis::Whole);
    }
    assert_eq!(parse(r#"{"filterServerList":null}"#).unwrap().filter_servers, None);
    assert_eq!(
        parse(r#"{"filterServerList":["a","b"]}"#).unwrap().filter_servers,
        Some(vec!["a".into(), "b".into()])
    );
}

#[test]
fn topics_are_sorted_and_the_last_of_a_name_stays() {
    let table = r#""topicConfigTable":{"x":{"topicName":"b","perm":1},"y":{"topicName":"a","perm":2},"z":{"topicName":"b","perm":3}}"#;
    let topics = wrapped(table).unwrap().topics;
    let found: Vec<_> = topics.iter().map(|topic| (&*topic.topic, topic.queues.perm)).collect();
    assert_eq!(found, [("a", 2), ("b", 3)]);
}

#[test]
fn static_infos_are_kept_as_sent() {
    let infos = r#""topicQueueMappingInfoMap":{"t":{"topic":"t","bname":"b","totalQueues":"4","epoch":2,"dirty":"true","currIdMap":{"1":"2",3:4}},"n":null,"u":{"scope":null,"currIdMap":null}}"#;
    let infos = wrapped(infos).unwrap().static_infos;
    let names: Vec<&str> = infos.iter().map(|(topic, _)| &**topic).collect();
    assert_eq!(names, ["t", "u"]);
    let info = &infos[0].1;
    assert_eq!(
        (info.total_queues, info.epoch, info.dirty, info.scope.as_deref()),
        (4, 2, true, Some("__global__"))
    );
    assert_eq!(info.current_ids, Some([(1, 2), (3, 4)].into()));
    assert_eq!((&infos[1].1.scope, &infos[1].1.current_ids), (&None, &None));
}

#[test]
fn the_header_identifies_the_broker() {
    for (key, value) in
        [("brokerId", "abc"), ("brokerId", ""), ("clusterName", ""), ("brokerName", ""), ("brokerAddr", "")]
    {
        let refused = parse_registration(&command("{}").with(key, value)).unwrap_err();
        assert_eq!(refused.code, 1, "{key}");
        assert!(refused.remark.unwrap().contains(key));
    }
    let registration = parse("{}").unwrap();
    assert_eq!(
        (registration.acting_master, registration.heartbeat_timeout_ms, registration.zone),
        (None, None, None)
    );
    let more = command("{}")
        .with("enableActingMaster", "false")
        .with("heartbeatTimeoutMillis", "10000")
        .with("__ZONE_NAME", "z");
    let registration = parse_registration(&more).unwrap();
    assert_eq!((registration.acting_master, registration.heartbeat_timeout_ms), (Some(false), Some(10_000)));
    assert_eq!((registration.zone.as_deref(), registration.id), (Some("z"), 0));
    let odd = command("{}")
        .with("heartbeatTimeoutMillis", "soon")
        .with("enableActingMaster", "TRUE")
        .with("brokerId", "-1");
    let registration = parse_registration(&odd).unwrap();
    assert_eq!(
        (registration.acting_master, registration.heartbeat_timeout_ms, registration.id),
        (Some(true), None, -1)
    );
}

#[test]
fn brokers_before_3_0_11_send_the_table_alone() {
    let body = r#"{"dataVersion":{"counter":7},"topicConfigTable":{"t":{"topicName":"t"}}}"#;
    for (version, topics, counter) in [(35, 1, 7), (36, 1, 7), (37, 0, 0), (479, 0, 0)] {
        let mut sent = command(body);
        sent.version = version;
        let registration = parse_registration(&sent).unwrap();
        assert_eq!(
            (registration.topics.len(), registration.data_version.counter),
            (topics, counter),
            "{version}"
        );
        assert_eq!(registration.filter_servers.is_none(), version < 37);
    }
}

#[test]
fn compressed_bodies_are_read_part_by_part() {
    let info = br#"{"bname":"b","currIdMap":{0:1},"epoch":1,"topic":"s","totalQueues":4}"#;
    let topic = b"t 8 4 6 SINGLE_TAG {\"+a\":\"b c\"}";
    let sent = deflated(&[&part(VERSION), &COUNT_1, &part(topic), &part(b"[\"f\"]"), &COUNT_1, &part(info)]);
    let registration = parse_registration(&sent).unwrap();
    assert_eq!(registration.data_version, DataVersion { counter: 1, state_version: 2, timestamp: 3 });
    assert_eq!(
        registration.topics,
        [TopicConfig { topic: "t".into(), queues: QueueConfig { read: 8, write: 4, perm: 6, sys_flag: 0 } }]
    );
    assert_eq!(registration.filter_servers, Some(vec!["f".into()]));
    assert_eq!((registration.static_infos.len(), &*registration.static_infos[0].0), (1, "s"));
}

#[test]
fn the_last_part_is_there_since_5_0_0() {
    let mut sent = deflated(&[&part(VERSION), &COUNT_0, &part(b"[]")]);
    assert_eq!(parse_registration(&sent).map_err(|reply| reply.code), Err(1));
    sent.version = 412;
    assert!(parse_registration(&sent).is_ok());
    assert!(
        parse_registration(&deflated(&[&part(VERSION), &COUNT_0, &part(b"null"), &COUNT_0]))
            .unwrap()
            .filter_servers
            .is_none()
    );
}

#[test]
fn broken_streams_are_refused() {
    let whole =
        deflated(&[&part(VERSION), &COUNT_1, &part(b"t 8 4 6 SINGLE_TAG {}"), &part(b"[]"), &COUNT_0]);
    assert!(parse_registration(&whole).is_ok());
    for cut in 0..whole.body.len() - 4 {
        let mut short = whole.clone();
        short.body = whole.body.slice(..cut);
        // Without any byte left it is a registration without a body.
        assert_eq!(parse_registration(&short).is_ok(), cut == 0, "{cut}");
    }
    for topic in ["", "t", "t 8 4 6", "t 8 x 6 SINGLE_TAG", "a t 8 4 6 SINGLE_TAG"] {
        let sent = deflated(&[&part(VERSION), &COUNT_1, &part(topic.as_bytes()), &part(b"[]"), &COUNT_0]);
        assert!(parse_registration(&sent).is_err(), "{topic}");
    }
    assert!(parse_registration(&command("{}").with("compressed", "true")).is_err());
}

fn read_part(command: &RemotingCommand, known: Option<&Blocks>) -> Result<PartialRegistration, Reply> {
    parse_with(command, known, RegistrationLimits::default())
}

#[test]
fn registrations_over_the_limits_are_refused() {
    let limits = RegistrationLimits { inflated_bytes: 500, topics: 2 };
    let read = |command: &RemotingCommand| parse_with(command, None, limits).map(|p| p.topic_count());
    assert!(read(&table_of(&[(1, 6), (2, 6)], "")).is_ok());
    assert_eq!(read(&table_of(&[(1, 6), (2, 6), (3, 6)], "")).map_err(|reply| reply.code), Err(1));
    let topic = |bytes| part(format!("{} 8 4 6 SINGLE_TAG", "t".repeat(bytes)).as_bytes());
    let packed = |bytes| deflated(&[&part(VERSION), &COUNT_1, &topic(bytes), &part(b"[]"), &COUNT_0]);
    assert!(read(&packed(100)).is_ok());
    assert_eq!(read(&packed(600)).map_err(|reply| reply.code), Err(1));
}

#[test]
fn claimed_counts_and_lengths_are_limited() {
    let topics_max = RegistrationLimits::default().topics;
    let too_many = u32::try_from(topics_max + 1).unwrap().to_be_bytes();
    for parts in [
        &[&part(VERSION)[..], &too_many[..]][..],
        &[&part(VERSION), &[0xFF; 4]],
        &[&[0x7F, 0xFF, 0xFF, 0xFF]],
        &[&[0x00, 0xFF, 0xFF, 0xFF], b"{}"],
    ] {
        assert_eq!(parse_registration(&deflated(parts)).map_err(|reply| reply.code), Err(1));
    }
    let one = "\"t\":{\"topicName\":\"t\"},";
    let table = |count| format!("\"topicConfigTable\":{{{}}}", one.repeat(count));
    assert_eq!(wrapped(&table(topics_max)).unwrap().topics.len(), 1);
    assert!(wrapped(&table(topics_max + 1)).is_err());
    let servers = |count| format!("{{\"filterServerList\":[{}]}}", "\"f\",".repeat(count));
    assert!(parse(&servers(FILTER_SERVERS_MAX)).is_ok());
    assert!(parse(&servers(FILTER_SERVERS_MAX + 1)).is_err());
}

#[test]
fn inflating_stops_at_the_limit() {
    // 300 MiB of blanks in parts that are each allowed, from 300 KB.
    let blanks = part(&vec![b' '; 15 << 20]);
    let mut parts: Vec<&[u8]> = vec![&COUNT_0; 0];
    let version = part(VERSION);
    let count = 20u32.to_be_bytes();
    parts.extend([&version[..], &count]);
    parts.extend(std::iter::repeat_n(&blanks[..], 20));
    let sent = deflated(&parts);
    assert!(sent.body.len() < 1 << 20);
    assert_eq!(parse_registration(&sent).map_err(|reply| reply.code), Err(1));
}

#[test]
fn the_checksum_is_checked_unless_it_is_zero_absent_or_unreadable() {
    let body = "a body";
    let right = (crc32fast::hash(body.as_bytes()) & 0x7FFF_FFFF).to_string();
    for (sum, taken) in
        [(Some(&*right), true), (Some("0"), true), (None, true), (Some("abc"), true), (Some("12345"), false)]
    {
        let sent = command(body);
        let sent = sum.map_or(sent.clone(), |sum| sent.with("bodyCrc32", sum));
        let checked = check_crc(&sent);
        assert_eq!(checked.is_ok(), taken, "{sum:?}");
        if let Err(reply) = checked {
            assert_eq!(reply, Reply::error("crc32 not match").with_ext());
        }
    }
    assert!(check_crc(&command("").with("bodyCrc32", "99")).is_err());
    assert!(check_crc(&command("").with("bodyCrc32", "0")).is_ok());
}

#[test]
fn the_body_digest_covers_everything_that_a_registration_reads_and_nothing_else() {
    let base = command("{}");
    let of = body_digest;
    let mut other = base.clone();
    other.opaque = 99;
    other.serialization = crate::wire::Serialization::RocketMq;
    assert_eq!(of(&base), of(&other.with("bodyCrc32", "5").with("unknown", "x")));
    for key in FIELDS {
        assert_ne!(of(&base), of(&base.clone().with(key, "other")), "{key}");
    }
    let mut older = base.clone();
    older.version = 35;
    assert_ne!(of(&base), of(&older));
    assert_ne!(of(&base), of(&command("{} ")));
    let shifted = RemotingCommand::request(103, 1).with("brokerName", "ab").with("brokerAddr", "c");
    let other = RemotingCommand::request(103, 1).with("brokerName", "a").with("brokerAddr", "bc");
    assert_ne!(of(&shifted), of(&other));
}

fn table_of(topics: &[(u16, u8)], blank: &str) -> RemotingCommand {
    let topics: Vec<String> = topics
        .iter()
        .map(|(topic, perm)| format!("\"{topic}\":{blank}{{\"topicName\":\"{topic}\",\"perm\":{perm}}}"))
        .collect();
    let topics = topics.join(&format!("{blank},"));
    command(format!("{{\"topicConfigSerializeWrapper\":{{\"topicConfigTable\":{{{topics}}}}}}}"))
}

proptest::proptest! {
    /// The skipped topics are those that both tables have alike; all others are read; no name is skipped and read.
    #[test]
    fn a_part_lacks_only_known_topics(
        known in proptest::collection::vec((0u16..300, 0u8..2), 0..200),
        edits in proptest::collection::vec((0usize..200, 0u8..4, (0u16..300, 0u8..2)), 0..6),
        blank in proptest::sample::select(vec!["", " "]),
    ) {
        let mut next = known.clone();
        for (place, edit, topic) in edits {
            let place = place % (next.len() + 1);
            match (edit, next.get_mut(place)) {
                (0, Some(old)) => *old = topic,
                (1, Some(_)) => drop(next.remove(place)),
                (2, Some(_)) => next.truncate(place),
                _ => next.insert(place, topic),
            }
        }
        let before = read_part(&table_of(&known, ""), None).unwrap();
        let command = table_of(&next, blank);
        let whole = parse_registration(&command).unwrap();
        let Some(blocks) = &before.blocks else {
            proptest::prop_assert!(before.registration.topics.len() < known.len());
            return Ok(());
        };
        proptest::prop_assert_eq!(blocks.topics(), known.len());
        let part = read_part(&command, Some(blocks)).unwrap();
        proptest::prop_assert_eq!(part.topic_count(), whole.topics.len());
        let read = &part.registration.topics;
        for topic in &whole.topics {
            if !read.contains(topic) {
                proptest::prop_assert!(before.registration.topics.contains(topic));
                proptest::prop_assert!(part.may_have_skipped(std::slice::from_ref(&topic.topic)));
            }
        }
        proptest::prop_assert!(read.iter().all(|topic| whole.topics.contains(topic)));
        // The blocks of a part work as well as the blocks of the whole.
        if let Some(blocks) = &part.blocks {
            let again = read_part(&command, Some(blocks)).unwrap();
            proptest::prop_assert!(again.registration.topics.is_empty() && again.topic_count() == next.len());
        }
    }
}

#[test]
fn around_a_change_only_its_block_is_read() {
    let topics: Vec<(u16, u8)> = (0..1000).map(|topic| (topic, 6)).collect();
    let blocks = read_part(&table_of(&topics, ""), None).unwrap().blocks.unwrap();
    let read = |topics: &[(u16, u8)]| {
        read_part(&table_of(topics, ""), Some(&blocks)).unwrap().registration.topics.len()
    };
    assert_eq!(read(&topics), 0);
    let mut changed = topics.clone();
    changed[500].1 = 4;
    assert!((1..=24).contains(&read(&changed)));
    changed.insert(501, (2000, 6));
    changed.remove(100);
    assert!((2..=72).contains(&read(&changed)));
    changed.drain(200..230);
    assert!((2..=96).contains(&read(&changed)), "blocks that are missing are passed by");
    changed.reverse();
    assert_eq!(read(&changed), changed.len());
}

#[test]
fn a_table_with_a_name_twice_is_always_read_whole() {
    let mut topics: Vec<(u16, u8)> = (0..100).map(|topic| (topic, 6)).collect();
    let blocks = read_part(&table_of(&topics, ""), None).unwrap().blocks.unwrap();
    topics.push((3, 4));
    let part = read_part(&table_of(&topics, ""), Some(&blocks)).unwrap();
    assert!(part.is_whole() && part.blocks.is_none());
    assert_eq!(part.registration.topics.len(), 100);
    let read = part.registration.topics.iter().find(|topic| &*topic.topic == "3").unwrap();
    assert_eq!(read.queues.perm, 4, "the last one counts");
}

#[test]
fn a_static_topic_has_no_more_queues_than_a_route_can_carry() {
    let with_queues = |count: usize| {
        let ids: Vec<String> = (0..count).map(|id| format!("\"{id}\":{id}")).collect();
        let map = format!("\"topicQueueMappingInfoMap\":{{\"t\":{{\"currIdMap\":{{{}}}}}}}", ids.join(","));
        wrapped(&map)
    };
    let most = with_queues(32_768).unwrap();
    assert_eq!(most.static_infos[0].1.current_ids.as_ref().map(|ids| ids.len()), Some(32_768));
    let remark = with_queues(32_769).unwrap_err().remark.unwrap();
    assert_eq!(remark, "the body is no registration: a static topic with more than 32768 queues");
}
