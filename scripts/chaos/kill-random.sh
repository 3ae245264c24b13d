#!/usr/bin/env bash
# Kills random nodes at random moments (kill -9) under load, now and then two of three, and brings them back.
#   scripts/chaos/kill-random.sh [--seconds N] [--seed S]     30 seconds and a random seed by default
# The seed, which is printed, decides who is killed and when. At the end: no look-up failed at a node that was up, every
# acknowledged write is at every node, and all nodes have the same state.
# BIN names the server's binary (default: the release build). The last line is 'N passed, N failed'; the exit code is 1
# if any failed, and then data and logs stay.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

seconds=30
seed=$RANDOM
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --seconds) seconds=${2:?}; shift 2 ;;
    --seed) seed=${2:?}; shift 2 ;;
    *) die "unknown argument $1; see --help" ;;
  esac
done
binary
. "$repository/scripts/lib/chaos.sh"
trap chaos_cleanup EXIT

pause() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

echo "seed $seed (scripts/chaos/kill-random.sh --seconds $seconds --seed $seed)"
start_nodes
start_load
check 'writes are acknowledged' wait_until 20 more_than 10

# After the ports were chosen: they come from the same generator.
RANDOM=$seed
kills=0
end_at=$((SECONDS + seconds))
while [ "$SECONDS" -lt "$end_at" ]; do
  victims=($((RANDOM % 3 + 1)))
  if [ $((RANDOM % 4)) = 0 ]; then victims+=($((victims[0] % 3 + 1))); fi
  pause $((RANDOM % 2000))
  for victim in "${victims[@]}"; do nodes kill "$victim"; done
  kills=$((kills + ${#victims[@]}))
  pause $((RANDOM % 2000))
  # Side by side: one of two alone has no quorum to become ready with.
  check "back after kill -9: node ${victims[*]}" nodes start
done
echo "$kills times kill -9, $(acknowledged | wc -l) keys acknowledged"
check 'writes are acknowledged' wait_until 20 more_than "$(acknowledged | wc -l)"
check_end
summary
