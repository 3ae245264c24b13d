#!/usr/bin/env bash
# The real RocketMQ around three nodes: brokers (master and slave), Java and Go clients and mqadmin, all unmodified; a
# slave acts for a master that is killed; the leader is killed while messages flow, and hangs; two of three nodes die;
# all nodes are restarted.
#   scripts/interop.sh [--release 5.5.0|5.3.3] [--header json|rocketmq] [--nameserver ours|java] [--keep]
#                      [--acting-master]
# --release     which RocketMQ is started
# --header      the header serialization that brokers and Java clients use
# --nameserver  java: three of Java's own nameservers, to see that the checks are right
# --acting-master  only what is checked of slaves that act for their master
# --keep        leave the working folder, with all logs
# Needs JDK 17, Maven and Go (scripts/install-build-deps.sh interop). BIN names the server's binary (default: the
# release build). The last line is 'N passed, N failed'; the exit code is 1 if any failed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

release=5.5.0
header=json
nameserver=ours
keep=no
parts=all
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --release) release=${2:?}; shift ;;
    --header) header=${2:?}; shift ;;
    --nameserver) nameserver=${2:?}; shift ;;
    --acting-master) parts="acting master" ;;
    --keep) keep=yes ;;
    *) die "unknown argument $1; see --help" ;;
  esac
  shift
done
[[ "$nameserver" =~ ^(ours|java)$ ]] || die "--nameserver is ours or java"
[[ "$header" =~ ^(json|rocketmq)$ ]] || die "--header is json or rocketmq"

interop=$repository/tests/interop
work=$(mktemp -d)
cleanup() {
  # The JVMs have nothing to save.
  end_all KILL
  [ "$nameserver" = java ] || nodes stop
  if [ "$keep" = yes ]; then echo "logs are in $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT

. "$repository/scripts/lib/interop-processes.sh"
. "$repository/scripts/lib/interop-checks.sh"
. "$repository/scripts/lib/interop-rolling-restart.sh"
. "$repository/scripts/lib/interop-acting-master.sh"

build
start_nameservers
start_client
if [ "$parts" = all ]; then
  start_brokers
  check_clients
  check_mqadmin
  check_slave
  check_failover
  check_hung_node
  check_lost_quorum
  if [ "$nameserver" = ours ]; then
    check_rolling_restart
    check_one_view
  fi
fi
check_acting_master
summary
