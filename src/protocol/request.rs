//! Requests: one variant per request code.

use super::registration::{self, RegistrationHeader};
use super::{JsonStyle, Reply, name_limits, properties, remarks};
use crate::wire::RemotingCommand;
use crate::wire::codes::request as code;
use storage::command::{DataVersion, Name, QueueConfig};

/// A request with its parsed header. Texts are borrowed from the command.
///
/// A header field that is missing, null, or not a number where one is expected is `None`; the handler decides what that
/// means. [`Request::parse`] refuses requests that cannot do without the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// 100.
    PutKv(PutKv<'a>),
    /// 101.
    GetKv(GetKv<'a>),
    /// 102.
    DeleteKv(DeleteKv<'a>),
    /// 219: a namespace.
    ListKv(Option<&'a str>),
    /// 103, owned, since it outlives the command. Its body is parsed later: see [`super::registration`].
    RegisterBroker(RegistrationHeader),
    /// 104.
    UnregisterBroker(UnregisterBroker<'a>),
    /// 904.
    BrokerHeartbeat(BrokerHeartbeat<'a>),
    /// 322. Also a heartbeat.
    QueryDataVersion(QueryDataVersion<'a>),
    /// 901.
    GetMemberGroup(GetMemberGroup<'a>),
    /// 105.
    GetRoute(GetRoute<'a>),
    /// 106.
    GetClusterInfo,
    /// 205: a broker name (unknown or missing: no topic).
    WipeWritePermission(Option<&'a str>),
    /// 327: a broker name (unknown or missing: no topic).
    AddWritePermission(Option<&'a str>),
    /// 206, 311, 312, 313.
    ListTopics(TopicFilter),
    /// 224: a cluster (unknown or missing: no topic).
    ListClusterTopics(Option<&'a str>),
    /// 304.
    ListSystemTopics,
    /// 216.
    DeleteTopic(DeleteTopic<'a>),
    /// 217.
    RegisterTopic(RegisterTopic<'a>),
    /// 318: keys and texts, sorted by key, no key twice. Not yet checked against any list of keys.
    UpdateConfig(Vec<(Name, Name)>),
    /// 319.
    GetConfig,
    /// Anything else.
    Unsupported(i32),
}

/// Sets a KV entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutKv<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Key.
    pub key: &'a str,
    /// Value.
    pub value: Option<&'a str>,
}

/// Gets a KV entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetKv<'a> {
    /// Namespace.
    pub namespace: Option<&'a str>,
    /// Key.
    pub key: Option<&'a str>,
}

/// Deletes a KV entry; success whatever is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteKv<'a> {
    /// Namespace.
    pub namespace: Option<&'a str>,
    /// Key.
    pub key: Option<&'a str>,
}

/// Removes a broker; success whatever is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnregisterBroker<'a> {
    /// Cluster.
    pub cluster: Option<&'a str>,
    /// Broker name.
    pub broker: Option<&'a str>,
    /// Address.
    pub address: Option<&'a str>,
    /// Broker id. Broker name and address decide; the id does not.
    pub id: Option<i64>,
}

/// A broker's heartbeat. Cluster and address identify the broker; the rest of the header is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerHeartbeat<'a> {
    /// Cluster.
    pub cluster: &'a str,
    /// Address.
    pub address: &'a str,
}

/// Asks whether the table has the topics of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryDataVersion<'a> {
    /// Cluster.
    pub cluster: &'a str,
    /// Address.
    pub address: &'a str,
    /// Broker name; if the broker is registered under another, the reply is "changed".
    pub broker: Option<&'a str>,
    /// Broker id; likewise.
    pub id: Option<i64>,
    /// The version that the broker has; without one the reply is "changed".
    pub data_version: Option<DataVersion>,
}

/// Gets ids and addresses of a broker name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetMemberGroup<'a> {
    /// Cluster: only echoed.
    pub cluster: Option<&'a str>,
    /// Broker name.
    pub broker: Option<&'a str>,
}

/// Looks up the route of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetRoute<'a> {
    /// Topic.
    pub topic: Option<&'a str>,
    /// How the body is to be written. (A route that is filtered by zone has the old style in any case.)
    pub style: JsonStyle,
    /// Return only brokers of this zone, and broker names without a master.
    pub zone: Option<&'a str>,
}

/// Which topics to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicFilter {
    /// 206: all.
    All,
    /// 311: of units.
    Unit,
    /// 312: with unit subscriptions.
    UnitSubscription,
    /// 313: with unit subscriptions, and not of a unit.
    UnitSubscriptionOnly,
}

/// Deletes a topic; success whatever is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteTopic<'a> {
    /// Topic.
    pub topic: Option<&'a str>,
    /// Only on the brokers of this cluster; never empty.
    pub cluster: Option<&'a str>,
}

/// Registers one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterTopic<'a> {
    /// Topic; a request without one succeeds and does nothing.
    pub topic: Option<&'a str>,
    /// Queues per broker name, in the order of the request.
    pub queues: Vec<(Name, QueueConfig)>,
}

impl<'a> Request<'a> {
    /// Parses a command's header and, but for registrations, its body.
    ///
    /// # Errors
    /// The reply that says what is missing or unreadable.
    pub fn parse(command: &'a RemotingCommand) -> Result<Self, Reply> {
        let field = |key| command.field(key);
        Ok(match command.code {
            code::GET_ROUTEINFO_BY_TOPIC => Self::GetRoute(get_route(command)),
            code::REGISTER_BROKER => Self::RegisterBroker(RegistrationHeader::parse(command)),
            code::BROKER_HEARTBEAT => Self::BrokerHeartbeat(BrokerHeartbeat {
                cluster: required(command, "clusterName")?,
                address: required(command, "brokerAddr")?,
            }),
            code::QUERY_DATA_VERSION => Self::QueryDataVersion(QueryDataVersion {
                cluster: required(command, "clusterName")?,
                address: required(command, "brokerAddr")?,
                broker: field("brokerName"),
                id: field("brokerId").and_then(|text| text.parse().ok()),
                data_version: registration::parse_data_version(&command.body)?,
            }),
            code::GET_BROKER_CLUSTER_INFO => Self::GetClusterInfo,
            code::GET_BROKER_MEMBER_GROUP => Self::GetMemberGroup(GetMemberGroup {
                cluster: field("clusterName"),
                broker: field("brokerName"),
            }),
            code::UNREGISTER_BROKER => Self::UnregisterBroker(UnregisterBroker {
                cluster: field("clusterName"),
                broker: field("brokerName"),
                address: field("brokerAddr"),
                id: field("brokerId").and_then(|text| text.parse().ok()),
            }),
            code::PUT_KV_CONFIG => Self::PutKv(put_kv(command)?),
            code::GET_KV_CONFIG => Self::GetKv(GetKv { namespace: field("namespace"), key: field("key") }),
            code::DELETE_KV_CONFIG => {
                Self::DeleteKv(DeleteKv { namespace: field("namespace"), key: field("key") })
            }
            code::GET_KVLIST_BY_NAMESPACE => Self::ListKv(field("namespace")),
            code::WIPE_WRITE_PERM_OF_BROKER => Self::WipeWritePermission(field("brokerName")),
            code::ADD_WRITE_PERM_OF_BROKER => Self::AddWritePermission(field("brokerName")),
            code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => Self::ListTopics(TopicFilter::All),
            code::GET_UNIT_TOPIC_LIST => Self::ListTopics(TopicFilter::Unit),
            code::GET_HAS_UNIT_SUB_TOPIC_LIST => Self::ListTopics(TopicFilter::UnitSubscription),
            code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => Self::ListTopics(TopicFilter::UnitSubscriptionOnly),
            code::GET_TOPICS_BY_CLUSTER => Self::ListClusterTopics(field("cluster")),
            code::GET_SYSTEM_TOPIC_LIST_FROM_NS => Self::ListSystemTopics,
            code::DELETE_TOPIC_IN_NAMESRV => Self::DeleteTopic(DeleteTopic {
                topic: field("topic"),
                cluster: field("clusterName").filter(|name| !name.is_empty()),
            }),
            code::REGISTER_TOPIC_IN_NAMESRV => Self::RegisterTopic(register_topic(command)?),
            code::UPDATE_NAMESRV_CONFIG => Self::UpdateConfig(update_config(command)?),
            code::GET_NAMESRV_CONFIG => Self::GetConfig,
            other => Self::Unsupported(other),
        })
    }
}

fn required<'a>(command: &'a RemotingCommand, key: &str) -> Result<&'a str, Reply> {
    command.field(key).ok_or_else(|| Reply::error(remarks::missing_field(key)))
}

