//! What makes two answers the same.

use super::frame::Decoded;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Settings of Java's network library and thread pools: a server built otherwise need not show them.
const SETTINGS_OF_NETTY: [&str; 22] = [
    "clientRequestThreadPoolNums",
    "defaultThreadPoolNums",
    "enableControllerInNamesrv",
    "serverAsyncSemaphoreValue",
    "serverCallbackExecutorThreads",
    "serverNettyWorkerGroupEnable",
    "serverOnewaySemaphoreValue",
    "serverPooledByteBufAllocatorEnable",
    "serverSelectorThreads",
    "serverSocketBacklog",
    "serverSocketRcvBufSize",
    "serverSocketSndBufSize",
    "serverWorkerThreads",
    "unRegisterBrokerQueueCapacity",
    "useEpollNativeSelector",
    "writeBufferHighWaterMark",
    "writeBufferLowWaterMark",
    "clientRequestThreadPoolQueueCapacity",
    "defaultThreadPoolQueueCapacity",
    "clusterTest",
    "productEnvName",
    "rocketmqHome",
];

/// Objects whose key order Java leaves to a hash map.
const UNORDERED_OBJECTS: [&str; 7] = [
    "brokerAddrs",
    "filterServerTable",
    "topicQueueMappingByBroker",
    "currIdMap",
    "brokerAddrTable",
    "clusterAddrTable",
    "table",
];
/// Lists that Java takes from a hash map or hash set; the lists in clusterAddrTable too.
const UNORDERED_LISTS: [&str; 3] = ["brokerDatas", "queueDatas", "topicList"];

/// Differences between what was recorded and what came.
pub(super) fn compare(
    recorded: &Decoded,
    came: &Decoded,
    volatile: &[String],
    properties: bool,
) -> Vec<String> {
    let mut differences = Vec::new();
    let frees = |what: &str| volatile.iter().any(|free| free == what);
    let mut field = |name: &str, recorded: &dyn Debug, came: &dyn Debug| {
        let (recorded, came) = (format!("{recorded:?}"), format!("{came:?}"));
        if !frees(name) && recorded != came {
            differences.push(format!("{name}: expected {recorded}, got {came}"));
        }
    };
    field("code", &recorded.code, &came.code);
    field("flag", &recorded.flag, &came.flag);
    field("language", &recorded.language, &came.language);
    field("serialize", &recorded.serialization, &came.serialization);
    field("opaque", &recorded.opaque, &came.opaque);
    field("extFields", &recorded.ext, &came.ext);
    field("version is a number", &true, &came.version.is_some());
    if frees("remark") {
        field("there is a remark", &recorded.remark.is_some(), &came.remark.is_some());
    } else {
        field("remark", &recorded.remark, &came.remark);
    }
    // With its fields free, whether there are any is free as well.
    if recorded.serialization == came.serialization && !frees("extFields") {
        field("header keys", &recorded.header_keys, &came.header_keys);
    }
    if !frees("body") {
        differences.extend(compare_bodies(&recorded.body, &came.body, volatile, properties));
    }
    differences
}

fn compare_bodies(recorded: &[u8], came: &[u8], volatile: &[String], properties: bool) -> Vec<String> {
    if properties {
        return compare_properties(
            &String::from_utf8_lossy(recorded),
            &String::from_utf8_lossy(came),
            volatile,
        );
    }
    let (recorded, came) = (canonical(recorded), canonical(came));
    if recorded == came {
        return Vec::new();
    }
    vec![format!("body:\n      expected {recorded}\n      got      {came}")]
}

/// Each recorded setting must be there with its value; more are allowed; keys are sorted.
fn compare_properties(recorded: &str, came: &str, volatile: &[String]) -> Vec<String> {
    let entries = |text: &str| -> Vec<(String, String)> {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
    };
    let frees = |key: &str| {
        key == "bindAddress" || volatile.iter().any(|free| free.strip_prefix("config:") == Some(key))
    };
    let came = entries(came);
    let mut differences = Vec::new();
    if !came.is_sorted_by(|a, b| a.0 < b.0) {
        differences.push("settings are not sorted".to_owned());
    }
    let came: BTreeMap<_, _> = came.into_iter().collect();
    for (key, value) in entries(recorded) {
        match came.get(&key) {
            None if SETTINGS_OF_NETTY.contains(&&*key) => {}
            None => differences.push(format!("setting {key} is missing")),
            Some(own) if *own != value && !frees(&key) => {
                differences.push(format!("setting {key}: expected {value:?}, got {own:?}"));
            }
            Some(_) => {}
        }
    }
    differences
}

/// A body with everything in a fixed order that Java leaves open. Tokens stay as they are written: `{0:` is not `{"0":`.
fn canonical(body: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(body) else { return format!("{body:02x?}") };
    if text.starts_with(['{', '[']) {
        let mut parser = Parser { rest: text };
        if let Some(node) = parser.value().filter(|_| parser.rest.trim().is_empty()) {
            return node.canonical("", "");
        }
    }
    text.to_owned()
}

