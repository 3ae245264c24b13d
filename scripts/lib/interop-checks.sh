# shellcheck shell=bash disable=SC2154  # variables of interop.sh
# Sourced by interop.sh: what is checked.

# admin PATTERN COMMAND...: an mqadmin command against all nodes succeeds and its output matches.
admin() {
  local pattern=$1
  shift
  client_says "$pattern" admin "$@" -n "$addresses"
}

client_says() {
  local pattern=$1 output
  shift
  output=$(client "$@") || ! echo "$output" || return 1
  echo "$output"
  grep -qE -e "$pattern" <<<"$output" || ! echo "expected: $pattern"
}

# at_node NODE PATTERN COMMAND...: the same of one node.
at_node() { client_says "$2" admin "${@:3}" -n "$1" || ! echo "at node $1"; }

# each_node PATTERN COMMAND...: of each node on its own.
each_node() {
  local one
  for one in "${address[@]}"; do
    at_node "$one" "$@" || return 1
  done
}

# every_node PATTERN COMMAND...: and all nodes say exactly the same.
every_node() {
  local one output first=
  for one in "${address[@]}"; do
    output=$(at_node "$one" "$@") || ! echo "$output" || return 1
    first=${first:-$output}
    [ "$output" = "$first" ] || ! printf 'node %s differs:\n%s\n%s\n' "$one" "$first" "$output" || return 1
  done
}

# The same, some time later at the latest: what a broker tells arrives with its next registration.
soon() { wait_until 25 "$@" || "$@"; }

# refused PATTERN COMMAND...: an mqadmin command that must fail, and say why.
refused() {
  local pattern=$1 output
  shift
  if output=$(client admin "$@" -n "$addresses"); then
    printf 'succeeded:\n%s\n' "$output"
    return 1
  fi
  echo "$output"
  grep -qE -e "$pattern" <<<"$output"
}

create_topic() { admin 'create topic to .* success' updateTopic -t "$1" -c InteropCluster -r 4 -w 4; }

every_node_knows_both() {
  local id
  for id in 0 1; do
    each_node "broker-a +$id +127.0.0.1:${broker_port[broker-a-$id]} " clusterList || return 1
  done
}

# --- clients

check_clients() {
  check 'every node knows master and slave' soon every_node_knows_both
  check 'mqadmin creates a topic' create_topic Interop
  check 'every node has the route' soon every_node '"readQueueNums":4' topicRoute -t Interop
  check 'a Java producer sends' client produce Interop 20
  check 'a Go producer sends' go_client produce Interop 20
  check 'a Java consumer receives both' client consume Interop 40 interop_java
  check 'a Go consumer receives both' go_client consume Interop 40 interop_go
}

# --- mqadmin

check_mqadmin() {
  check_mqadmin_looking
  check_mqadmin_changing
  check_mqadmin_keys
}

check_mqadmin_looking() {
  local master=127.0.0.1:${broker_port[broker-a-0]}
  check 'clusterList' admin "InteropCluster +broker-a +0 +$master " clusterList
  check 'topicList' every_node '^Interop$' topicList
  check 'topicList -c' admin '^InteropCluster +Interop +interop_java' topicList -c
  check 'topicRoute' every_node "0:\"$master\"" topicRoute -t Interop
  check 'topicClusterList' every_node '^InteropCluster$' topicClusterList -t Interop
  check 'topicStatus' admin '^broker-a +3 ' topicStatus -t Interop
  check 'statsAll' admin '^Interop +interop_java ' statsAll -t Interop
  check 'consumerProgress' admin '^interop_go ' consumerProgress
  check 'brokerStatus' admin '^brokerActive +: true' brokerStatus -b "$master"
  check 'getBrokerConfig' admin '^brokerName += +broker-a' getBrokerConfig -b "$master"
  check 'allocateMQ' admin '"brokerName":"broker-a","queueId":0,"topic":"Interop"' allocateMQ -t Interop -i 127.0.0.1
  check 'brokerConsumeStats' admin '^Interop +interop_java +broker-a ' brokerConsumeStats -b "$master"
}

