"""pykafka's own tests (2018) against `ottla serve`, as with a Kafka 1.0.

A client by itself, for Kafka 0.8.2 to 1.0: version 0 of most requests, message sets of magic 0 and
1, groups without a library of Kafka's. Run with `python -m tests.compat.suites.pykafka_suite`. A
test that fails makes the run fail.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.compat.suites import pykafka_connection
from tests.compat.suites.python_packages import install, run_pytest, unpack_source
from tests.compat.suites.suite import broker, report

VERSION = "2.8.0"
REQUIREMENTS = ("kazoo", "mock", "setuptools<81", "six", "tabulate")
"""Of the client and its tests; setuptools for its `pkg_resources`."""

MODULES = (
    "test_balancedconsumer",
    "test_cluster",
    "test_partition",
    "test_producer",
    "test_protocol",
    "test_simpleconsumer",
)
SELECTION = (
    "not zk_connect and (not BalancedConsumerIntegrationTests or Managed)"
    " and not GEvent and not RdKafka"
)
"""Not the groups that are kept in ZooKeeper; nor the same tests again with gevent, which pykafka
does not ask for, and with an extension in C that does not come with it."""

NOWHERE = "127.0.0.1:1"


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        suite = unpack_source(f"pykafka=={VERSION}", Path(scratch))
        packages = Path(scratch) / "packages"
        install(REQUIREMENTS, packages)
        adapt(suite)
        modules = [f"tests/pykafka/{name}.py" for name in MODULES]
        with broker(Path(scratch) / "data", {}) as address:
            outcomes = run_pytest(
                suite,
                [*modules, "--timeout=150", "-k", SELECTION],
                {
                    "BROKERS": address,
                    "ZOOKEEPER": NOWHERE,
                    "KAFKA_BIN": str(suite),
                    "KAFKA_VERSION": "1.0.0",
                    "PYTHONPATH": str(packages),
                },
                with_class=True,
            )
    return report(f"pykafka {VERSION}'s suite", outcomes, {})


def adapt(suite: Path) -> None:
    """Has it take the broker that is there, and a Python and pytest of today."""
    shutil.copy(pykafka_connection.__file__, suite / "pykafka" / "test" / "kafka_instance.py")
    (suite / "unittest2.py").write_text("from unittest import *\n")
    (suite / "setup.cfg").unlink()


if __name__ == "__main__":
    sys.exit(main())
