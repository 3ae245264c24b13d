# shellcheck shell=bash disable=SC2034,SC2154  # variables of interop.sh
# Sourced by interop.sh: how nameservers, brokers and clients are built, started and spoken to.

# One small JVM among several on two cores.
java_options=(
  -Xms128m -Xmx256m -Xss512k -XX:+UseSerialGC -XX:TieredStopAtLevel=1
  "-Drocketmq.serialize.type=${header^^}"
  "-Drmq.logback.configurationFile=$interop/logback.xml"
  --add-opens=java.base/java.nio=ALL-UNNAMED
  --add-opens=java.base/sun.nio.ch=ALL-UNNAMED
  --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED
)

build() {
  mvn -q -B -f "$interop/pom.xml" "-Drocketmq.version=$release" \
    dependency:build-classpath "-Dmdep.outputFile=$work/classpath" >"$work/maven.out" 2>&1 \
    || die "Maven cannot fetch RocketMQ $release: $(tail -n 3 "$work/maven.out")"
  classpath="$work/classes:$(cat "$work/classpath")"
  javac -nowarn -cp "$classpath" -d "$work/classes" "$interop"/java/interop/*.java
  (cd "$interop/go" && go build -o "$work/go-client" .)
  [ "$nameserver" = java ] || binary
}

# run_java NAME MAIN ARGUMENT...: replaces this (sub)shell; the JVM's home is $work/NAME.
run_java() {
  local home=$work/$1 main=$2
  shift 2
  mkdir -p "$home"
  export ROCKETMQ_HOME=$home
  exec java "${java_options[@]}" "-Duser.home=$home" "-Djava.io.tmpdir=$home" "-Drocketmq.home.dir=$home" \
    "-Drocketmq.client.logRoot=$home" "-Drocketmq.client.localOffsetStoreDir=$home" -cp "$classpath" "$main" "$@"
}

booted() { grep -q 'boot success' "$work/$1.out"; }

# --- nameservers, numbered from 1

nodes() { DIR=$work/nodes BASE_PORT=$base_port NODE_ARGS="--serialize-type $header" "$repository/scripts/cluster.sh" "$@"; }

start_nameserver() {
  if [ "$nameserver" = ours ]; then
    nodes start "$1"
    return
  fi
  local home=$work/nameserver-$1
  mkdir -p "$home"
  printf '%s\n' "listenPort=$((base_port + $1 - 1))" "rocketmqHome=$home" "kvConfigPath=$home/kv.json" >"$home/namesrv.conf"
  spawn "nameserver-$1" run_java "nameserver-$1" org.apache.rocketmq.namesrv.NamesrvStartup -c "$home/namesrv.conf"
  wait_until 60 booted "nameserver-$1" || die "nameserver $1 does not start: $(tail -n 5 "$work/nameserver-$1.out")"
}

start_nameservers() {
  if [ "$nameserver" = ours ]; then
    start_at_free_ports ';'
  else
    local node
    pick_ports ';'
    for node in 1 2 3; do start_nameserver "$node"; done
  fi
  IFS=';' read -ra address <<<"$addresses"
}

kill_nameserver() {
  if [ "$nameserver" = ours ]; then nodes kill "$1"; else end "nameserver-$1" KILL; fi
}

# signal_nameserver NODE SIGNAL
signal_nameserver() {
  local pid=${pids[nameserver-$1]:-}
  if [ "$nameserver" = ours ]; then pid=$(cat "$work/nodes/$1.pid"); fi
  kill -s "$2" "$pid"
}

# Java's nameservers have no leader: any of them will do.
leader() {
  if [ "$nameserver" = ours ]; then nodes leader; else echo 1; fi
}

# --- brokers

# A broker listens on its port and on the port two below; replication has the next one.
declare -A broker_port=()

# start_broker NAME ID NAMESERVERS [SETTING...]: does not wait for it.
start_broker() {
  local name=$1 id=$2 role=ASYNC_MASTER
  local broker=$name-$id home=$work/$name-$id
  [ "$id" = 0 ] || role=SLAVE
  if [ -z "${broker_port[$broker]:-}" ]; then broker_port[$broker]=$(free_base -2 1); fi
  local port=${broker_port[$broker]}
  mkdir -p "$home"
  cat >"$home/broker.conf" <<CONF
brokerClusterName=InteropCluster
brokerName=$name
brokerId=$id
brokerRole=$role
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
listenPort=$port
haListenPort=$((port + 1))
namesrvAddr=$3
rocketmqHome=$home
storePathRootDir=$home/store
storePathCommitLog=$home/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=99
registerNameServerPeriod=10000
haSendHeartbeatInterval=1000
slaveReadEnable=true
CONF
  printf '%s\n' "${@:4}" >>"$home/broker.conf"
  spawn "$broker" run_java "$broker" org.apache.rocketmq.broker.BrokerStartup -c "$home/broker.conf"
}

await_broker() {
  wait_until 60 booted "$1" || die "broker $1 does not start: $(tail -n 5 "$work/$1.out")"
}

start_brokers() {
  start_broker broker-a 0 "$addresses"
  start_broker broker-a 1 "$addresses"
  await_broker broker-a-0
  await_broker broker-a-1
}

# --- clients

start_client() {
  coproc CLIENT { run_java client interop.Client "$addresses" 2>"$work/client.out"; }
  pids[client]=$CLIENT_PID
}

# client COMMAND...: runs one command in the Java client's JVM; prints its output, the status tells how it went.
client() {
  local line
  echo "$*" >&"${CLIENT[1]}"
  while IFS= read -r -t 120 line <&"${CLIENT[0]}"; do
    case "$line" in
      '## ok') return 0 ;;
      '## failed') return 1 ;;
      *) echo "$line" ;;
    esac
  done
  echo "the Java client is gone or silent: $(tail -n 5 "$work/client.out")"
  return 1
}

go_client() { timeout 120 "$work/go-client" "$1" "$addresses" "${@:2}"; }

start_go_traffic() {
  spawn go-traffic "$work/go-client" traffic "$addresses" "$1" interop_traffic_go
}

go_traffic_flows() { wait_until 40 grep -q flowing "$work/go-traffic.out" || ! cat "$work/go-traffic.out"; }

# The client then waits for what is under way. Not inside a check: only the shell that started it can wait for it.
stop_go_traffic() {
  local pid=${pids[go-traffic]}
  go_traffic_status=0
  kill -s TERM "$pid"
  wait "$pid" || go_traffic_status=$?
  unset 'pids[go-traffic]'
}

go_traffic_is_complete() {
  cat "$work/go-traffic.out"
  return "$go_traffic_status"
}
