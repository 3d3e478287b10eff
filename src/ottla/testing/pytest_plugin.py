"""Fixtures for pytest, available wherever Ottla is installed.

    def test_an_order_is_billed(ottla_broker):
        ottla_broker.produce("orders", "a pot of tea")
        bill(ottla_broker.address)
        ottla_broker.assert_produced("bills", value="7 crowns", within_s=5)

Each test has its own broker, on a free port and in its own directory, so that tests can run in any
order and in several processes (pytest-xdist). `ottla_settings` returns its settings: define a
fixture of that name in a `conftest.py` or in a class.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.embedded.log import Log
    from ottla.testing.broker import LocalBroker

SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
"""Settings that shorten waits: a group begins soon, and internal topics have one partition.

The group's delay is not 0, because kafka-python's consumers look up the topic and join at the same
time.
"""


@pytest.fixture
def ottla_settings() -> dict[str, Any]:
    """The settings of this test's broker and log, by Kafka's names; override it."""
    return {}


@pytest.fixture
def ottla_security() -> str:
    """The security protocol of this test's broker, such as "SASL_SSL"; override it."""
    return "PLAINTEXT"


@pytest.fixture
def ottla_broker(
    tmp_path: Path, ottla_settings: dict[str, Any], ottla_security: str
) -> "Iterator[LocalBroker]":
    """A broker that listens on `ottla_broker.address`."""
    from ottla.testing.broker import LocalBroker

    directory, settings = tmp_path / "ottla-broker", SETTINGS | ottla_settings
    with LocalBroker(directory, settings, security=ottla_security) as broker:
        yield broker


@pytest.fixture
def ottla_log(tmp_path: Path, ottla_settings: dict[str, Any]) -> "Iterator[Log]":
    """An open log that only this test uses; `ottla_log.listen()` makes it a broker."""
    from ottla.embedded.log import open as open_log

    with open_log(tmp_path / "ottla-log", SETTINGS | ottla_settings) as log:
        yield log
