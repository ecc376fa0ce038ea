#!/usr/bin/env bash
# Runs a command beside an Apache Kafka of its own (KRaft, one broker, a free port of 127.0.0.1), whose address the command finds in
# PAYGRID_TEST_KAFKA, and stops the broker afterwards. The server comes from Maven Central by its coordinates (pom.xml).
#
#   deploy/kafka/run.sh go test ./shard/relay
#
# Where Java, Maven or Maven Central is missing it says so, runs nothing, and ends well: it is one more broker to test with, not the only one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
jars=${PAYGRID_KAFKA_JARS:-$here/../../bin/kafka}
work=$(mktemp -d)
broker=

stop() {
    if [[ -n $broker ]]; then
        kill -TERM "$broker" 2>/dev/null || true
        wait "$broker" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap stop EXIT

skip() {
    echo "SKIPPED: not run against Apache Kafka: $1" >&2
    exit 0
}

# free_port prints a port that nobody listens on just now.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 20000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}

command -v java >/dev/null || skip "there is no java; install a Java 17 runtime"
major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
[[ ${major:-0} -ge 17 ]] || skip "java is version ${major:-unknown}; Kafka's server wants 17 or later"

if ! compgen -G "$jars/kafka_2.13-*.jar" >/dev/null; then
    command -v mvn >/dev/null || skip "there is no mvn to fetch the server with; install Maven"
    echo "fetching Apache Kafka with Maven …" >&2
    mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars" >"$work/mvn.log" 2>&1 ||
        skip "Maven could not fetch it: $(grep -m1 ERROR "$work/mvn.log" || tail -1 "$work/mvn.log")"
fi
version=$(basename "$(compgen -G "$jars/kafka_2.13-*.jar" | head -1)" .jar)

client=$(free_port)
controller=$(free_port)
sed -e "s/@CLIENT@/$client/; s/@CONTROLLER@/$controller/; s|@DATA@|$work/data|" "$here/server.properties" >"$work/server.properties"
java_kafka() { java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*" "$@"; }
java_kafka kafka.tools.StorageTool format --standalone -t "$(java_kafka kafka.tools.StorageTool random-uuid 2>/dev/null)" \
    -c "$work/server.properties" >"$work/format.log" 2>&1 || { cat "$work/format.log" >&2; exit 1; }
java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*" kafka.Kafka "$work/server.properties" >"$work/server.log" 2>&1 &
broker=$!
for _ in $(seq 120); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$client") 2>/dev/null; then
        echo "Apache Kafka ($version) listens on 127.0.0.1:$client" >&2
        PAYGRID_TEST_KAFKA="127.0.0.1:$client" "$@"
        exit
    fi
    kill -0 "$broker" 2>/dev/null || break
    sleep 0.5
done
echo "Apache Kafka ($version) did not start:" >&2
tail -20 "$work/server.log" >&2
exit 1
