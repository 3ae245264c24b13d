//! Java's keys for parts that this nameserver has not: the client side of its connections, and the controller.

/// In order.
const KEYS: [&str; 52] = [
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

/// Whether Java takes this key from its nameserver's file for such a part.
pub(super) fn is_known(key: &str) -> bool {
    KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::settings::{SettingKind, Settings};

    #[test]
    fn no_key_is_also_one_of_the_nameserver() {
        assert!(KEYS.is_sorted());
        for key in KEYS {
            assert_eq!(Settings::kind(key), SettingKind::Unknown, "{key}");
        }
    }
}
