"""An application of Quix Streams against a `LocalBroker`: state, changelog topic and restarts.

Quix Streams needs an older confluent-kafka than the other tests, so it has an environment of its
own: `make quix-client`.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.patience import PATIENCE_S

QUIX = Path(__file__).parent / "quix"
PYTHON = QUIX.parents[2] / ".venv-quix" / "bin" / "python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="Quix Streams is not there: make quix-client"),
]


@contextmanager
def running(address: str, directory: Path) -> Iterator[None]:
    command = [str(PYTHON), str(QUIX / "application.py"), address, str(directory)]
    application = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield
        assert application.poll() is None, application.communicate()[1]
    finally:
        application.terminate()
        try:
            application.communicate(timeout=PATIENCE_S)
        finally:
            application.kill()


def test_an_application_keeps_its_state_in_the_log(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "broker", SETTINGS) as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        broker.produce("orders", "tea", "table 4")
        with running(broker.address, tmp_path / "here"):
            broker.assert_produced("bills", value="bill 1 for tea", within_s=PATIENCE_S)
            broker.fail("produce", "NOT_ENOUGH_REPLICAS", times=1)
            broker.produce("orders", "cake", "table 4")
            broker.assert_produced("bills", value="bill 2 for cake", within_s=PATIENCE_S)
            assert broker.requests("produce") > 0
        broker.restart()
        broker.produce("orders", "milk", "table 4")
        # Elsewhere, so that the state comes out of the changelog topic.
        with running(broker.address, tmp_path / "elsewhere"):
            broker.assert_produced("bills", value="bill 3 for milk", within_s=PATIENCE_S)
        assert len(broker.records("bills")) == 3
