#!/usr/bin/env bash
# Asks every node for one topic and compares the answers; fails when one has none or they differ.
#   scripts/query.sh TOPIC [FLAG...]     flags of `raft-namesrv route`, such as --linearizable or --json
# Environment: NAMESRV_ADDR, the nodes (default: those of scripts/cluster.sh); BIN, the binary (default: the release build).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
binary
exec "$BIN" route "$@" --addr "${NAMESRV_ADDR:-$("$repository/scripts/cluster.sh" addresses)}"
