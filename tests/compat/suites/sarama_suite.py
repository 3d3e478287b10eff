"""sarama's functional tests, out of Debian's source package, against `ottla serve`.

A client in Go of 2019, whose tests pose as clients of every Kafka from 0.8.2 to 2.2. Run with
`python -m tests.compat.suites.sarama_suite`, and with `--three-brokers` against a cluster in which
each topic has three replicas, of KRaft with OTTLA_SUITE_CLUSTER=quorum. Where apt-get has no
sources, OTTLA_SARAMA_SOURCES names a folder with them. A test that fails without a reason below, or
passes in spite of one, makes the run fail.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Producer

from tests.compat.suites.go_packages import (
    absence,
    copy_package,
    proxied_broker,
    proxied_cluster,
    run_tests,
    version_of,
)
from tests.compat.suites.suite import THREE, broker, make_topics, not_run, report, where

IMPORT_PATH = "github.com/Shopify/sarama"
DEBIAN_PACKAGE = "golang-github-shopify-sarama-dev"
SOURCE_PACKAGE = "golang-github-shopify-sarama"
ASSERTIONS = ("github.com/stretchr/testify", "golang-github-stretchr-testify-dev")
SUITE = "sarama"

OWN_SOURCES = "OTTLA_SARAMA_SOURCES"
FUNCTIONAL_TESTS = "functional_*test.go"

TESTS = "^(TestFunc|TestVersionMatrix|TestConsumerHighWaterMarkOffset|TestReadOnlyAndAllCommitted)"
"""Those that talk to a broker; the rest of the package talk to mocks of their own."""

KAFKA_VERSION = "2.2.0"
"""The newest that this sarama knows, and its suite is run with."""

BROKER_SETTINGS = {"auto.create.topics.enable": "false"}
TOPICS = {"test.1": 1, "test.4": 4, "test.64": 64, "uncommitted-topic-test-4": 1}
"""With their partitions, as the suite's own cluster has them."""

TRANSACTIONAL_TOPIC = "uncommitted-topic-test-4"
KNOWN_GAPS = dict.fromkeys(
    ("TestFuncClientMetadata", "TestFuncProducingToInvalidTopic"),
    "for a topic's name that is invalid it expects UNKNOWN_TOPIC_OR_PARTITION, as older Kafkas "
    "answer; in 3.9 it is INVALID_TOPIC_EXCEPTION, which later versions of the test accept",
)


def main(words: Sequence[str]) -> int:
    reason = absence(IMPORT_PATH, DEBIAN_PACKAGE) or absence(*ASSERTIONS)
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        sources = own_sources() or fetch_sources(Path(scratch))
        if sources is None:
            return not_run(
                SUITE,
                "apt-get has no sources (add a deb-src line, "
                f"or name a folder that has them in {OWN_SOURCES})",
            )
        run = run_on_three_brokers if THREE in words else run_on_one
        outcomes = run(sources, Path(scratch))
    return report(f"{SUITE} {version_of(DEBIAN_PACKAGE)}{where(words)}", outcomes, KNOWN_GAPS)


def own_sources() -> Path | None:
    """The folder that the user names, if any; ends the run where it has no functional tests."""
    named = os.environ.get(OWN_SOURCES)
    if not named:
        return None
    folder = Path(named)
    if not any(folder.glob(FUNCTIONAL_TESTS)):
        sys.exit(f"{OWN_SOURCES}={named} has no {FUNCTIONAL_TESTS}: name a folder of sarama's")
    return folder


def fetch_sources(scratch: Path) -> Path | None:
    """sarama's own archive, which has the tests that the binary package leaves out."""
    apt = ["apt-get", "source", "--quiet", "--download-only", "--tar-only", SOURCE_PACKAGE]
    done = subprocess.run(apt, cwd=scratch, check=False, capture_output=True, text=True)
    archives = list(scratch.glob(f"{SOURCE_PACKAGE}_*.orig.tar.*"))
    if done.returncode or not archives:
        sys.stderr.write(done.stderr)
        return None
    with tarfile.open(archives[0]) as tar:
        tar.extractall(scratch / "sources", filter="data")
    (unpacked,) = (scratch / "sources").iterdir()
    return unpacked


def run_on_one(sources: Path, scratch: Path) -> dict[str, str]:
    gopath, data = scratch / "go", scratch / "data"
    with broker(data, BROKER_SETTINGS) as address:
        prepare(address)
    with proxied_broker(data, BROKER_SETTINGS, gopath) as proxied:
        return run_suite(sources, gopath, proxied)


def run_on_three_brokers(sources: Path, scratch: Path) -> dict[str, str]:
    gopath = scratch / "go"
    with proxied_cluster(scratch / "cluster", BROKER_SETTINGS, gopath) as (addresses, proxied):
        prepare(addresses, replicas=3)
        return run_suite(sources, gopath, proxied)


def run_suite(sources: Path, gopath: Path, proxied: Mapping[str, str]) -> dict[str, str]:
    package = copy_package(IMPORT_PATH, gopath)
    for tests in sources.glob(FUNCTIONAL_TESTS):
        shutil.copy(tests, package)
    settings = {**proxied, "KAFKA_VERSION": KAFKA_VERSION, "CI": "true"}
    return run_tests(package, gopath, flags=["-run", TESTS], settings=settings)


def prepare(address: str, replicas: int = 1) -> None:
    """Makes the topics, and in one of them six committed records among aborted ones."""
    make_topics(address, TOPICS, replicas)
    producer = Producer({"bootstrap.servers": address, "transactional.id": "prepares-a-suite"})
    producer.init_transactions()
    for number in range(1, 7):
        for word, end in (
            ("Uncommitted", producer.abort_transaction),
            ("Committed", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce(TRANSACTIONAL_TOPIC, f"{word} {number}", partition=0)
            producer.flush()
            end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
