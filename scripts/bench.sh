#!/usr/bin/env bash
# Puts load on one node and on three, side by side with another nameserver if there is one, and prints rate, latency, CPU
# seconds and memory of each.
#   scripts/bench.sh [look-ups] [registrations] [large] [commits]        without a name: the first two
# look-ups        8 brokers x 1,000 topics, 64 connections with 1 and 16 requests each under way; and, when BARE=1, a server that
#                 gives the same bytes without looking at a request (benches/bare.rs)
# registrations   the same brokers over and over: unchanged, and with one topic changed
# large           8 brokers x 60,000 topics: memory, and how long one node takes to serve them after a restart
# commits         KV entries, one after the other, beside fdatasync of the same disk
# Environment: LOAD, the load generator, a command that knows 'route', 'register' and 'hold', each with --addr, --pid,
# --brokers, --topics and --secs, and prints 'key=value' pairs; PEER_ADDR and PEER_PID, another nameserver to compare with;
# SECS (default 8); BIN, the server's binary (default: the release build). Compare figures of one run only.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

parts=()
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage; exit 0 ;;
    look-ups | registrations | large | commits) parts+=("$argument") ;;
    *) die "unknown argument $argument; see --help" ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(look-ups registrations)
LOAD=${LOAD:-}
[ -x "$LOAD" ] || die "LOAD must name the load generator; see --help"
binary
secs=${SECS:-8}
work=$(mktemp -d)
trap 'end_all; rm -rf "$work"' EXIT

base=$(free_base 1 2 3 100 101 102 103 200 201 202 203)
members=1=127.0.0.1:$((base + 101)),2=127.0.0.1:$((base + 102)),3=127.0.0.1:$((base + 103))
one=127.0.0.1:$base
three=127.0.0.1:$((base + 1)),127.0.0.1:$((base + 2)),127.0.0.1:$((base + 3))

ready() { "$BIN" status --addr "$1"; }

start_one() {
  RAFT_NAMESRV_LOG=warn spawn one "$BIN" serve --listen "$one" --data "$work/one"
  wait_until 60 ready "$one" || die "the node does not start: $(tail -n 3 "$work/one.out")"
}

start_three() {
  for node in 1 2 3; do
    RAFT_NAMESRV_LOG=warn spawn "node$node" "$BIN" serve --listen "127.0.0.1:$((base + node))" --node-id "$node" \
      --members "$members" --data "$work/node$node"
  done
  wait_until 60 ready "$three" || die "three nodes do not start: $(tail -n 3 "$work/node1.out")"
}

# load NAME ADDRESSES PIDS WORK ARGUMENT...
load() {
  local name=$1 addresses=$2 processes=$3
  shift 3
  printf '%-8s ' "$name"
  "$LOAD" "$1" --addr "$addresses" --pid "$processes" "${@:2}"
}

# side_by_side WORK ARGUMENT...: the same on all that there is, one after the other.
side_by_side() {
  echo "== $*"
  if [ -n "${PEER_ADDR:-}" ]; then load peer "$PEER_ADDR" "${PEER_PID:?}" "$@"; fi
  load one "$one" "${pids[one]}" "$@"
  load three "$three" "${pids[node1]},${pids[node2]},${pids[node3]}" "$@"
}

look_ups() {
  local shape=(--brokers 8 --topics 1000 --secs "$secs") bare=127.0.0.1:$((base + 200)) depth
  if [ "${BARE:-0}" = 1 ]; then
    load one "$one" "${pids[one]}" register --brokers 8 --topics 1000 --secs 1
    (cd "$repository" && cargo bench --quiet --bench bare --no-run)
    spawn bare cargo bench --quiet --bench bare -- "$bare" "$one" LOAD_TOPIC_000000
    wait_until 60 port_open $((base + 200)) || die "the bare server does not start"
  fi
  for depth in 1 16; do
    side_by_side route --depth "$depth" "${shape[@]}"
    if [ "${BARE:-0}" = 1 ]; then load bare "$bare" "${pids[bare]}" route --no-fill --depth "$depth" "${shape[@]}"; fi
  done
}

registrations() {
  local change
  for change in none one; do
    side_by_side register --change "$change" --brokers 8 --topics 1000 --secs "$secs"
  done
}

resident_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
has_topics() { [ "$("$BIN" topics --addr "$one" --json | grep -c LOAD_TOPIC_059999)" -gt 0 ]; }

large() {
  echo "== 8 brokers x 60,000 topics"
  load one "$one" "${pids[one]}" hold --brokers 8 --topics 60000 --secs 2
  echo "one      resident_kib=$(resident_kib "${pids[one]}")"
  local began
  # Killed, so that the brokers' connections end after the node and its table stays.
  end one KILL
  began=${EPOCHREALTIME/[.,]/}
  start_one
  wait_until 60 has_topics || die "the topics are not there after a restart"
  echo "one      serving_after_ms=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))"
}

commits() {
  local count=200 began number
  echo "== $count KV entries one after the other, each with a process of its own"
  began=${EPOCHREALTIME/[.,]/}
  for ((number = 0; number < count; number++)); do
    "$BIN" kv put bench "key$number" value --addr "$three" >/dev/null
  done
  echo "three    ms_each=$(((${EPOCHREALTIME/[.,]/} - began) / 1000 / count))"
  began=${EPOCHREALTIME/[.,]/}
  dd if=/dev/zero of="$work/sync" bs=512 count="$count" oflag=dsync status=none
  echo "disk     us_per_synced_write=$(((${EPOCHREALTIME/[.,]/} - began) / count))"
}

start_one
start_three
for part in "${parts[@]}"; do
  "${part//-/_}"
done
