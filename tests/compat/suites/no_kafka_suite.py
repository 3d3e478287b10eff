"""no-kafka's own tests, out of its npm package, against `ottla serve` as a Kafka 0.10.0.

A client of 2015 for Kafka 0.9: version 0 of Produce, Fetch, Metadata and JoinGroup, message sets
of magic 0, gzip and snappy. Run with `python -m tests.compat.suites.no_kafka_suite`; it needs node
and npm. A test that fails without a reason below, or passes in spite of one, makes the run fail.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat.suites.npm_packages import absence, install, run_mocha
from tests.compat.suites.suite import FAILED, SKIPPED, broker, make_topics, not_run, report

SUITE = "no-kafka 3.4.4"
PACKAGES = (
    "no-kafka@3.4.4",
    "chai-as-promised@6.0.0",
    "chai@3.5.0",
    "mocha@3.5.3",
    "sinon-chai@2.14.0",
    "sinon@2.4.1",
    "snappy@6.3.5",
)
"""The client and what its tests use, which no-kafka's `devDependencies` name."""

BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "inter.broker.protocol.version": "0.10.0",
    "log.message.format.version": "0.10.0",
}
"""Of the suite's own Kafka. Two tests count the bytes of single messages: a later Kafka packs what
is sent together into one batch, and fails them too."""

TOPICS = {"kafka-test-topic": 3}
USUAL_PORT = "9092"

NO_TLS = "it connects with TLS, which Ottla has not (and its certificates ended in 2020)"
KNOWN_GAPS = {
    "Connection when configuring SSL CA: should load from file": NO_TLS,
    "Connection when configuring SSL CA: should load from string": NO_TLS,
}


def main() -> int:
    reason = absence()
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        modules = install(Path(scratch), PACKAGES)
        with broker(Path(scratch) / "data", BROKER_SETTINGS) as address:
            make_topics(address, TOPICS)
            outcomes = run_mocha(point_at(address, modules), "test/*.js")
        if not has_snappy(modules):
            outcomes = without_snappy(outcomes)
    return report(SUITE, outcomes, KNOWN_GAPS)


def point_at(address: str, modules: Path) -> Path:
    """The suite, written for a broker on Kafka's usual port."""
    suite = modules / "no-kafka"
    port = address.rpartition(":")[2]
    for script in (*suite.glob("lib/*.js"), *suite.glob("test/*.js")):
        script.write_text(script.read_text().replace(USUAL_PORT, port))
    return suite


def has_snappy(modules: Path) -> bool:
    """Whether npm could compile it; without it the client sends what it has uncompressed."""
    probe = ["node", "-e", f"require({str(modules / 'snappy')!r})"]
    return not subprocess.run(probe, check=False, capture_output=True).returncode


def without_snappy(outcomes: dict[str, str]) -> dict[str, str]:
    absent = f"{SKIPPED}: npm could not compile the package snappy"
    return {
        name: absent if "snappy" in name.lower() and outcome != FAILED else outcome
        for name, outcome in outcomes.items()
    }


if __name__ == "__main__":
    sys.exit(main())
