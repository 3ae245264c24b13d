# shellcheck shell=bash disable=SC2154  # variables of interop.sh
# Sourced by interop.sh: a slave that stands in for its master.

# The group that does so, and what its brokers need for it.
acting=broker-acting

check_acting_master() {
  local per_change=1 before
  # Java's nameservers do not know of each other: each of the three sends.
  [ "$nameserver" = ours ] || per_change=3
  check 'the nameservers are told of acting masters' tell_of_acting_masters
  start_broker "$acting" 0 "$addresses" enableSlaveActingMaster=true
  await_broker "$acting-0"
  local master=127.0.0.1:${broker_port[$acting-0]} slave
  check 'mqadmin creates a topic there' admin 'create topic to .* success' updateTopic -t Acting -b "$master" -r 4 -w 4
  check 'every node has its route' soon every_node '"perm":6' topicRoute -t Acting
  # After the topic: a slave asks its master for topics when it starts, and then once a minute.
  start_broker "$acting" 1 "$addresses" enableSlaveActingMaster=true
  await_broker "$acting-1"
  slave=127.0.0.1:${broker_port[$acting-1]}
  check 'every node knows a group whose slave may act' wait_until 60 each_node "$acting +1 +$slave " clusterList
  check 'a Java producer sends' client produce Acting 20
  check 'a Java consumer receives' client consume Acting 20 interop_acting_before
  check 'the slave has it all' slave_has_all "$acting" Acting

  before=$(notices "$acting-1")
  end "$acting-0" KILL
  check 'the master is killed: the slave acts for it in every route' soon acts "$slave" "$master"
  check '  and is told so, once for each nameserver that decides' notices_become "$((before + per_change))" "$acting-1"
  check '  a new Java consumer receives from it' client consume Acting 20 interop_acting_java
  check '  so does a Go consumer' go_client consume Acting 20 interop_acting_go
  start_broker "$acting" 0 "$addresses" enableSlaveActingMaster=true
  await_broker "$acting-0"
  check 'the master is back: it is the master in every route' soon is_master "$master" "$slave"
  check '  the slave is told, once for each nameserver that decides' \
    notices_become "$((before + 2 * per_change))" "$acting-1"
  check '  a Java producer sends' client produce Acting 20
  check '  a Java consumer receives all' client consume Acting 40 interop_acting_after
  end "$acting-1" KILL
  end "$acting-0" KILL
}

tell_of_acting_masters() {
  local key
  for key in supportActingMaster notifyMinBrokerIdChanged; do
    admin 'update name server config success' updateNamesrvConfig -k "$key" -v true || return 1
    each_node "^$key += +true$" getNamesrvConfig || return 1
  done
}

# acts SLAVE MASTER: shown as id 0, to be read only.
acts() {
  every_node "\"perm\":4" topicRoute -t Acting || return 1
  local one
  for one in "${address[@]}"; do
    at_node "$one" "0:\"$1\"" topicRoute -t Acting || return 1
    ! client admin topicRoute -t Acting -n "$one" | grep -F "$2" || return 1
  done
}

# is_master MASTER SLAVE
is_master() {
  every_node '"perm":6' topicRoute -t Acting && each_node "0:\"$1\"" topicRoute -t Acting \
    && each_node "1:\"$2\"" topicRoute -t Acting
}

# How many notices of a new lowest id a broker has received: it writes a line for each.
notices() { grep -c 'min broker id changed' "$work/$1/rocketmq.log" || true; }

# notices_become NUMBER BROKER: and not more.
notices_become() {
  wait_until 10 notices_are "$1" "$2" || true
  notices_are "$1" "$2" || ! echo "$(notices "$2") notices, not $1"
}

notices_are() { [ "$(notices "$2")" = "$1" ]; }
