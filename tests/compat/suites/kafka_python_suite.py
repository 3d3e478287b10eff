"""kafka-python's own integration suite, out of its source distribution, against `ottla serve`.

Run with `python -m tests.compat.suites.kafka_python_suite`. A test that fails without a reason
below, or passes in spite of one, makes the run fail.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.compat.suites.suite import broker, outcomes_of_junit, report

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

MODULES = ("test_producer_integration", "test_consumer_integration", "test_admin_integration")
"""The two for SASL and SSL need a broker with security, which Ottla has not."""

KNOWN_GAPS: dict[str, str] = {
    "test_create_describe_delete_acls": "there is no authorizer: SECURITY_DISABLED is answered",
    "test_describe_metadata_quorum": "there is no quorum of controllers to describe",
}


BROKER_SETTINGS = {
    "num.partitions": "4",
    "node.id": "0",
    "group.min.session.timeout.ms": "1000",
}
"""What the suite's own broker is given, and its tests rely on."""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        suite = unpack_suite(Path(scratch))
        with broker(Path(scratch) / "data", BROKER_SETTINGS) as address:
            outcomes = run_suite(suite, address)
    return report("kafka-python's suite", outcomes, KNOWN_GAPS)


def unpack_suite(scratch: Path) -> Path:
    """The source distribution of the version that is installed, with the shim in it."""
    requirement = f"kafka-python=={version('kafka-python')}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(scratch), requirement], check=True)
    (archive,) = scratch.glob("kafka_python-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
    suite = archive.with_name(archive.name.removesuffix(".tar.gz"))
    (suite / "test" / "service.py").write_text(SERVICE_SHIM)
    (suite / "test" / "__init__.py").touch()
    # The fixtures look for Kafka's folder before they notice that the broker is not theirs.
    (suite / "servers" / KAFKA_VERSION / "kafka-bin").mkdir(parents=True)
    return suite


def run_suite(suite: Path, address: str) -> dict[str, str]:
    """Outcome by test: passed, failed, error, or why it was skipped."""
    results = suite / "results.xml"
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "PYTHONPATH": str(suite),
    }
    modules = [f"test/integration/{name}.py" for name in MODULES]
    pytest = [
        "-m",
        "pytest",
        "-p",
        "no:randomly",
        "-q",
        "--tb=no",
        "--timeout=90",
        "--show-capture=no",
    ]
    subprocess.run(
        [sys.executable, *pytest, f"--junitxml={results}", *modules],
        cwd=suite,
        env=environment,
        check=False,
        stdout=(suite / "pytest.log").open("w"),
        stderr=subprocess.STDOUT,
    )
    if not results.exists():
        sys.exit((suite / "pytest.log").read_text()[-4000:])
    return outcomes_of_junit(results)


if __name__ == "__main__":
    sys.exit(main())