check_mqadmin_changing() {
  check 'updateTopic, in order' admin 'set cluster orderConf.*broker-a:4' updateTopic -t Ordered -c InteropCluster -r 4 -w 4 -o true
  check 'updateTopicPerm, read only' admin 'from 6 to 4 in .* success' updateTopicPerm -t Interop -c InteropCluster -p 4
  check '  is in every route' soon every_node '"perm":4' topicRoute -t Interop
  check 'updateTopicPerm, read and write' admin 'from 4 to 6 in .* success' updateTopicPerm -t Interop -c InteropCluster -p 6
  check '  is in every route' soon every_node '"perm":6' topicRoute -t Interop
  check 'updateStaticTopic' admin 'new mapping data is written' updateStaticTopic -t Static -qn 4 -c InteropCluster
  check '  is in every route' soon every_node '"topicQueueMappingByBroker":' topicRoute -t Static
  check 'wipeWritePerm' admin 'wipe write perm of .*OK, [1-9]' wipeWritePerm -b broker-a
  check '  is in every route' every_node '"perm":4' topicRoute -t Interop
  check 'addWritePerm' admin 'add write perm of .*OK, [1-9]' addWritePerm -b broker-a
  check '  is in every route' every_node '"perm":6' topicRoute -t Interop
  check 'deleteTopic' delete_a_topic
  check '  is in no route' refused 'CODE: 17 ' topicRoute -t Gone
}

delete_a_topic() {
  create_topic Gone && soon every_node '"readQueueNums":4' topicRoute -t Gone \
    && admin 'from NameServer success' deleteTopic -t Gone -c InteropCluster
}

check_mqadmin_keys() {
  check 'updateKvConfig' admin 'create or update kv config to namespace success' updateKvConfig -s NS -k K -v V
  check 'deleteKvConfig' admin 'delete kv config from namespace success' deleteKvConfig -s NS -k K
  check 'getNamesrvConfig' admin "^listenPort += +$base_port$" getNamesrvConfig
  check 'updateNamesrvConfig' admin 'update name server config success' updateNamesrvConfig -k waitSecondsForService -v 46
  check '  is in force' admin '^waitSecondsForService += +46$' getNamesrvConfig
  check 'updateOrderConf, put' admin 'update orderConf success' updateOrderConf -t Ordered -m put -v broker-a:8
  check 'updateOrderConf, get' every_node 'orderConf=\[broker-a:8\]' updateOrderConf -t Ordered -m get
  check 'updateOrderConf, delete' admin 'delete orderConf success' updateOrderConf -t Ordered -m delete
  check '  is not found any more' refused 'CODE: 22 ' updateOrderConf -t Ordered -m get
}

# --- a broker name without its master

check_slave() {
  check 'the slave has it all' slave_has_all broker-a Interop
  end broker-a-0
  check 'a stopped master leaves every node' soon every_node_knows_only_the_slave
  check 'a Java consumer receives from the slave' client consume Interop 40 interop_slave_java
  start_broker broker-a 0 "$addresses"
  await_broker broker-a-0
  check 'a started master is known again' soon every_node_knows_both
}

# slave_has_all GROUP TOPIC: a slave asks for topics when it starts and then once a minute; messages follow at once.
slave_has_all() { wait_until 75 has_as_much "$@" || has_as_much "$@"; }

has_as_much() {
  local one two
  grep -q "\"$2\"" "$work/$1-1/store/config/topics.json" || ! echo 'the slave does not know the topic' || return 1
  one=$(end_of_log "127.0.0.1:${broker_port[$1-0]}") && two=$(end_of_log "127.0.0.1:${broker_port[$1-1]}") \
    && echo "$one $two" && [ "$one" = "$two" ]
}

end_of_log() {
  local output
  output=$(client admin brokerStatus -b "$1") || ! echo "$output" || return 1
  awk '$1 == "commitLogMaxOffset" { print $3; found = 1 } END { exit !found }' <<<"$output"
}

