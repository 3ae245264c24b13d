#!/usr/bin/env bash
# Kills the leader again and again (kill -9) under load, and brings it back.
#   scripts/chaos/kill-leader.sh [--rounds N]     5 by default
# Each round measures how long it took until a write was acknowledged again. At the end: no look-up failed at a node
# that was up, every acknowledged write is at every node, and all nodes have the same state.
# BIN names the server's binary (default: the release build). The last line is 'N passed, N failed'; the exit code is 1
# if any failed, and then data and logs stay.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

rounds=5
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --rounds) rounds=${2:?}; shift 2 ;;
    *) die "unknown argument $1; see --help" ;;
  esac
done
binary
. "$repository/scripts/lib/chaos.sh"
trap chaos_cleanup EXIT

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
put() { "$BIN" kv put --addr "$(address "$1")" CHAOS "$2" 1; }

start_nodes
start_load
check 'writes are acknowledged' wait_until 20 more_than 10
for ((round = 1; round <= rounds; round++)); do
  victim=$(leader) || die "no leader before round $round"
  survivor=$((victim % 3 + 1))
  killed=$(now_ms)
  nodes kill "$victim"
  check "round $round: node $victim is killed, writes go on" wait_until 10 put "$survivor" "round-$round"
  echo "              after $(($(now_ms) - killed)) ms"
  check "  another node leads" wait_until 10 another_leader "$victim"
  check "  it comes back" nodes start "$victim"
done
check_end
summary
