//! Bodies in JSON.

use super::blocks::{BlockWalk, Blocks, SkippedTopics};
use super::{Body, FILTER_SERVERS_MAX, shared};
use crate::wire::json::{Event, Reader};
use std::borrow::Cow;
use std::collections::BTreeMap;
use storage::command::{DataVersion, Name, QueueConfig, StaticTopicInfo, TopicConfig};

type Parsed<T> = Result<T, &'static str>;

/// Queues of a topic that does not name its own.
const DEFAULT_QUEUES: QueueConfig = QueueConfig { read: 16, write: 16, perm: 6, sys_flag: 0 };
/// Most queues of one REGISTER_TOPIC.
const QUEUES_MAX: usize = 10_000;
/// Most queues of a static topic on one broker: a route carries all of them.
const STATIC_QUEUES_MAX: usize = 32_768;

/// The body of brokers since 3.0.11: filter servers and the wrapped topic table.
pub(super) fn parse_wrapper(body: &[u8], known: Option<&Blocks>, topics_max: usize) -> Parsed<Body> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    // As in Java, a body without a list has an empty one, which removes the servers; an explicit null keeps them.
    let mut parsed = Body { filter_servers: Some(Vec::new()), ..Body::default() };
    enter(&mut reader)?;
    while let Some(key) = reader.key()? {
        match &*key {
            "filterServerList" => parsed.filter_servers = filter_servers(&mut reader)?,
            "topicConfigSerializeWrapper" if enter_or_null(&mut reader)? => {
                table(&mut reader, &mut parsed, known, topics_max)?;
            }
            "topicConfigSerializeWrapper" => {}
            _ => reader.skip()?,
        }
    }
    reader.end()?;
    Ok(parsed)
}

/// The body of older brokers: the topic table itself.
pub(super) fn parse_table(body: &[u8], topics_max: usize) -> Parsed<Body> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    let mut parsed = Body::default();
    enter(&mut reader)?;
    table(&mut reader, &mut parsed, None, topics_max)?;
    reader.end()?;
    parsed.static_infos.clear();
    Ok(parsed)
}

/// A data version; `None` for a null or an empty list, as in Java.
pub(super) fn parse_data_version(body: &[u8]) -> Parsed<Option<DataVersion>> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    let version = match reader.value()? {
        Event::Null => None,
        Event::Array if !reader.element()? => None,
        Event::Object => Some(data_version(&mut reader)?),
        _ => return Err("not an object"),
    };
    reader.end()?;
    Ok(version)
}

/// A list of filter servers; `None` for a null.
pub(super) fn parse_filter_servers(body: &[u8]) -> Parsed<Option<Vec<Name>>> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    let servers = filter_servers(&mut reader)?;
    reader.end()?;
    Ok(servers)
}

/// A static-topic info; `None` for a null.
pub(super) fn parse_static_info(body: &[u8]) -> Parsed<Option<StaticTopicInfo>> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    let info = static_info(&mut reader)?;
    reader.end()?;
    Ok(info)
}

/// `queueDatas` of a topic route.
pub(super) fn parse_queues(body: &[u8]) -> Parsed<Vec<(Name, QueueConfig)>> {
    let text = lossy(body);
    let mut reader = Reader::new(&text);
    let mut queues = Vec::new();
    match reader.value()? {
        Event::Null => {}
        Event::Array if !reader.element()? => {}
        Event::Object => {
            while let Some(key) = reader.key()? {
                if key == "queueDatas" { queues = queue_datas(&mut reader)? } else { reader.skip()? }
            }
        }
        _ => return Err("not an object"),
    }
    reader.end()?;
    Ok(queues)
}

fn queue_datas(reader: &mut Reader<'_>) -> Parsed<Vec<(Name, QueueConfig)>> {
    let mut queues = Vec::new();
    match reader.value()? {
        Event::Null => return Ok(queues),
        Event::Array => {}
        _ => return Err("queueDatas is no list"),
    }
    while reader.element()? {
        if queues.len() == QUEUES_MAX {
            return Err("too many queueDatas");
        }
        enter(reader)?;
        let unset = QueueConfig { read: 0, write: 0, perm: 0, sys_flag: 0 };
        let (broker, config) = queue_config(reader, "brokerName", unset)?;
        queues.push((broker.ok_or("queue data without brokerName")?, config));
    }
    Ok(queues)
}

fn table(
    reader: &mut Reader<'_>,
    parsed: &mut Body,
    known: Option<&Blocks>,
    topics_max: usize,
) -> Parsed<()> {
    while let Some(key) = reader.key()? {
        match &*key {
            "dataVersion" => {
                parsed.data_version =
                    if enter_or_null(reader)? { data_version(reader)? } else { DataVersion::default() };
            }
            "topicConfigTable" => (parsed.topics, parsed.table) = topics(reader, known, topics_max)?,
            "topicQueueMappingInfoMap" => parsed.static_infos = static_infos(reader, topics_max)?,
            _ => reader.skip()?,
        }
    }
    Ok(())
}

fn data_version(reader: &mut Reader<'_>) -> Parsed<DataVersion> {
    let mut version = DataVersion::default();
    while let Some(key) = reader.key()? {
        match &*key {
            "counter" => version.counter = reader.int()?.unwrap_or_default(),
            "stateVersion" => version.state_version = reader.int()?.unwrap_or_default(),
            "timestamp" => version.timestamp = reader.int()?.unwrap_or_default(),
            _ => reader.skip()?,
        }
    }
    Ok(version)
}