fn put_kv(command: &RemotingCommand) -> Result<PutKv<'_>, Reply> {
    let (Some(namespace), Some(key)) = (command.field("namespace"), command.field("key")) else {
        return Err(Reply::error(remarks::NAMESPACE_OR_KEY_IS_NULL));
    };
    let value = command.field("value");
    name_limits::check_kv(namespace, key, value)?;
    Ok(PutKv { namespace, key, value })
}

fn register_topic(command: &RemotingCommand) -> Result<RegisterTopic<'_>, Reply> {
    let (topic, queues) = (command.field("topic"), registration::parse_queues(&command.body)?);
    name_limits::check_topic(topic, &queues)?;
    Ok(RegisterTopic { topic, queues })
}

fn update_config(command: &RemotingCommand) -> Result<Vec<(Name, Name)>, Reply> {
    name_limits::check_settings(&command.body)?;
    properties::parse(&command.body).map_err(|_| Reply::error(remarks::BAD_PROPERTIES))
}

/// Version of the client from which routes are standard JSON (5.x calls it 4.9.4).
const STANDARD_JSON_SINCE: i32 = 401;

fn get_route(command: &RemotingCommand) -> GetRoute<'_> {
    let is_true = |key| command.field(key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let standard = command.version >= STANDARD_JSON_SINCE || is_true("acceptStandardJsonOnly");
    let zone = command.field("__ZONE_NAME").filter(|name| !name.trim().is_empty());
    GetRoute {
        topic: command.field("topic"),
        style: if standard { JsonStyle::Standard } else { JsonStyle::Old },
        zone: zone.filter(|_| is_true("__ZONE_MODE")),
    }
}

#[cfg(test)]
mod tests;
