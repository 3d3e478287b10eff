"""Positions are moved behind the markers of transactions at the end of a partition, so that a group
that has read everything has no lag.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.aio
from tests.integration.consumer.styles import EARLIEST, SETTINGS, Place
from tests.support.patience import PATIENCE_S

ORDERS = ottla.TopicPartition("orders", 0)
END = 4
"""After a record, a marker, an aborted record, and a marker."""

LEVELS = ["read_committed", "read_uncommitted"]


def fill(log: ottla.Log) -> None:
    log.create_topic("orders")
    place = Place(log, log, None)
    for is_commit in (True, False):
        place.write_transaction("orders", b"tea", is_commit=is_commit)
    assert log.offsets("orders")[0] == (0, END)


def settings(level: str, **others: Any) -> dict[str, Any]:
    return {**EARLIEST, "isolation.level": level, **others}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_automatic", [True, False])
def test_what_is_read_to_the_end_is_committed_to_the_end(
    tmp_path: Path, level: str, is_automatic: bool
) -> None:
    with ottla.open(tmp_path, SETTINGS) as log:
        fill(log)
        own = settings(level, **{"enable.auto.commit": is_automatic})
        with ottla.Consumer(log, "cooks", settings=own) as consumer:
            consumer.assign([ORDERS])
            count = 1 if level == "read_committed" else 2
            assert len(consumer.consume(count, PATIENCE_S)) == count
            while consumer.position(ORDERS) != END:
                assert consumer.poll(0.02) is None
            assert consumer.lag(ORDERS) == 0
            if not is_automatic:
                consumer.commit()
        assert ottla.Admin(log).group_offsets("cooks")[ORDERS].offset == END


def test_what_is_not_returned_yet_is_not_passed_over(tmp_path: Path) -> None:
    with ottla.open(tmp_path, SETTINGS) as log:
        fill(log)
        log.append("orders", b"coffee")
        own = settings("read_committed", **{"max.poll.records": 1})
        with ottla.Consumer(log, "cooks", settings=own) as consumer:
            consumer.assign([ORDERS])
            assert consumer.poll(PATIENCE_S) is not None
            assert [consumer.position(ORDERS) for _ in range(3)] == [1, 1, 1]
            last = consumer.poll(PATIENCE_S)
            assert last is not None
            assert (last.offset, last.value) == (END, b"coffee")


def test_a_record_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    def read(value: bytes) -> str:
        if value == b"coffee":
            raise ValueError("no tea")
        return value.decode()

    with ottla.open(tmp_path, SETTINGS) as log:
        log.create_topic("orders")
        log.append_many("orders", [b"tea", b"coffee"])
        own = settings("read_committed")
        with ottla.Consumer(log, "cooks", settings=own, value_deserializer=read) as consumer:
            consumer.assign([ORDERS])
            assert consumer.poll(PATIENCE_S) is not None
            for _ in range(2):
                assert consumer.position(ORDERS) == 1
                with pytest.raises(ottla.UserError, match="seek to 2 to skip it"):
                    consumer.poll(PATIENCE_S)


def test_an_event_loop_commits_the_end(tmp_path: Path) -> None:
    async def read(log: ottla.Log) -> None:
        own = settings("read_committed")
        async with ottla.aio.Consumer(log, "cooks", settings=own) as consumer:
            consumer.assign([ORDERS])
            assert await consumer.poll(PATIENCE_S) is not None
            while consumer.position(ORDERS) != END:
                assert await consumer.poll(0.02) is None

    with ottla.open(tmp_path, SETTINGS) as log:
        fill(log)
        asyncio.run(read(log))
        assert ottla.Admin(log).group_offsets("cooks")[ORDERS].offset == END


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_command_commits_the_end(tmp_path: Path, level: str) -> None:
    with ottla.open(tmp_path / "data", SETTINGS) as log:
        fill(log)
        address = log.listen("127.0.0.1:0").address
        arguments = ["consume", address, "orders", "--group", "cooks", "-e", "--isolation", level]
        command = [sys.executable, "-m", "ottla", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        assert ottla.Admin(log).group_offsets("cooks")[ORDERS].offset == END