/// JSON with raw tokens, unquoted keys included.
enum Node<'a> {
    Object(Vec<(&'a str, Node<'a>)>),
    List(Vec<Node<'a>>),
    Token(&'a str),
}

impl Node<'_> {
    fn canonical(&self, name: &str, parent: &str) -> String {
        match self {
            Self::Token(token) => (*token).to_owned(),
            Self::Object(fields) => {
                let write = |(key, value): &(&str, Node<'_>)| {
                    format!("{key}:{}", value.canonical(key.trim_matches('"'), name))
                };
                let mut parts: Vec<String> = fields.iter().map(write).collect();
                if UNORDERED_OBJECTS.contains(&name) {
                    parts.sort();
                }
                format!("{{{}}}", parts.join(","))
            }
            Self::List(items) => {
                let mut parts: Vec<String> = items.iter().map(|item| item.canonical("", name)).collect();
                if UNORDERED_LISTS.contains(&name) || parent == "clusterAddrTable" {
                    parts.sort();
                }
                format!("[{}]", parts.join(","))
            }
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn value(&mut self) -> Option<Node<'a>> {
        if self.take("{") {
            let mut fields = Vec::new();
            while !self.take("}") {
                if !fields.is_empty() && !self.take(",") {
                    return None;
                }
                let key = self.token()?;
                if !self.take(":") {
                    return None;
                }
                fields.push((key, self.value()?));
            }
            return Some(Node::Object(fields));
        }
        if self.take("[") {
            let mut items = Vec::new();
            while !self.take("]") {
                if !items.is_empty() && !self.take(",") {
                    return None;
                }
                items.push(self.value()?);
            }
            return Some(Node::List(items));
        }
        self.token().map(Node::Token)
    }

    fn take(&mut self, what: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn token(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let end = if let Some(text) = self.rest.strip_prefix('"') {
            let mut escaped = false;
            let quote = text.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            quote? + 2
        } else {
            self.rest.find(|c: char| c.is_whitespace() || "{}[]:,\"".contains(c)).unwrap_or(self.rest.len())
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Decoded {
        Decoded {
            code: 0,
            flag: 1,
            opaque: 7,
            version: Some(479),
            language: "JAVA".to_owned(),
            serialization: "JSON",
            ext: BTreeMap::new(),
            remark: None,
            header_keys: vec!["code".to_owned(), "flag".to_owned()],
            body: body.as_bytes().to_vec(),
        }
    }

    fn same(recorded: &str, came: &str) -> bool {
        compare(&answer(recorded), &answer(came), &[], false).is_empty()
    }

    #[test]
    fn hash_order_does_not_count_and_field_order_does() {
        assert!(same(r#"{"topicList":["a","b"]}"#, r#"{"topicList":["b","a"]}"#));
        assert!(same(r#"{"brokerAddrs":{0:"x",1:"y"}}"#, r#"{"brokerAddrs":{1:"y",0:"x"}}"#));
        assert!(same(r#"{"clusterAddrTable":{"c":["a","b"]}}"#, r#"{"clusterAddrTable":{"c":["b","a"]}}"#));
        assert!(!same(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#));
        assert!(!same(r#"{"list":["a","b"]}"#, r#"{"list":["b","a"]}"#));
    }

    #[test]
    fn tokens_count_as_they_are_written() {
        assert!(!same(r#"{"brokerAddrs":{0:"x"}}"#, r#"{"brokerAddrs":{"0":"x"}}"#));
        assert!(!same(r#"{"a":"é"}"#, r#"{"a":"\u00E9"}"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":1"#));
        assert!(same("text", "text"));
    }

    #[test]
    fn each_field_counts_unless_it_is_free() {
        let recorded = answer("");
        let mut came = answer("");
        came.code = 1;
        came.opaque = 8;
        came.remark = Some("why".to_owned());
        assert_eq!(compare(&recorded, &came, &[], false).len(), 3);
        let free = ["code".to_owned(), "opaque".to_owned()];
        assert_eq!(compare(&recorded, &came, &free, false).len(), 1);
        came.remark = None;
        assert_eq!(compare(&recorded, &came, &free, false), Vec::<String>::new());
        came.ext.insert("changed".to_owned(), "true".to_owned());
        came.header_keys.clear();
        assert_eq!(compare(&recorded, &came, &free, false).len(), 2);
    }

    #[test]
    fn a_free_remark_must_still_be_there() {
        let (mut recorded, mut came) = (answer(""), answer(""));
        recorded.remark = Some("java.lang.NullPointerException".to_owned());
        let free = ["remark".to_owned()];
        assert_eq!(compare(&recorded, &came, &free, false).len(), 1);
        came.remark = Some("clusterName is missing".to_owned());
        assert_eq!(compare(&recorded, &came, &free, false).len(), 0);
    }

    #[test]
    fn settings_may_be_more_but_not_fewer_and_are_sorted() {
        let recorded = "a=1\nb=2\nlistenPort=9\nserverWorkerThreads=8\n";
        let with = |came: &str| compare_properties(recorded, came, &["config:listenPort".to_owned()]).len();
        assert_eq!(with("a=1\naa=5\nb=2\nlistenPort=7\n"), 0);
        assert_eq!(with("a=1\nlistenPort=7\n"), 1);
        assert_eq!(with("a=2\nb=2\nlistenPort=7\n"), 1);
        assert_eq!(with("b=2\na=1\nlistenPort=7\n"), 1);
    }
}
