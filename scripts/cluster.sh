#!/usr/bin/env bash
# A cluster of local nodes that outlives this script.
#   scripts/cluster.sh start          start the nodes that do not run, wait until each is ready; status 3: a port is taken
#   scripts/cluster.sh start N        only node N
#   scripts/cluster.sh stop [N]       end them gracefully
#   scripts/cluster.sh kill N         kill -9 node N
#   scripts/cluster.sh status         what each node says about itself
#   scripts/cluster.sh leader         the number of the leader
#   scripts/cluster.sh addresses      the nodes' addresses, joined with ';'
# Environment: DIR (data/cluster) for data, logs and pid files; HOST (127.0.0.1), the address that all listen on;
# BASE_PORT (9876) of node 1, node 2 has the next one; NODES (3); BIN, the server's binary (default: the release build);
# NODE_ARGS, more arguments for each `serve`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

DIR=${DIR:-$repository/data/cluster}
HOST=${HOST:-127.0.0.1}
BASE_PORT=${BASE_PORT:-9876}
NODES=${NODES:-3}

address() { echo "$HOST:$((BASE_PORT + $1 - 1))"; }

members() {
  local node list=
  for node in $(seq "$NODES"); do
    list+=",$node=$HOST:$((BASE_PORT + node - 1 + 100))"
  done
  echo "${list#,}"
}

addresses() {
  local node list=
  for node in $(seq "$NODES"); do
    list+=";$(address "$node")"
  done
  echo "${list#;}"
}

# The pid of node N while it runs. A pid file that a reboot left behind must not hit a stranger.
pid_of() {
  local pid
  pid=$(cat "$DIR/$1.pid" 2>/dev/null) || return 1
  gone "$pid" && return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -e "$DIR/$1" || return 1
  echo "$pid"
}

start_node() {
  local node=$1
  pid_of "$node" >/dev/null && return
  mkdir -p "$DIR"
  # shellcheck disable=SC2086  # NODE_ARGS is a list of words
  nohup "$BIN" serve --node-id "$node" --data "$DIR/$node" --listen "$(address "$node")" --members "$(members)" \
    ${NODE_ARGS:-} >>"$DIR/$node.log" 2>&1 </dev/null &
  echo $! >"$DIR/$node.pid"
}

# Waits until these nodes are ready. Status 3: one has ended, since somebody has one of its ports.
await_ready() {
  local node
  wait_until 60 all_ready_or_one_ended "$@" || die "not all of the nodes $* are ready, see $DIR/*.log"
  for node in "$@"; do
    ended "$node" || continue
    tail -n 2 "$DIR/$node.log" >&2
    tail -n 2 "$DIR/$node.log" | grep -q 'Address already in use' && exit 3
    die "node $node has ended, see $DIR/$node.log"
  done
}

# A new cluster is born when all are there: while one has ended, the others wait.
all_ready_or_one_ended() {
  local node
  for node in "$@"; do
    if ended "$node"; then return 0; fi
  done
  for node in "$@"; do
    ready "$node" || return 1
  done
}

ended() { gone "$(cat "$DIR/$1.pid")"; }

ready() { "$BIN" probe --http "$HOST:$((BASE_PORT + $1 - 1 + 200))"; }

stop_node() {
  local node=$1 signal=$2 pid
  pid=$(pid_of "$node") || return 0
  kill -s "$signal" "$pid"
  wait_until 10 gone "$pid" || die "node $node (pid $pid) does not end"
}

# Nodes that are down make `status` fail; it prints the others nevertheless.
leader() { { "$BIN" status --addr "$(addresses)" 2>/dev/null || true; } | leader_in_status; }

each() {
  local command=$1 node
  shift
  for node in $(seq "$NODES"); do
    "$command" "$node" "$@"
  done
}

node_number() {
  if ! [[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || [ "$1" -gt "$NODES" ]; then die "which node? 1 to $NODES"; fi
}

case "${1:-}" in
  -h | --help) usage ;;
  start)
    binary
    if [ $# -gt 1 ]; then
      node_number "$2"
      nodes=$2
    else
      nodes=$(seq "$NODES")
    fi
    for node in $nodes; do start_node "$node"; done
    # shellcheck disable=SC2086  # a list
    await_ready $nodes
    ;;
  stop)
    if [ $# -gt 1 ]; then
      node_number "$2"
      stop_node "$2" TERM
    else
      each stop_node TERM
    fi
    ;;
  kill)
    node_number "${2:-}"
    stop_node "$2" KILL
    ;;
  status)
    binary
    "$BIN" status --addr "$(addresses)"
    ;;
  leader)
    binary
    leader
    ;;
  addresses) addresses ;;
  *)
    usage >&2
    exit 2
    ;;
esac