/// The topics of a table but for those in known blocks; its blocks, and the topics that were skipped.
fn topics(
    reader: &mut Reader<'_>,
    known: Option<&Blocks>,
    max: usize,
) -> Parsed<(Vec<TopicConfig>, (Blocks, SkippedTopics))> {
    let (mut topics, mut walk) = (Vec::new(), BlockWalk::new(known));
    if !enter_or_null(reader)? {
        return Ok((topics, walk.end()));
    }
    while reader.entry()? {
        if walk.topics() >= max {
            return Err("too many topics");
        }
        let text = reader.rest();
        if let Some(bytes) = walk.skip(text) {
            reader.advance(bytes);
            continue;
        }
        let before = reader.clone();
        reader.name()?;
        enter(reader)?;
        let (topic, queues) = queue_config(reader, "topicName", DEFAULT_QUEUES)?;
        let topic = topic.ok_or("a topic without topicName")?;
        let bytes = text.len() - reader.rest().len();
        if let Some(bytes) = walk.read(&topic, text, bytes) {
            *reader = before;
            reader.advance(bytes);
            continue;
        }
        topics.push(TopicConfig { topic, queues });
    }
    if walk.topics() > max {
        return Err("too many topics");
    }
    Ok((topics, walk.end()))
}

/// The queues of a topic or a broker, and the name in the field `name_key`.
fn queue_config(
    reader: &mut Reader<'_>,
    name_key: &str,
    unset: QueueConfig,
) -> Parsed<(Option<Name>, QueueConfig)> {
    let (mut name, mut config) = (None, unset);
    while let Some(key) = reader.key()? {
        match &*key {
            "readQueueNums" => config.read = reader.int()?.unwrap_or(unset.read),
            "writeQueueNums" => config.write = reader.int()?.unwrap_or(unset.write),
            "perm" => config.perm = reader.int()?.unwrap_or(unset.perm),
            "topicSysFlag" => config.sys_flag = reader.int()?.unwrap_or(unset.sys_flag),
            key if key == name_key => name = reader.text()?.as_deref().map(shared),
            _ => reader.skip()?,
        }
    }
    Ok((name, config))
}

fn static_infos(reader: &mut Reader<'_>, max: usize) -> Parsed<Vec<(Name, StaticTopicInfo)>> {
    let mut infos = Vec::new();
    if !enter_or_null(reader)? {
        return Ok(infos);
    }
    while let Some(topic) = reader.key()? {
        if infos.len() == max {
            return Err("too many static topics");
        }
        if let Some(info) = static_info(reader)? {
            infos.push((shared(&topic), info));
        }
    }
    Ok(infos)
}

fn static_info(reader: &mut Reader<'_>) -> Parsed<Option<StaticTopicInfo>> {
    if !enter_or_null(reader)? {
        return Ok(None);
    }
    let mut info = StaticTopicInfo {
        topic: None,
        broker: None,
        total_queues: 0,
        epoch: 0,
        scope: Some(shared("__global__")),
        dirty: false,
        current_ids: Some(BTreeMap::new()),
    };
    let name = |reader: &mut Reader<'_>| reader.text().map(|text| text.as_deref().map(shared));
    while let Some(key) = reader.key()? {
        match &*key {
            "topic" => info.topic = name(reader)?,
            "bname" => info.broker = name(reader)?,
            "scope" => info.scope = name(reader)?,
            "totalQueues" => info.total_queues = reader.int()?.unwrap_or_default(),
            "epoch" => info.epoch = reader.int()?.unwrap_or_default(),
            "dirty" => info.dirty = reader.boolean()?.unwrap_or_default(),
            "currIdMap" => info.current_ids = queue_ids(reader)?,
            _ => reader.skip()?,
        }
    }
    Ok(Some(info))
}

fn queue_ids(reader: &mut Reader<'_>) -> Parsed<Option<BTreeMap<i32, i32>>> {
    if !enter_or_null(reader)? {
        return Ok(None);
    }
    let mut ids = BTreeMap::new();
    while let Some(logical) = reader.key()? {
        let logical = logical.parse().map_err(|_| "a queue id that is no number")?;
        ids.insert(logical, reader.int()?.ok_or("a queue id that is null")?);
        if ids.len() > STATIC_QUEUES_MAX {
            return Err("a static topic with more than 32768 queues");
        }
    }
    Ok(Some(ids))
}

fn filter_servers(reader: &mut Reader<'_>) -> Parsed<Option<Vec<Name>>> {
    match reader.value()? {
        Event::Null => return Ok(None),
        Event::Array => {}
        _ => return Err("filterServerList is no list"),
    }
    let mut servers = Vec::new();
    while reader.element()? {
        if servers.len() == FILTER_SERVERS_MAX {
            return Err("too many filter servers");
        }
        servers.push(shared(&reader.text()?.ok_or("a filter server that is null")?));
    }
    Ok(Some(servers))
}

/// The body as text; bytes that are no UTF-8 are replaced.
fn lossy(body: &[u8]) -> Cow<'_, str> {
    // The check is ten times as fast as the replacement, and nearly all bodies pass it.
    std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed)
}

/// Enters an object.
fn enter(reader: &mut Reader<'_>) -> Parsed<()> {
    if reader.value()? == Event::Object { Ok(()) } else { Err("an object is missing") }
}

/// Enters an object; false for a null.
fn enter_or_null(reader: &mut Reader<'_>) -> Parsed<bool> {
    match reader.value()? {
        Event::Object => Ok(true),
        Event::Null => Ok(false),
        _ => Err("an object is missing"),
    }
}
