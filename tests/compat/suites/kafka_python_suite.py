"""kafka-python's own integration suite, out of its source distribution, against `ottla serve`.

Run with `python -m tests.compat.suites.kafka_python_suite`, and with `--three-brokers` against a
cluster in which each topic has three replicas, of KRaft with OTTLA_SUITE_CLUSTER=quorum. A test
that fails without a reason below, or passes in spite of one, makes the run fail.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.compat.suites.python_packages import run_pytest, unpack_source
from tests.compat.suites.suite import THREE, broker, cluster, grounds, report, where
from tests.integration.cli.support import SOURCE

SUITE = "kafka-python's suite"

KAFKA_VERSION = "4.3.0"
"""What the suite is told it talks to: what the versions that Ottla answers look like to it."""

SERVICE_SHIM = '''
class ExternalService:
    """A broker that somebody else runs."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    """Named by the suite's fixtures, used only where they start Kafka themselves."""
'''

PATHS = os.pathsep.join((str(SOURCE), str(SOURCE.parent)))
MODULES = ("test_producer_integration", "test_consumer_integration", "test_admin_integration")
SECURED_MODULES = ("test_sasl_integration", "test_ssl_integration")
"""They start a broker for each way to log in, and make their certificates with Java's keytool."""

FIXTURES_SHIM = """

from tests.compat.suites.kafka_python_broker import use_ottla

use_ottla(KafkaFixture, replicas={replicas})
"""

KNOWN_GAPS: dict[str, str] = {
    "test_describe_metadata_quorum": "there is no quorum of controllers to describe",
    "test_describe_configs_broker_resource_returns_configs": "advertised.listeners can be changed "
    "while the broker runs, as in Kafka 3.9; Kafka 4 takes it at the start alone",
}

GAPS_OF_CLUSTERS = {
    **KNOWN_GAPS,
    "test_create_partitions": "it assigns the new partitions to one broker, which it calls 0",
}

UNSTEADY_ON_CLUSTERS = {
    "test_describe_topic_partitions": "it waits until one broker knows its new topic, and then may "
    "ask another, 8 ms later: the controller informs each broker without waiting for the others",
    "test_delete_records": "it takes what one poll returns for all records; a poll returns "
    "what the first of the three brokers has answered",
}
"""Both pass and fail on an unchanged cluster; on a single broker they pass."""

BROKER_SETTINGS = {
    "num.partitions": "4",
    "node.id": "0",
    "group.min.session.timeout.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""What the suite's own broker is given, and its tests rely on."""


CLUSTER_SETTINGS = {name: text for name, text in BROKER_SETTINGS.items() if name != "node.id"}


def main(words: Sequence[str]) -> int:
    is_cluster = THREE in words
    with tempfile.TemporaryDirectory() as scratch:
        suite = unpack_suite(Path(scratch), replicas=3 if is_cluster else 1)
        if is_cluster:
            with cluster(Path(scratch) / "cluster", CLUSTER_SETTINGS) as addresses:
                outcomes = run_suite(suite, addresses.split(",")[0])
            gaps = dict(GAPS_OF_CLUSTERS)
            if not grounds().has_zookeeper:
                del gaps["test_describe_metadata_quorum"]
            return report(f"{SUITE}{where(words)}", outcomes, gaps, UNSTEADY_ON_CLUSTERS)
        with broker(Path(scratch) / "data", BROKER_SETTINGS) as address:
            outcomes = run_suite(suite, address)
        outcomes |= run_secured(suite)
    return report(SUITE, outcomes, KNOWN_GAPS)


def unpack_suite(scratch: Path, replicas: int = 1) -> Path:
    """The source distribution of the version that is installed, with the shim in it."""
    suite = unpack_source(f"kafka-python=={version('kafka-python')}", scratch)
    with (suite / "test" / "integration" / "fixtures.py").open("a") as fixtures:
        fixtures.write(FIXTURES_SHIM.format(replicas=replicas))
    (suite / "test" / "service.py").write_text(SERVICE_SHIM)
    (suite / "test" / "__init__.py").touch()
    # The fixtures look for Kafka's folder before they notice that the broker is not theirs.
    (suite / "servers" / KAFKA_VERSION / "kafka-bin").mkdir(parents=True)
    return suite


def run_suite(suite: Path, address: str) -> dict[str, str]:
    modules = [f"test/integration/{name}.py" for name in MODULES]
    variables = {
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "PYTHONPATH": PATHS,
    }
    return run_pytest(suite, modules, variables)


def run_secured(suite: Path) -> dict[str, str]:
    wanted = [one for one in SECURED_MODULES if "ssl" not in one or shutil.which("keytool")]
    if len(wanted) < len(SECURED_MODULES):
        sys.stdout.write("kafka-python's tests of TLS are not run, they need Java's keytool\n")
    modules = [f"test/integration/{name}.py" for name in wanted]
    return run_pytest(suite, modules, {"KAFKA_VERSION": KAFKA_VERSION, "PYTHONPATH": PATHS})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
