#!/usr/bin/env bash
# Cuts the power under a store that is writing, and checks what is left.
#
#   scripts/power-cut.sh [--trials N] [--seed N] [--only snapshots|log] [--keep DIR]
#
# The power cut: a store writes to a fresh ext4 image on a loop device. At a random moment the writer is stopped and the
# image is copied. The copy has what reached the device and nothing of the page cache, as a disk has after a power cut.
# It is mounted (which replays ext4's journal) and checked: everything that was acknowledged must be there and whole.
#
#   --trials N   how many cuts (20)
#   --seed N     what is written, and the moments of the cuts (a random one, which is printed)
#   --only PART  snapshots or log (both)
#   --keep DIR   where the images of failed trials are kept (nowhere)
#
# Needs root, mkfs.ext4 and loop devices. The last line is 'N passed, N failed'. Exit code: 0 all passed, 1 one failed,
# 2 it could not be tried.
set -euo pipefail

usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; }
refuse() { echo "power-cut.sh: $*" >&2; exit 2; }

trials=20 seed=$RANDOM$RANDOM keep='' only=()
while [ $# -gt 0 ]; do
  case $1 in
    --trials) trials=${2:?--trials needs a number}; shift 2 ;;
    --seed) seed=${2:?--seed needs a number}; shift 2 ;;
    --only) only=(--only "${2:?--only needs snapshots or log}"); shift 2 ;;
    --keep) keep=${2:?--keep needs a directory}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ "$(id -u)" -eq 0 ] || refuse 'mounting an image needs root'
command -v mkfs.ext4 > /dev/null || refuse 'mkfs.ext4 is missing (package e2fsprogs)'

cd "$(dirname "$0")/.."
cargo build --quiet --package storage --example torture
torture=$(pwd)/${CARGO_TARGET_DIR:-target}/debug/examples/torture

# In memory where that is possible: the moment of the copy should be short.
base=/dev/shm
[ -d "$base" ] && [ -w "$base" ] || base=${TMPDIR:-/tmp}
work=$(mktemp -d "$base/power-cut.XXXXXX")
mount=$work/mount writer=''
mkdir "$mount"
end_writer() {
  if [ -n "$writer" ]; then
    kill -KILL "$writer" 2> /dev/null || true
    wait "$writer" 2> /dev/null || true
    writer=''
  fi
}
clean_up() {
  end_writer
  if mountpoint -q "$mount"; then umount "$mount"; fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' INT TERM

RANDOM=$((seed % 32768))

# One cut. Says what it found; its status is the verdict.
trial() {
  local number=$1 image=$work/image copy=$work/copy history=$work/history deadline pause_ms
  # Said out loud: a function that is asked for its verdict does not stop at errors by itself.
  if ! { truncate -s 1G "$image" && mkfs.ext4 -q -F "$image" && mount -o loop "$image" "$mount"; }; then
    refuse "trial $number: an image cannot be made or mounted"
  fi
  : > "$history"
  "$torture" writer "$mount/data" --seed $((seed + number)) "${only[@]}" > "$history" 2> "$work/writer.log" &
  writer=$!
  deadline=$((SECONDS + 20))
  until grep -q '^ready' "$history"; do
    if ! kill -0 "$writer" 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      echo "the writer did not begin: $(tail -n 1 "$work/writer.log")"
      return 1
    fi
    sleep 0.01
  done
  pause_ms=$((RANDOM % 1500 + 20))
  sleep "$(printf '%d.%03d' $((pause_ms / 1000)) $((pause_ms % 1000)))"
  if ! kill -STOP "$writer" 2> /dev/null; then
    echo "the writer ended by itself: $(tail -n 1 "$work/writer.log")"
    return 1
  fi
  # What is acknowledged is read first: nothing is added while the writer is stopped, but be plain about the order.
  if ! { cp "$history" "$work/acknowledged" && cp --sparse=always "$image" "$copy"; }; then
    refuse "trial $number: the image cannot be copied"
  fi
  end_writer
  umount "$mount" || refuse "trial $number: the image cannot be unmounted"
  if ! mount -o loop "$copy" "$mount"; then
    echo 'the copy cannot be mounted'
    return 1
  fi
  "$torture" checker "$mount/data" "$work/acknowledged" "${only[@]}" 2>&1
}

echo "power-cut.sh: repeat with --seed $seed --trials $trials ${only[*]}"
passed=0 failed=0
for number in $(seq "$trials"); do
  if trial "$number" > "$work/summary"; then
    passed=$((passed + 1)) verdict=passed
    echo "trial $number: $(cat "$work/summary")"
  else
    failed=$((failed + 1)) verdict=failed
    echo "trial $number: FAILED: $(cat "$work/summary")"
  fi
  end_writer
  if mountpoint -q "$mount"; then umount "$mount"; fi
  if [ -n "$keep" ] && [ "$verdict" = failed ]; then
    mkdir -p "$keep/$number"
    mv "$work/copy" "$work/acknowledged" "$keep/$number/" 2> /dev/null || true
  fi
  rm -f "$work/image" "$work/copy" "$work/history" "$work/acknowledged"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
