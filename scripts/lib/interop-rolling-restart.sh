# shellcheck shell=bash disable=SC2154  # variables of interop.sh
# Sourced by interop.sh: the nodes are restarted one after the other, as an upgrade does, while clients look up and send.

check_rolling_restart() {
  local node
  check 'messages flow between Java clients' client traffic-start FlowJava
  start_go_traffic FlowGo
  check 'messages flow between Go clients' go_traffic_flows
  spawn look-ups look_up_all_the_time FlowGo
  for node in 1 2 3; do
    nodes stop "$node"
    # Each new client has to look its route up.
    check "node $node is stopped: a new Java producer sends" client produce FlowJava 5
    check 'a new Go producer sends' go_client produce FlowGo 5
    start_nameserver "$node"
    check "node $node is back and has the route" at_node "${address[node - 1]}" '"readQueueNums":4' topicRoute -t FlowGo
  done
  end look-ups
  check 'no Java message was lost' client traffic-stop
  stop_go_traffic
  check 'no Go message was lost' go_traffic_is_complete
  check 'every look-up had the master' look_ups
  look_ups | tail -n 1 | sed 's/^/             /'
}

# look_up_all_the_time TOPIC: a line for each answer, or for why there was none.
look_up_all_the_time() {
  local one
  while :; do
    for one in "${address[@]}"; do
      { "$BIN" route "$1" --addr "$one" --timeout-ms 2000 2>/dev/null || true; } | tr '\n' ' '
      echo
    done
  done
}

# The master is there all the time, so no answer may lack it, however old; and a node that does not know says so.
look_ups() {
  awk '
    /code 17/ { print; bad = 1 }
    match($0, /revision [0-9]+/) {
      revision = substr($0, RSTART + 9, RLENGTH - 9) + 0
      if ($0 !~ / 0=127/) { print; bad = 1 }
      if (revision > newest) newest = revision
      if (newest - revision > back) back = newest - revision
      count++
    }
    END { print count + 0 " look-ups answered; a revision was at most " back + 0 " behind the newest seen"; exit bad || !count }
  ' "$work/look-ups.out"
}

