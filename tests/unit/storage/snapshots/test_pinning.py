"""Snapshots of a directory that is written meanwhile: as it was at one instant."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ottla.base.errors import RefusalError, UserError
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.snapshots import pinning
from ottla.storage.snapshots.snapshots import Snapshots
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.logs import values
from tests.support.moving import SMALL_SEGMENTS

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Meanwhile:
    """A file system on which something else happens after some of the calls."""

    def __init__(self, file_system: FakeFileSystem, happen: Callable[[], None]) -> None:
        self._file_system = file_system
        self._happen = happen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file_system, name)
        if name not in ("list", "status", "link"):
            return found

        def call(*arguments: Any) -> Any:
            result = found(*arguments)
            self._happen()
            return result

        return call


def opened(file_system: Any, path: str = "/d") -> Broker:
    ids = itertools.count(5000)
    return open_broker(file_system, path, ids=ids, log_index_size_max_bytes="120", **SMALL_SEGMENTS)


def append(broker: Broker, place: TopicPartition, content: bytes) -> None:
    broker.appends.append(broker.topics.partition(*place), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()
    log = broker.topics.partition(*place).log
    if log.log_end_offset % 20 == 0:
        log.writer.flush()


def recover(file_system: Any) -> Callable[[Sequence[str]], None]:
    return lambda paths: opened(file_system, *paths).close()


def content(file_system: Any, path: str, place: TopicPartition) -> tuple[int, list[bytes]]:
    broker = opened(file_system, path)
    log = broker.topics.partition(*place).log
    found = log.log_start_offset, values(log)
    broker.close()
    return found


def numbered() -> Iterator[bytes]:
    return (b"%04d" % number for number in itertools.count())


@pytest.mark.slow
@pytest.mark.parametrize("calls", [2, 11, 40, 200])
def test_what_is_written_first_is_there_with_all_that_follows_from_it(calls: int) -> None:
    """`a` gets each record before `b` does, in a process that writes, rolls and deletes."""
    file_system = disk("/d")
    broker = opened(file_system)
    for topic in ("a", "b"):
        broker.admin.create_topic(NewTopic(name=topic))
    contents = numbered()
    count = 0

    def happen() -> None:
        nonlocal count
        count += 1
        if count % calls or count > 1200:
            return
        one = next(contents)
        append(broker, A, one)
        append(broker, B, one)
        if count % (5 * calls) == 0:
            log = broker.topics.partition(*A).log
            log.maintenance.delete_records_before(log.log_end_offset // 2)
            broker.directories[0].checkpoints.write()
            log.maintenance.delete_segments_below_start()

    for _ in range(30):
        append(broker, A, one := next(contents))
        append(broker, B, one)
    snapshots = Snapshots(Meanwhile(file_system, happen), "/d")  # type: ignore[arg-type]
    snapshots.create_beside(
        "s", now_ms=NOW_MS, on_copied=lambda *_: None, recover=recover(file_system)
    )
    start, firsts = content(file_system, "/d.snapshots/s", A)
    _, seconds = content(file_system, "/d.snapshots/s", B)
    whole = [b"%04d" % number for number in range(1500)]
    assert firsts == whole[start : start + len(firsts)]
    assert seconds == whole[: len(seconds)]
    assert start + len(firsts) - len(seconds) in (0, 1)
    assert len(seconds) >= 30
    broker.close()
    assert content(file_system, "/d", B)[1][: len(seconds)] == seconds


def test_topics_that_come_and_go_meanwhile_are_whole_or_not_there() -> None:
    file_system = disk("/d")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="a"))
    append(broker, A, b"kept")
    count = 0

    def happen() -> None:
        nonlocal count
        count += 1
        if count == 5:
            broker.admin.create_topic(NewTopic(name="b"))
            append(broker, B, b"new")
        if count == 60:
            broker.admin.delete_topic(broker.topics.find("b"))

    snapshots = Snapshots(Meanwhile(file_system, happen), "/d")  # type: ignore[arg-type]
    snapshots.create_beside(
        "s", now_ms=NOW_MS, on_copied=lambda *_: None, recover=recover(file_system)
    )
    found = opened(file_system, "/d.snapshots/s")
    assert [one.name for one in found.topics][:1] == ["a"]
    assert values(found.topics.partition(*A).log) == [b"kept"]
    found.close()
    broker.close()


def test_later_writes_change_no_snapshot_and_those_to_it_no_log() -> None:
    file_system = disk("/d")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="a"))
    for number in range(12):
        append(broker, A, b"%d" % number)
    snapshots = Snapshots(file_system, "/d")
    snapshots.create_beside(
        "s", now_ms=NOW_MS, on_copied=lambda *_: None, recover=recover(file_system)
    )
    broker.topics.partition(*A).log.maintenance.truncate_to(2, now_ms=NOW_MS)
    for number in range(9):
        append(broker, A, b"x%d" % number)
    other = opened(file_system, "/d.snapshots/s")
    append(other, A, b"its own")
    assert values(other.topics.partition(*A).log) == [*(b"%d" % n for n in range(12)), b"its own"]
    other.close()
    expected = [b"0", b"1", *(b"x%d" % number for number in range(9))]
    assert values(broker.topics.partition(*A).log) == expected
    broker.close()


@pytest.mark.slow
def test_what_changes_without_end_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pinning, "TRIES", 3)
    file_system = disk("/d")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="a"))

    def happen() -> None:
        append(broker, A, b"x" * 50)

    snapshots = Snapshots(Meanwhile(file_system, happen), "/d")  # type: ignore[arg-type]
    with pytest.raises(RefusalError, match="change too quickly for a snapshot"):
        snapshots.create_beside("s", now_ms=NOW_MS, on_copied=lambda *_: None, recover=print)
    assert snapshots.find_all() == []
    assert file_system.list("/d.snapshots") == [".lock"]
    broker.close()


def test_two_snapshots_are_not_made_at_once() -> None:
    file_system = disk("/d")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="a"))
    snapshots = Snapshots(file_system, "/d")

    def recover_and_make_another(paths: Sequence[str]) -> None:
        with pytest.raises(UserError, match="another process is creating a snapshot"):
            snapshots.create_beside("t", now_ms=NOW_MS, on_copied=lambda *_: None, recover=print)
        recover(file_system)(paths)

    snapshots.create_beside(
        "s", now_ms=NOW_MS, on_copied=lambda *_: None, recover=recover_and_make_another
    )
    assert [one.name for one in snapshots.find_all()] == ["s"]
    broker.close()