every_node_knows_only_the_slave() {
  local one output
  for one in "${address[@]}"; do
    output=$(at_node "$one" "1:\"127.0.0.1:${broker_port[broker-a-1]}\"" topicRoute -t Interop) || return 1
    ! grep -q '0:"' <<<"$output" || return 1
  done
}

# --- a node dies while messages flow

check_failover() {
  local victim survivors
  check 'mqadmin creates a topic for Java' create_topic FlowJava
  check 'mqadmin creates a topic for Go' create_topic FlowGo
  check 'every node has the routes' soon every_node '"readQueueNums":4' topicRoute -t FlowGo
  check 'messages flow between Java clients' client traffic-start FlowJava
  start_go_traffic FlowGo
  check 'messages flow between Go clients' go_traffic_flows

  victim=$(leader)
  survivors=("${address[@]}")
  unset "survivors[victim - 1]"
  kill_nameserver "$victim"
  check "node $victim is killed: mqadmin creates a topic" soon create_topic Survivor
  local address=("${survivors[@]}")
  check 'the survivors have the route' soon every_node '"readQueueNums":4' topicRoute -t Survivor
  check 'a new Java producer sends' client produce Survivor 20
  check 'a new Go producer sends' go_client produce Survivor 20
  check 'a new Java consumer receives' client consume Survivor 40 interop_survivor_java
  check 'a new Go consumer receives' go_client consume Survivor 40 interop_survivor_go

  start_nameserver "$victim"
  IFS=';' read -ra address <<<"$addresses"
  check 'the killed node is back and knows the topic' soon every_node '"readQueueNums":4' topicRoute -t Survivor
  check 'no Java message was lost' client traffic-stop
  stop_go_traffic
  check 'no Go message was lost' go_traffic_is_complete
}

# --- a node takes connections and never answers

check_hung_node() {
  local victim
  victim=$(leader)
  # A broker registers the retry topic of a new consumer group before it answers the group's first heartbeat, and waits
  # that long for each nameserver: 24 s by default, more than a client has patience.
  check 'brokers wait 2 s for a nameserver' set_register_timeout_ms 2000
  signal_nameserver "$victim" STOP
  check "node $victim hangs: a new Java producer sends" client produce Survivor 20
  check 'a new Go producer sends' go_client produce Survivor 20
  check 'a new Java consumer receives' client consume Survivor 80 interop_hung_java
  check 'a new Go consumer receives' go_client consume Survivor 80 interop_hung_go
  signal_nameserver "$victim" CONT
  check 'the node goes on and has the route' soon every_node '"readQueueNums":4' topicRoute -t Survivor
  check 'brokers wait 24 s again' set_register_timeout_ms 24000
}

set_register_timeout_ms() {
  admin 'update broker config success' updateBrokerConfig -c InteropCluster -k registerBrokerTimeoutMills -v "$1"
}

# --- two nodes of three die: writes are refused at once, so that brokers go on

check_lost_quorum() {
  local survivor other
  survivor=$(leader)
  check 'messages flow between Java clients' client traffic-start FlowJava
  for other in 1 2 3; do
    [ "$other" = "$survivor" ] || kill_nameserver "$other"
  done
  check "only node $survivor is left: a new Java producer sends" client produce Survivor 20
  check 'a new Java consumer receives' client consume Survivor 100 interop_lost_quorum
  for other in 1 2 3; do
    [ "$other" = "$survivor" ] || start_nameserver "$other"
  done
  check 'all nodes are back and have the route' soon every_node '"readQueueNums":4' topicRoute -t Survivor
  check 'no Java message was lost, no send failed' client traffic-stop
}

# --- what Java's nameservers cannot do

check_one_view() {
  start_broker broker-b 0 "${address[0]}"
  await_broker broker-b-0
  check 'a broker that reaches one node is known to all' soon each_node 'broker-b +0 ' clusterList
  check 'a key put through one node' client_says 'success' admin updateOrderConf -t One -m put -v broker-b:2 -n "${address[1]}"
  check '  is read at all' every_node 'orderConf=\[broker-b:2\]' updateOrderConf -t One -m get
}
