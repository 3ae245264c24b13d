use super::*;
use std::path::Path;

mod settings_page;

fn config(flags: Flags, text: &str) -> Result<Config, String> {
    Config::new(flags, PropertiesFile::parse(Path::new("ns.conf"), text.as_bytes()).unwrap())
}

#[test]
fn without_anything_it_is_one_node_with_javas_port() {
    let config = config(Flags::default(), "").unwrap();
    assert_eq!((config.node.node_id, config.node.members.len()), (1, 0));
    let ports = [config.listen, config.peer_listen, config.http_listen].map(|a| a.port());
    assert_eq!(ports, [9876, 9976, 10076]);
    assert!(config.warnings.is_empty());
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    let flags = Flags { listen: Some("127.0.0.1:1234".parse().unwrap()), ..Flags::default() };
    let text = "listenPort=5555\nbindAddress=10.0.0.1\nhttpListen=127.0.0.1:80\nserializeType=rocketmq\n";
    let both = config(flags, text).unwrap();
    assert_eq!(both.listen.to_string(), "127.0.0.1:1234");
    assert_eq!(both.http_listen.to_string(), "127.0.0.1:80");
    assert_eq!(both.node.server.serialization, Serialization::RocketMq);
    let from_file = config(Flags::default(), text).unwrap();
    assert_eq!(from_file.listen.to_string(), "10.0.0.1:5555");
    assert_eq!(from_file.peer_listen.to_string(), "10.0.0.1:5655");
}

#[test]
fn any_free_port_goes_with_any_free_ports() {
    let flags = Flags { listen: Some("127.0.0.1:0".parse().unwrap()), ..Flags::default() };
    let config = config(flags, "").unwrap();
    assert_eq!([config.peer_listen.port(), config.http_listen.port()], [0, 0]);
}

#[test]
fn javas_keys_are_sorted_into_their_kinds() {
    let text = "orderMessageEnable=true\nserverWorkerThreads=4\nclusterTest=true\nnoSuchKey=1\n";
    let config = config(Flags::default(), text).unwrap();
    let replicated: Vec<&str> = config.replicated.iter().map(|(key, _)| &**key).collect();
    assert_eq!(replicated, ["clusterTest", "orderMessageEnable", "serverWorkerThreads"]);
    assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("clusterTest, serverWorkerThreads"), "{:?}", config.warnings);
    assert!(config.warnings[1].contains("noSuchKey"), "{:?}", config.warnings);
}

/// Java's nameserver runs with such a file: a warning that its keys are wrong would mislead its operator.
#[test]
fn javas_keys_of_its_paths_its_clients_and_its_controller_are_taken_without_effect() {
    let text = "kvConfigPath=/d/kv.json\nclientWorkerThreads=4\nuseTLS=false\ncontrollerDLegerGroup=g\n";
    let config = config(Flags::default(), text).unwrap();
    assert!(config.replicated.is_empty(), "{:?}", config.replicated);
    let keys = "clientWorkerThreads, controllerDLegerGroup, kvConfigPath, useTLS";
    assert_eq!(config.warnings, [format!("settings without effect here: {keys}")]);
    let shown: Vec<String> =
        config.unused_java_keys.iter().map(|(key, text)| format!("{key}={text}\n")).collect();
    let mut given: Vec<&str> = text.split_inclusive('\n').collect();
    given.sort_unstable();
    assert_eq!(shown, given);
}

