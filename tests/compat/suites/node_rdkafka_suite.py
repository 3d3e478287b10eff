"""node-rdkafka's own end-to-end tests, out of its npm package, against `ottla serve`.

The binding for Node of librdkafka, which npm compiles. Run with
`python -m tests.compat.suites.node_rdkafka_suite`; it needs node, npm and a compiler for C++. A
test that fails without a reason below, or passes in spite of one, makes the run fail.
"""

import sys
import tempfile
from pathlib import Path

from tests.compat.suites.npm_packages import absence, install, run_mocha
from tests.compat.suites.suite import broker, make_topics, not_run, report

SUITE = "node-rdkafka 3.6.1"
PACKAGES = ("node-rdkafka@3.6.1", "mocha@10.8.2")
TOPICS = dict.fromkeys(("test", "test2", "test3", "test4", "test5", "test6"), 1)
"""With their partitions, as the suite's own broker has them."""

NULL_FOR_EMPTY = "an empty buffer has no address in Node 20, and the client sends null for it"
KNOWN_GAPS = {
    "Consumer/Producer: should be able to produce and consume messages: "
    "empty buffer key and empty value": NULL_FOR_EMPTY,
    "Consumer/Producer: should be able to produce and consume messages: "
    "empty key and empty value": NULL_FOR_EMPTY,
    "Producer with_dr_msg_cb: should produce a message with an empty payload and empty key "
    "(https://github.com/Blizzard/node-rdkafka/issues/117)": NULL_FOR_EMPTY,
}


def main() -> int:
    reason = absence()
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        suite = install(Path(scratch), PACKAGES) / "node-rdkafka"
        with broker(Path(scratch) / "data", {}) as address:
            make_topics(address, TOPICS)
            flags = ["--exit", "--timeout", "30000"]
            outcomes = run_mocha(
                suite, "e2e/*.spec.js", flags=flags, settings={"KAFKA_HOST": address}
            )
    return report(SUITE, outcomes, KNOWN_GAPS)


if __name__ == "__main__":
    sys.exit(main())
