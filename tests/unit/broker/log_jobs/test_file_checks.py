"""Files that another program has removed or cut short under a broker."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.log_jobs import file_checks
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch, open_broker

FIRST, SECOND, LAST = (f"/d/t-0/{base:020}.log" for base in (0, 1, 2))
CHECK_MS = 300_000


def remove(disk: FakeFileSystem, path: str) -> None:
    disk.remove(path)


def shorten(disk: FakeFileSystem, path: str) -> None:
    disk.open(path, writable=True).truncate(10)


@pytest.mark.parametrize(
    ("damage", "path", "text"),
    [
        (remove, FIRST, "at byte 0: the file is gone"),
        (shorten, SECOND, "at byte 10: the file ends here, and had "),
        (remove, LAST, "at byte 0: the file is gone"),
    ],
)
def test_damage_that_no_read_meets_is_told_once(
    damage: Callable[[FakeFileSystem, str], None], path: str, text: str, caplog: Any
) -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d", log_retention_check_interval_ms=str(CHECK_MS))
    partition = broker.admin.create_topic(NewTopic(name="t", partition_count=1)).partition(0)
    for _ in range(3):
        broker.appends.append(partition, batch(b"v"), now_ms=NOW_MS)
        broker.appends.write_out()
        partition.log.writer.flush()
        if partition.log.log_end_offset < 3:
            partition.log.writer.roll(NOW_MS)
    caplog.set_level(logging.ERROR)
    pass_of(broker, 1)
    assert not caplog.messages
    damage(disk, path)
    for number in (2, 3):
        pass_of(broker, number)
    (line,) = caplog.messages
    assert line.startswith(f"cannot read t-0: {path} {text}")


def pass_of(broker: Any, number: int) -> None:
    for step in range(20):
        broker.scheduler.run_due(at(number * CHECK_MS + step))


def test_files_are_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "FILES_PER_STEP", 4)
    broker = open_broker(FakeFileSystem(), "/d")
    broker.admin.create_topic(NewTopic(name="t", partition_count=6))
    checks = file_checks.FileChecks(broker.directories, lambda *_: None)
    steps = 1
    while checks.run_slice(at(0)):
        steps += 1
    assert steps == 4
