"""confluent-kafka-go's own tests, out of Debian's package of it, against `ottla serve`.

The binding for Go of 2018, over the librdkafka that is installed. Run with
`python -m tests.compat.suites.confluent_kafka_go_suite`. A test that fails without a reason below,
or passes in spite of one, makes the run fail.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.compat.suites.go_packages import (
    absence,
    copy_package,
    proxied_broker,
    run_tests,
    version_of,
)
from tests.compat.suites.suite import not_run, report

IMPORT_PATH = "github.com/confluentinc/confluent-kafka-go"
DEBIAN_PACKAGE = "golang-github-confluentinc-confluent-kafka-go-dev"
SUITE = "confluent-kafka-go"

TEST_SETTINGS = {
    "Brokers": "$KAFKA_PEERS",
    "Topic": "test",
    "GroupID": "testgroup",
    "Config": ["enable.partition.eof=true"],
}
"""The tests wait for the ends of partitions, which librdkafka tells only when asked since 1.0."""

SLOW_NETWORK = """package kafka

import (
	"os"

	toxiproxy "github.com/Shopify/toxiproxy/client"
)

func init() {
	client := toxiproxy.NewClient(os.Getenv("TOXIPROXY_ADDR"))
	proxies, _ := client.Proxies()
	latency := toxiproxy.Attributes{"latency": 20}
	proxies[toxiproxy.Name].AddToxic("", "latency", "", 1, latency)
}
"""
"""Its tests produce to a partition that is not there before the client may know that it is not."""

KNOWN_GAPS: dict[str, str] = {}


def main() -> int:
    reason = absence(IMPORT_PATH, DEBIAN_PACKAGE)
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        gopath = Path(scratch) / "go"
        package = copy_package(IMPORT_PATH, gopath) / "kafka"
        (package / "testconf.json").write_text(json.dumps(TEST_SETTINGS))
        (package / "slow_network_test.go").write_text(SLOW_NETWORK)
        with proxied_broker(Path(scratch) / "data", {}, gopath) as proxied:
            outcomes = run_tests(package, gopath, settings=proxied)
    return report(f"{SUITE} {version_of(DEBIAN_PACKAGE)}", outcomes, KNOWN_GAPS)


if __name__ == "__main__":
    sys.exit(main())