#[test]
fn what_does_not_fit_is_refused_and_named() {
    for (text, why) in [
        ("members=1=a:1,2=b:2", "--node-id"),
        ("members=1=a", "members=1=a: 'a' is not host:port"),
        ("nodeId=0", "0 is not allowed"),
        ("listenPort=x", "ns.conf: listenPort=x is not a port"),
        ("connectionsMax=0", "connectionsMax=0"),
        ("brokerKeepAliveIntervalSeconds=0", "from 1 to 32767"),
        ("brokerKeepAliveIdleSeconds=40000", "from 0 to 32767"),
        ("heartbeatIntervalMillis=200", "do not fit"),
        ("readMode=fast", "readMode=fast"),
        ("serializeType=xml", "xml"),
        ("peerSecretFile=/does/not/exist", "peerSecretFile=/does/not/exist"),
    ] {
        let error = config(Flags::default(), text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn ports_that_are_one_are_refused_and_both_are_named() {
    for (text, why) in [
        (
            "listenPort=9876\npeerListen=0.0.0.0:10076",
            "the peer port (0.0.0.0:10076) and the HTTP port (0.0.0.0:10076)",
        ),
        (
            "listenPort=9876\nhttpListen=127.0.0.1:9976",
            "the peer port (0.0.0.0:9976) and the HTTP port (127.0.0.1:9976)",
        ),
        ("listenPort=9876\npeerListen=127.0.0.1:9876", "the RocketMQ port (0.0.0.0:9876) and the peer port"),
        ("listenPort=65400", "65400 + 200 is no port"),
        ("listenPort=65500", "65500 + 100 is no port: choose a lower one, or set peerListen"),
    ] {
        let error = config(Flags::default(), text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let on_other_hosts = "bindAddress=127.0.0.1\npeerListen=127.0.0.2:9876\nhttpListen=127.0.0.3:0";
    assert!(config(Flags::default(), on_other_hosts).is_ok());
}

fn shown(config: &Config) -> Vec<String> {
    config.shown().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// What `-p` prints can be given to `-c`, whatever the settings are.
#[test]
fn what_is_shown_is_read_again_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, "very-secret\n").unwrap();
    let defaults = shown(&config(Flags::default(), "").unwrap());
    let others = format!(
        "nodeId=2\nmembers=1=a:1,2=b:2\ndataDirectory=/var/d\nbindAddress=127.0.0.1\nlistenPort=1\n\
         peerListen=127.0.0.2:2\nhttpListen=127.0.0.3:3\nserializeType=ROCKETMQ\nconfigBlackList=a;b\n\
         readMode=linearizable\npeerSecretFile={}\nserverChannelMaxIdleTimeSeconds=1\nconnectionsMax=1\n\
         requestsInFlightMax=1\nrequestsInFlightPerConnectionMax=1\nrequestsInFlightBytesMax=2000000\n\
         incompleteFramesBytesMax=2000000\nparsedRegistrationsBytesMax=2000000\n\
         unsentRepliesBytesMax=2000000\nframeTimeoutSeconds=1\n\
         frameBytesMax=100000\nwriteBufferBytesMax=100000\nbrokerKeepAliveIdleSeconds=1\n\
         brokerKeepAliveIntervalSeconds=1\nbrokerTcpUserTimeoutMillis=1\nrouteCacheBytesMax=1\n\
         writeStallMillis=1\nregistrationBytesMax=2000000\nregistrationTopicsMax=1\nsessionsMax=1\n\
         snapshotLogBytes=2000000\nsnapshotEntries=1\nsnapshotAgeSeconds=1\nlogBytesMax=2000000\n\
         recentLogBytesMax=1\nbatchCommandsMax=1\nrecoveryWaitSeconds=1\nstalenessMaxMillis=1\n\
         massEvictionGuard=false\nmassEvictionSharePercent=1\n\
         heartbeatIntervalMillis=11\nelectionTimeoutMinMillis=31\nelectionTimeoutMaxMillis=61\n",
        path.display()
    );
    let without_waiting = format!("{others}serveAfterRecoveryWait=false\n");
    for text in ["", &others, &without_waiting] {
        let first = config(Flags::default(), text).unwrap();
        let again = config(Flags::default(), &shown(&first).join("\n")).unwrap();
        assert_eq!(shown(&first), shown(&again));
        assert!(again.warnings.is_empty(), "{:?}", again.warnings);
        let same: Vec<_> = defaults.iter().filter(|line| shown(&first).contains(line)).collect();
        let left = if text.is_empty() { defaults.len() } else { usize::from(text == others) };
        assert_eq!(same.len(), left, "not of another value: {same:?}");
        assert_eq!((first.node.secret, first.node.members), (again.node.secret, again.node.members));
    }
}

#[test]
fn the_secret_is_read_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, "very-secret\n").unwrap();
    let config = config(Flags::default(), &format!("peerSecretFile={}", path.display())).unwrap();
    assert_eq!(config.node.secret, b"very-secret");
    let shown = format!("{:?}", config.shown());
    assert!(!shown.contains("very-secret") && shown.contains(path.to_str().unwrap()), "{shown}");
}

#[test]
fn every_default_is_within_its_own_range_and_every_key_stands_once() {
    let defaults = config(Flags::default(), "").unwrap();
    for (number, setting) in SETTINGS.iter().enumerate() {
        let text = setting.get(&defaults);
        assert_eq!(setting.set(&mut defaults.clone(), &text), Ok(()), "{}", setting.key);
        assert!(SETTINGS.iter().skip(number + 1).all(|other| other.key != setting.key), "{}", setting.key);
        assert_eq!(Settings::kind(setting.key), SettingKind::Unknown, "{} is not replicated", setting.key);
    }
}

#[test]
fn code_319_shows_the_ports_that_were_bound_and_what_the_file_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _in_runtime = runtime.enter();
    let text = "bindAddress=127.0.0.1\nlistenPort=0\nserverChannelMaxIdleTimeSeconds=7\nconfigBlackList=a;b\n\
                orderMessageEnable=true\nuseTLS=false\n";
    let config = config(Flags::default(), text).unwrap();
    let listeners = Listeners::bind(config.listen, config.peer_listen, config.http_listen).unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
    let ports = [&listeners.clients, &listeners.peers, listeners.http.as_ref().unwrap()].map(port);
    let shown = config.into_node(&listeners).unwrap().settings.shown;
    let expected = [
        ("bindAddress", "127.0.0.1"),
        ("configBlackList", "configBlackList;configStorePath;kvConfigPath;a;b"),
        ("configFile.orderMessageEnable", "true"),
        ("configStorePath", ""),
        ("httpListenPort", &ports[2]),
        ("kvConfigPath", ""),
        ("listenPort", &ports[0]),
        ("peerListenPort", &ports[1]),
        ("rocketmqHome", ""),
        ("serverChannelMaxIdleTimeSeconds", "7"),
        ("useTLS", "false"),
    ];
    let shown: Vec<(&str, &str)> = shown.iter().map(|(key, text)| (&**key, &**text)).collect();
    assert_eq!(shown, expected);
}
