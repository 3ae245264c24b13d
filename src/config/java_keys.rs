//! Keys that Java's nameserver takes from its file and that mean nothing to this one: its paths, the client side of its
//! connections, and its controller. A file that has them is no mistake; code 319 shows them as the file has them.

use crate::handlers::JAVA_PATHS;

/// The keys of Java's client side and of its controller, in order.
pub(super) const UNUSED_KEYS: [&str; 52] = [
    "channelNotActiveInterval",
    "circuitBreakerDegradeRuleCount",
    "circuitBreakerDegradeRuleSecond",
    "circuitBreakerEnable",
    "circuitBreakerRecoverSecond",
    "clientAsyncSemaphoreValue",
    "clientCallbackExecutorThreads",
    "clientChannelMaxIdleTimeSeconds",
    "clientCloseSocketIfTimeout",
    "clientOnewaySemaphoreValue",
    "clientPooledByteBufAllocatorEnable",
    "clientSocketRcvBufSize",
    "clientSocketSndBufSize",
    "clientWorkerThreads",
    "connectTimeoutMillis",
    "controllerDLegerGroup",
    "controllerDLegerPeers",
    "controllerDLegerSelfId",
    "controllerRequestThreadPoolQueueCapacity",
    "controllerStorePath",
    "controllerThreadPoolNums",
    "controllerType",
    "disableCallbackExecutor",
    "disableNettyWorkerGroup",
    "electMasterMaxRetryCount",
    "enableElectUncleanMaster",
    "enableReconnectForGoAway",
    "enableTransparentRetry",
    "jRaftControllerRPCAddr",
    "jRaftElectionTimeoutMs",
    "jRaftGroupId",
    "jRaftInitConf",
    "jRaftServerId",
    "jRaftSnapshotIntervalSecs",
    "mappedFileSize",
    "maxReconnectIntervalTimeSeconds",
    "metricGrpcExporterIntervalInMills",
    "metricGrpcExporterTimeOutInMills",
    "metricLoggingExporterIntervalInMills",
    "metricsExporterType",
    "metricsGrpcExporterHeader",
    "metricsGrpcExporterTarget",
    "metricsInDelta",
    "metricsLabel",
    "metricsPromExporterHost",
    "metricsPromExporterPort",
    "notifyBrokerRoleChanged",
    "processReadEvent",
    "scanAvailableNameSrv",
    "scanInactiveMasterInterval",
    "socksProxyConfig",
    "useTLS",
];

/// Whether the file may have this key of Java's although it means nothing here.
pub(super) fn is_known(key: &str) -> bool {
    JAVA_PATHS.contains(&key) || UNUSED_KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::settings::{SettingKind, Settings};

    #[test]
    fn no_key_is_also_one_of_the_nameserver() {
        assert!(UNUSED_KEYS.is_sorted());
        for key in UNUSED_KEYS.iter().chain(&JAVA_PATHS) {
            assert_eq!(Settings::kind(key), SettingKind::Unknown, "{key}");
            assert!(super::super::SETTINGS.iter().all(|setting| setting.key != *key), "{key}");
        }
    }
}
