"""`LocalBroker.assert_delivered`, and the clock that moves the locks of a share group."""

from pathlib import Path

import pytest

import ottla
from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow


def test_what_a_group_was_given_is_asserted_and_time_takes_locks(tmp_path: Path) -> None:
    explicit = {"share.acknowledgement.mode": "explicit"}
    with LocalBroker(tmp_path / "data", SETTINGS) as broker:
        for value in ("cut", "glue"):
            broker.produce("jobs", value)
        with ottla.Admin(broker.address) as admin:
            kind = ottla.ResourceKind.GROUP
            admin.alter_configs(kind, "workers", {"share.auto.offset.reset": "earliest"})
        with pytest.raises(AssertionError, match="workers should have a record of jobs with any"):
            broker.assert_delivered("workers", "jobs")
        with ottla.ShareConsumer(broker.address, "workers", settings=explicit) as consumer:
            consumer.subscribe("jobs")
            first, second = consumer.consume(2, timeout=PATIENCE_S)
            consumer.accept(first)
            consumer.commit()
            broker.assert_delivered("workers", "jobs", value="cut", is_finished=True)
            broker.assert_delivered("workers", "jobs", value="glue", is_finished=False)
            broker.advance(seconds=31)
            again = consumer.poll(timeout=PATIENCE_S)
            assert again is not None
            assert (again.value, again.delivery_count) == (b"glue", 2)
            with pytest.raises(ottla.LockLostError):
                consumer.accept(second)
        with pytest.raises(AssertionError, match="finished, and 0 of its 1 match; the last are"):
            broker.assert_delivered("workers", "jobs", value="glue", is_finished=True)
