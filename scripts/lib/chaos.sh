# shellcheck shell=bash disable=SC2154  # variables of common.sh
# Sourced by the chaos scripts: a cluster of their own under load, and what must hold at the end.

work=$(mktemp -d)

nodes() { DIR=$work/nodes BASE_PORT=$base_port "$repository/scripts/cluster.sh" "$@"; }

start_nodes() { start_at_free_ports ,; }

address() { echo "127.0.0.1:$((base_port + $1 - 1))"; }

leader() { nodes leader; }

# Nobody may be led by a node that is not there any more.
another_leader() {
  local now
  now=$(leader) && [ "$now" != "$1" ]
}

chaos_cleanup() {
  end_all TERM
  nodes stop || true
  if [ "$checks_failed" -gt 0 ]; then
    echo "data and logs are in $work"
  else
    rm -rf "$work"
  fi
}

# Pretend brokers that change their topics, and clients that look them up, at every node; and a writer of numbered keys.
start_load() {
  spawn play "$BIN" play --addr "$addresses" --brokers 6 --topics 50 --change-every-ms 100 --period 5 --lookups 2 --check
  spawn writer write_keys
}

# Writes key after key, each through one node; $work/acknowledged has those that were acknowledged. What was not is
# unknown: it may be there or not.
write_keys() {
  local number node
  for ((number = 1; ; number++)); do
    node=$((number % 3 + 1))
    if "$BIN" kv put --timeout-ms 3000 --addr "$(address "$node")" CHAOS "key-$number" "$number" 2>/dev/null; then
      echo "key-$number" >>"$work/acknowledged"
    fi
    sleep 0.02
  done
}

acknowledged() { cat "$work/acknowledged" 2>/dev/null; }

# More is acknowledged than the given number of keys.
more_than() { [ "$(acknowledged | wc -l)" -gt "$1" ]; }

# --- at the end, when every node runs again

check_end() {
  check 'cluster.sh status has every node ready' wait_until 10 all_ready
  check 'query.sh finds one route at all nodes' wait_until 10 query play-topic-1
  end writer
  # The broker's changes are checked by play itself: each acknowledged one must be at every node.
  local status=0 pid=${pids[play]}
  kill -s TERM "$pid"
  wait "$pid" || status=$?
  unset 'pids[play]'
  check 'no look-up failed at a node that was up, no registration was lost' play_ended_well "$status"
  check 'something was acknowledged' more_than 0
  local node
  for node in 1 2 3; do
    check "node $node has every acknowledged key" has_all_keys "$node"
  done
  check 'all nodes have the same state' wait_until 10 same_state
}

all_ready() {
  local table
  table=$(nodes status) && [ "$(grep -c ' yes$' <<<"$table")" = 3 ]
}

query() { NAMESRV_ADDR=$addresses "$repository/scripts/query.sh" "$1"; }

play_ended_well() {
  cat "$work/play.out"
  return "$1"
}

has_all_keys() {
  local missing
  missing=$(comm -23 <(acknowledged | sort) <("$BIN" kv list --addr "$(address "$1")" CHAOS | awk '{ print $2 }' | sort))
  [ -z "$missing" ] || ! echo "missing: $(tr '\n' ' ' <<<"$missing")"
}

# Three nodes at one revision, with one hash.
same_state() {
  local states
  states=$("$BIN" status --hash --addr "$addresses" | sed -n 's/^.*: state //p')
  echo "$states"
  [ "$(wc -l <<<"$states")" = 3 ] && [ "$(sort -u <<<"$states" | wc -l)" = 1 ]
}
