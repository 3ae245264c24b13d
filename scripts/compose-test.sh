#!/usr/bin/env bash
# The image and docker-compose.yml, tried with a Docker daemon of the test's own: three nodes become healthy, agree, lose
# their leader, go on, and the restart policy brings it back.
#   scripts/compose-test.sh [--keep]
# --keep  leave the working folder, with the daemon's log
# Runs as root and installs what is missing (scripts/install-build-deps.sh containers). The daemon lives in a network
# namespace of its own, so its bridges, rules and published ports end with it. The base image is made by debootstrap and kept
# in the user's cache folder, so no image registry is needed. BIN names the server's binary (default: the release
# build). The last line is 'N passed, N failed'; the exit code is 1 if any failed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

keep=no
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  --keep) keep=yes ;;
  '') ;;
  *) die "unknown argument $1; see --help" ;;
esac
[ "$(id -u)" = 0 ] || die "a Docker daemon needs root"
"$repository/scripts/install-build-deps.sh" containers
binary

work=$(mktemp -d)
cache=${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/raft-namesrv
export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=1 DOCKER_CONFIG=$work/config
export COMPOSE_PROJECT_NAME=raftnamesrvtest
PATH=/usr/bin:$PATH:/usr/sbin:/sbin

cleanup() {
  compose down --volumes --timeout 5 >/dev/null 2>&1 || true
  end_all TERM
  if [ "$keep" = yes ]; then echo "the daemon's log is in $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT

compose() { docker-compose -f "$repository/docker-compose.yml" "$@"; }

# Runs a command where the published ports are.
inside() { nsenter --net="/proc/${pids[dockerd]}/ns/net" "$@"; }

namesrv() { inside "$BIN" "$@"; }

# --- the daemon and the base image

start_daemon() {
  # shellcheck disable=SC2016  # expanded by the inner shell
  spawn dockerd unshare --net sh -c 'ip link set lo up && exec dockerd "$@"' dockerd \
    --data-root "$work/docker" --exec-root "$work/exec" --pidfile "$work/docker.pid" --host "$DOCKER_HOST" "$@"
  wait_until 30 docker version
}

# A kernel without the iptables modules still has bridges, and Docker's own proxy for published ports.
start_any_daemon() {
  start_daemon && return
  end dockerd
  start_daemon --iptables=false --ip6tables=false && return
  die "no Docker daemon starts here: $(tail -n 5 "$work/dockerd.out")"
}

import_base_image() {
  local archive=$cache/debian-bookworm-slim.tar
  if [ ! -f "$archive" ]; then
    mkdir -p "$cache"
    debootstrap --variant=minbase bookworm "$work/root" >"$work/debootstrap.out" 2>&1 \
      || die "debootstrap failed: $(tail -n 3 "$work/debootstrap.out")"
    rm -rf "$work/root"/var/{cache/apt,lib/apt/lists}/* "$work/root"/usr/share/{doc,man,locale}/*
    tar -C "$work/root" -cf "$archive.part" .
    mv "$archive.part" "$archive"
  fi
  docker import "$archive" debian:bookworm-slim
}

build_image() {
  mkdir -p "$work/context"
  cp "$BIN" "$work/context/raft-namesrv"
  docker build --build-arg BINARY_FROM=prebuilt --tag raft-namesrv --file "$repository/Dockerfile" "$work/context"
}

# --- checks

healthy() {
  local node
  for node in "$@"; do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$(compose ps -q "node$node")")" = healthy ] || return 1
  done
}

address() { echo "127.0.0.1:$((9876 + $1 - 1))"; }

leader() { namesrv status --addr "$(address 1),$(address 2),$(address 3)" | leader_in_status; }

value_at() {
  local node
  for node in "${@:3}"; do
    [ "$(namesrv kv get --addr "$(address "$node")" TEST "$1")" = "$2" ] || return 1
  done
}

# Docker does not restart what `docker kill` ended, so the process is killed from outside, as a crash would.
kill_node() { kill -9 "$(docker inspect --format '{{.State.Pid}}' "$(compose ps -q "node$1")")"; }

restarted() { [ "$(docker inspect --format '{{.RestartCount}}' "$(compose ps -q "node$1")")" -ge 1 ]; }

# What comes after would only fail for the same reason.
go_on() {
  [ "$checks_failed" -eq 0 ] || { summary; exit 1; }
}

nothing_left() { [ -z "$(docker ps --all --quiet)$(docker volume ls --quiet)" ]; }

start_any_daemon
check 'the base image is imported' import_base_image
go_on
check 'the image builds' build_image
go_on
check 'the server runs as a user of its own' [ "$(docker inspect --format '{{.Config.User}}' raft-namesrv)" = raft-namesrv ]
check 'compose starts three nodes' compose up --detach --no-build
check 'all become healthy' wait_until 60 healthy 1 2 3
go_on
check 'a key is put through node 1' namesrv kv put --addr "$(address 1)" TEST first 1
check '  and read at every node' wait_until 5 value_at first 1 1 2 3

victim=$(leader) || die "no leader"
survivors=()
for node in 1 2 3; do
  if [ "$node" != "$victim" ]; then survivors+=("$node"); fi
done
kill_node "$victim"
check "node $victim, the leader, is killed: survivors go on reading" value_at first 1 "${survivors[@]}"
check '  and writing' wait_until 10 namesrv kv put --addr "$(address "${survivors[0]}")" TEST second 2
check 'the restart policy brings it back' wait_until 30 restarted "$victim"
check '  healthy' wait_until 60 healthy "$victim"
check '  with what it missed' wait_until 5 value_at second 2 1 2 3

check 'compose takes everything down' compose down --volumes
check '  and leaves nothing' nothing_left
summary
