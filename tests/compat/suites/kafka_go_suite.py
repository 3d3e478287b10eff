"""kafka-go's own tests, out of Debian's package of it, against `ottla serve`.

A client in Go of 2019 for Kafka 0.10 and 0.11, which speaks fixed versions. Run with
`python -m tests.compat.suites.kafka_go_suite`. A test that fails without a reason below, or passes
in spite of one, makes the run fail.
"""

import sys
import tempfile
from pathlib import Path

from tests.compat.suites.go_packages import absence, copy_package, rewrite, run_tests, version_of
from tests.compat.suites.suite import broker, not_run, report

IMPORT_PATH = "github.com/segmentio/kafka-go"
DEBIAN_PACKAGE = "golang-github-segmentio-kafka-go-dev"
SUITE = "kafka-go"

BROKER_SETTINGS = {"node.id": "1"}
USUAL_PORT = "9092"

MADE_AGAIN = (
    "it asks for the topic it has deleted, which makes it again: Kafka reports the new one "
    "missing at first, Ottla describes it at once"
)
DEADLOCK = (
    "it waits forever when its reader is faster than its writer: they share a connection, and a "
    "broker looks at no request after a fetch that waits"
)
FIRST_LINE = "func testConnWriteReadConcurrently(t *testing.T, conn *Conn) {\n"

KNOWN_GAPS = {
    "TestConn/test_delete_topics": MADE_AGAIN,
    "TestConn/test_delete_topics_with_an_invalid_topic": MADE_AGAIN,
}


def main() -> int:
    reason = absence(IMPORT_PATH, DEBIAN_PACKAGE)
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        gopath = Path(scratch) / "go"
        package = copy_package(IMPORT_PATH, gopath)
        with broker(Path(scratch) / "data", BROKER_SETTINGS, host="localhost") as address:
            port = address.rpartition(":")[2]
            changes = {USUAL_PORT: port, FIRST_LINE: f'{FIRST_LINE}\tt.Skip("{DEADLOCK}")\n'}
            rewrite(package.glob("*_test.go"), changes)
            outcomes = run_tests(package, gopath)
    return report(f"{SUITE} {version_of(DEBIAN_PACKAGE)}", outcomes, KNOWN_GAPS)


if __name__ == "__main__":
    sys.exit(main())
