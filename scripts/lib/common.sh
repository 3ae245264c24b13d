# shellcheck shell=bash
# Sourced by the scripts: counted checks, child processes ended by pid, waiting for conditions, free ports.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# The comment block at the top of the running script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# --- the server's binary: $BIN, or the release build

binary() {
  if [ -z "${BIN:-}" ]; then
    (cd "$repository" && cargo build --release --locked) >&2
    BIN=${CARGO_TARGET_DIR:-$repository/target}/release/raft-namesrv
  fi
  [ -x "$BIN" ] || die "$BIN is no executable file (BIN names the server's binary)"
  export BIN
}

# Reads the table of `raft-namesrv status` and gives the number of the leader, the one of the newest term should two
# claim to be it.
leader_in_status() { awk '$3 == "leader" && $4 >= term { term = $4; node = $2 } END { if (!node) exit 1; print node }'; }

# --- checks

checks_passed=0
checks_failed=0

# check NAME COMMAND...: one counted check; its output is shown when it fails.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    checks_passed=$((checks_passed + 1))
    printf '%5ds ok    %s\n' "$SECONDS" "$name"
  else
    checks_failed=$((checks_failed + 1))
    printf '%5ds FAIL  %s\n' "$SECONDS" "$name"
    tail -n 20 <<<"$output" | sed 's/^/             /'
  fi
}

# The last line of every test script; the status tells whether all checks passed.
summary() {
  echo "$checks_passed passed, $checks_failed failed"
  [ "$checks_failed" -eq 0 ] && [ "$checks_passed" -gt 0 ]
}

# --- processes

declare -A pids=()

# spawn NAME COMMAND...: a child in the background that writes to $work/NAME.out; $work is the script's folder.
spawn() {
  local name=$1
  shift
  "$@" >"${work:?}/$name.out" 2>&1 </dev/null &
  pids[$name]=$!
}

# end NAME [SIGNAL]: signal a child and wait until it is gone; KILL after twenty seconds.
end() {
  local name=$1 pid=${pids[$1]:-}
  [ -n "$pid" ] || return 0
  unset "pids[$name]"
  kill -s "${2:-TERM}" "$pid" || true
  wait_until 20 gone "$pid" || kill -s KILL "$pid" || true
  wait "$pid" || true
} 2>/dev/null # bash tells of a killed child wherever it notices

# end_all [SIGNAL]: all children at once.
end_all() {
  local name
  for name in "${!pids[@]}"; do
    kill -s "${1:-TERM}" "${pids[$name]}" 2>/dev/null || true
  done
  for name in "${!pids[@]}"; do
    end "$name" "${1:-TERM}"
  done
}

# A child that nobody has waited for yet stays as a zombie: that is gone, too.
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# --- conditions

# wait_until SECONDS COMMAND...: true as soon as the command is.
wait_until() {
  local deadline=$((${EPOCHREALTIME/[.,]/} / 1000 + $1 * 1000))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $((${EPOCHREALTIME/[.,]/} / 1000)) -lt "$deadline" ] || return 1
    sleep 0.1
  done
}

# --- ports

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_base OFFSET...: a port of which the port itself and those at the offsets are free. Below the range from which the
# kernel takes ports for outgoing connections.
free_base() {
  local base offset free
  while :; do
    base=$((15000 + RANDOM % 16000))
    free=yes
    for offset in 0 "$@"; do
      if port_open $((base + offset)); then free=no; fi
    done
    if [ "$free" = yes ]; then
      echo "$base"
      return
    fi
  done
}

# Of the nodes, once there are any.
base_port=
addresses=

# pick_ports SEPARATOR: sets $base_port, of which three nodes take theirs (service, Raft, HTTP), and $addresses.
pick_ports() {
  base_port=$(free_base 1 2 100 101 102 200 201 202)
  # shellcheck disable=SC2034  # the scripts that source this use it
  addresses="127.0.0.1:$base_port${1}127.0.0.1:$((base_port + 1))${1}127.0.0.1:$((base_port + 2))"
}

# start_at_free_ports SEPARATOR: starts the nodes (by the script's function `nodes`) at picked ports; at others when
# somebody has taken one of them meanwhile.
start_at_free_ports() {
  local attempt status
  for attempt in 1 2 3; do
    pick_ports "$1"
    status=0
    nodes start || status=$?
    [ "$status" -eq 3 ] || return "$status"
    echo "attempt $attempt: a port from $base_port on is taken" >&2
    nodes stop
  done
  return 1
}
