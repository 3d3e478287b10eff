"""The integration suites of kafka-python 2.0.2 (2020) and 1.4.7 (2019) against `ottla serve`.

Many still run these. 1.4 has the first clients of the library too: version 0 of everything, message
sets of magic 0, gzip. Run with `python -m tests.compat.suites.old_kafka_python_suite`. A test that
fails without a reason below, or passes in spite of one, makes the run fail.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.compat.suites import old_kafka_python_fixtures
from tests.compat.suites.python_packages import run_pytest, unpack_source
from tests.compat.suites.suite import broker, report

MODULES = (
    "test_admin_integration",
    "test_client_integration",
    "test_consumer_group",
    "test_consumer_integration",
    "test_producer",
    "test_producer_integration",
)
"""Not those of SASL, which Ottla has not, nor of leaders that change, of which it has one."""

BROKER_SETTINGS = {
    "num.partitions": "2",
    "node.id": "0",
    "group.min.session.timeout.ms": "1000",
}
"""What the suites' own brokers are given, and their tests rely on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    version: str
    kafka_version: str
    """What the suite is told it talks to: the newest that this release knows."""

    known_gaps: dict[str, str]


RELEASES = (
    Release(
        version="2.0.2",
        kafka_version="2.5.0",
        known_gaps={
            "test_create_describe_delete_acls": "its broker has no authorizer: SECURITY_DISABLED",
            "test_describe_consumer_group_does_not_exist": "it expects that nobody has asked for "
            "a group before, and that there is no coordinator then; there always is",
        },
    ),
    Release(
        version="1.4.7",
        kafka_version="1.1.1",
        known_gaps={
            "test_commit_fetch_offsets": "it expects that metadata of offsets committed with "
            "version 0, which went to ZooKeeper, are lost; they are kept",
        },
    ),
)


def main() -> int:
    return max(run(release) for release in RELEASES)


def run(release: Release) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        suite = unpack_source(f"kafka-python=={release.version}", Path(scratch))
        fixtures = old_kafka_python_fixtures.__file__
        for name in ("conftest.py", "fixtures.py"):
            shutil.copy(fixtures, suite / "test" / name)
        (suite / "test" / "__init__.py").write_text("import unittest\n")
        (suite / "mock.py").write_text("from unittest.mock import *\n")
        modules = [suite / "test" / f"{name}.py" for name in MODULES]
        with broker(Path(scratch) / "data", BROKER_SETTINGS) as address:
            outcomes = run_pytest(
                suite,
                [str(one) for one in modules if one.exists()],
                {"BROKER": address, "KAFKA_VERSION": release.kafka_version},
            )
    return report(f"kafka-python {release.version}'s suite", outcomes, release.known_gaps)


if __name__ == "__main__":
    sys.exit(main())
