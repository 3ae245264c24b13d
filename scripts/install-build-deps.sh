#!/usr/bin/env bash
# Installs with apt what a part of this project needs from the system, and nothing that is there already.
#   scripts/install-build-deps.sh GROUP...
# Groups: build       a C linker, for cargo build (the image's builder stage and CI)
#         lint        shellcheck, for make verify
#         recordings  Python 3, for the player of the recordings
#         interop     JDK 17, Maven, Go, for scripts/interop.sh
#         containers  dockerd, docker-compose, debootstrap, for scripts/compose-test.sh
#         dead-host   ip and network namespaces, for scripts/dead-host-test.sh
#         power-cut   mkfs.ext4 and loop devices, for scripts/power-cut.sh
# Needs root only when something is missing. Rust itself comes from rustup (rust-toolchain.toml names the version).
set -euo pipefail

usage() { sed -n '2,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p'; }

# need COMMAND PACKAGE...: remember the packages when the command is not there.
missing=()
need() {
  local command=$1
  shift
  PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null || missing+=("$@")
}

[ $# -gt 0 ] || { usage >&2; exit 2; }
for group in "$@"; do
  case "$group" in
    -h | --help) usage; exit 0 ;;
    build) need cc gcc libc6-dev ;;
    lint) need shellcheck shellcheck ;;
    recordings) need python3 python3 ;;
    interop)
      need javac openjdk-17-jdk-headless
      need mvn maven
      need go golang-go
      ;;
    containers)
      need dockerd docker.io
      need iptables iptables
      need docker-compose docker-compose
      need debootstrap debootstrap
      ;;
    dead-host)
      need ip iproute2
      need unshare util-linux
      need setpriv util-linux
      ;;
    power-cut)
      need mkfs.ext4 e2fsprogs
      need losetup mount
      ;;
    *) echo "unknown group '$group'; see $0 --help" >&2; exit 2 ;;
  esac
done

[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
