#!/usr/bin/env bash
# Hosts that vanish without a word: their links go down, and no connection is closed.
#   scripts/dead-host-test.sh [--off]
# Three nodes and brokers with the default timeout of 120 s, on hosts of their own. The link of a broker's host is down for
# five seconds: its broker stays. Then it is down for good: its broker is gone from the routes of all nodes in less than
# 15 s, and the others stay. Last the links of all three nodes are down for 12 s: every connection ends meanwhile, and every
# broker stays.
# --off   with keep-alive and user time-out switched off: to see that the test fails then
# Needs root and ip (scripts/install-build-deps.sh dead-host). The hosts are network namespaces that nobody else sees;
# they and all processes end with this script, however it ends. BIN names the server's binary (default: the release
# build). The last line is 'N passed, N failed'; the exit code is 1 if any failed, and then the logs stay.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

off=no
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage; exit 0 ;;
    --off) off=yes ;;
    *) die "unknown argument $argument; see --help" ;;
  esac
done

# Again, as the first process of its own process, mount and network namespaces: with it everything in them ends.
if [ -z "${DEAD_HOST_WORK:-}" ]; then
  PATH="$PATH:/usr/sbin:/sbin"
  [ "$(id -u)" = 0 ] || die "needs root, for network namespaces"
  for command in ip unshare setpriv; do
    command -v "$command" >/dev/null || die "needs the command $command"
  done
  binary
  DEAD_HOST_WORK=$(mktemp -d)
  export PATH DEAD_HOST_WORK
  setpriv --pdeathsig KILL unshare --net --pid --fork --kill-child --mount --mount-proc "${BASH_SOURCE[0]}" "$@" &
  inside=$!
  trap 'kill -s KILL "$inside" 2>/dev/null || true' EXIT
  trap 'exit 130' INT TERM
  status=0
  wait "$inside" || status=$?
  trap - EXIT
  if [ "$status" = 0 ]; then rm -rf "$DEAD_HOST_WORK"; else echo "the logs are in $DEAD_HOST_WORK"; fi
  exit "$status"
fi
work=$DEAD_HOST_WORK

network=10.77.0
link_is_down_s=5
gone_within_s=15
# Longer than a connection lives without an answer, and shorter than the timeout of any broker.
nodes_are_down_s=12

# --- hosts on one switch: a node on each of three, brokers on others and here

mount -t tmpfs tmpfs /run # where `ip netns` keeps names
ip link set lo up
ip link add switch type bridge
ip address add "$network.1/24" dev switch
ip link set switch up

addresses=$network.11:9876,$network.12:9876,$network.13:9876
members=1=$network.11:9976,2=$network.12:9976,3=$network.13:9976
IFS=, read -ra address <<<"$addresses"

# host NAME NUMBER
host() {
  ip netns add "$1"
  ip link add "to-$1" type veth peer name eth0 netns "$1"
  ip link set "to-$1" master switch up
  ip -n "$1" address add "$network.$2/24" dev eth0
  ip -n "$1" link set eth0 up
}

# link UP_OR_DOWN HOST...
link() {
  local one
  for one in "${@:2}"; do
    ip -n "$one" link set eth0 "$1"
  done
}

# node NUMBER
node() {
  host "node-$1" "1$1"
  spawn "node-$1" ip netns exec "node-$1" "$BIN" serve --node-id "$1" --data "$work/node-$1" \
    --listen "$network.1$1:9876" --members "$members" -c "$work/nodes.conf"
}

ready() { "$BIN" probe --http "$network.1$1:10076"; }

# broker_at NUMBER COMMAND...: the command begins the process where it runs.
broker_at() {
  local number=$1
  shift
  spawn "broker-$number" "$@" "$BIN" play --addr "$addresses" --brokers 1 --first "$number" --topics 2 --period 5
}
# play_many FIRST LAST: brokers here, with a timeout of 30 s, that speak every second.
play_many() {
  spawn many "$BIN" play --addr "$addresses" --first "$1" --brokers "$(($2 - $1 + 1))" --topics 2 --period 1 \
    --broker-timeout-ms 30000
}

# --- what nodes say

# all_nodes SAYS BROKER...: every node has a route, and it names, or does not name, each of them.
all_nodes() {
  local says=$1 one route broker named
  shift
  for one in "${address[@]}"; do
    route=$("$BIN" route --addr "$one" --json play-topic-0) || return 1
    for broker in "$@"; do
      named=no
      if [[ "$route" == *"\"play-broker-$broker\""* ]]; then named=yes; fi
      [ "$named" = "$says" ] || ! echo "node $one names play-broker-$broker: $named" || return 1
    done
  done
}

known() { all_nodes yes "$@"; }

# within SECONDS COMMAND...: true as soon as the command is; its last words otherwise.
within() { wait_until "$@" || "${@:2}"; }

# stay SECONDS BROKER...: all the time.
stay() {
  local end=$((SECONDS + $1))
  shift
  while [ "$SECONDS" -lt "$end" ]; do
    known "$@" || return 1
    sleep 0.2
  done
}

# removed CAUSE NUMBER: that many brokers left unasked for this cause, as every node applied it.
removed() {
  local number
  for number in 1 2 3; do
    ready "$number" >/dev/null || return 1
    metrics "$number" | grep -xF "rocketmq_namesrv_brokers_removed_total{cause=\"$1\"} $2" \
      || ! metrics "$number" | grep brokers_removed_total || return 1
  done
}

metrics() {
  exec 3<>"/dev/tcp/$network.1$1/10076"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  cat <&3
  exec 3>&-
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# --- the test

if [ "$off" = yes ]; then
  printf '%s\n' brokerKeepAliveIdleSeconds=0 brokerTcpUserTimeoutMillis=0
fi >"$work/nodes.conf"
for number in 1 2 3; do node "$number"; done
for number in 1 2 3; do check "node $number is ready" within 60 ready "$number"; done
host dying 2
host living 3
broker_at 0 ip netns exec dying
broker_at 1 ip netns exec living
broker_at 2
check 'every node knows every broker' within 20 known 0 1 2

link down dying
check "a host's link is down for $link_is_down_s s: its broker stays" stay "$link_is_down_s" 0 1 2
link up dying
check '  also afterwards' stay "$gone_within_s" 0 1 2
check '  nobody was removed' removed disconnected 0

link down dying
cut_ms=$(now_ms)
check "its link is down for good: its broker leaves every node in less than $gone_within_s s" \
  within "$gone_within_s" all_nodes no 0
echo "              after $(($(now_ms) - cut_ms)) ms"
check '  since its connections ended, not by its timeout' removed disconnected 1
check '  the others stay' known 1 2
link up dying
check '  with the link it comes back' within 20 known 0 1 2

many=(10 11 12 13 14 15)
play_many 10 15
check 'every node knows six more brokers' within 20 known 0 1 2 "${many[@]}"
link down node-1 node-2 node-3
sleep "$nodes_are_down_s"
link up node-1 node-2 node-3
check "the links of all nodes were down for $nodes_are_down_s s: every broker is there" \
  within 20 known 0 1 2 "${many[@]}"
check '  also afterwards' stay "$gone_within_s" 0 1 2 "${many[@]}"
check '  nobody was removed for its connections' removed disconnected 1
check '  nor for its silence' removed expired 0
end_all TERM
summary
