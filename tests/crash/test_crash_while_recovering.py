"""A recovery that is itself cut off at every call, and begun again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.base.files import FileSystem, join, parent_directory
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.crash.cases import COMPACTED
from tests.crash.checking import PARTITION, all_files, reopened, stored_batches
from tests.crash.history import Act, Event
from tests.crash.sampling import sample
from tests.crash.test_every_crash_point import check
from tests.crash.workload import TINY, Writer
from tests.support.logs import DIRECTORY

Damage = Callable[[FakeFileSystem], None]


def written_log(events: list[Event], config: TopicConfig) -> FakeFileSystem:
    """A log of several segments, durable as far as the second."""
    disk = FakeFileSystem()
    writer = Writer(disk, events, config=config)
    writer.open()
    for epoch in range(3):
        writer.epoch = epoch
        writer.append(2, producer=1)
        writer.append(1, producer=2, transaction=True)
        writer.append(2, producer=1)
        writer.end_transaction(2, commit=False)
        if epoch == 0:
            writer.append(1)
            writer.flush()
            writer.checkpoint()
    return disk


def durable_copy(disk: FakeFileSystem) -> FakeFileSystem:
    """What a disk shows now, all of it synced: the damage is done, and will not go away.

    Without the note of the system's start: a power failure did the damage.
    """
    copy = FakeFileSystem()
    files = all_files(disk)
    files.pop(join(DIRECTORY, BOOT_NOTE), None)
    for path, content in files.items():
        copy.make_directory(parent_directory(path))
        file = copy.open(path, create=True)
        file.pwrite(content, 0)
        file.sync()
        file.close()
    for path in (".", "data", PARTITION):
        copy.sync_directory(path)
    return copy


def logs_of(disk: FakeFileSystem) -> list[str]:
    return [join(PARTITION, name) for name in disk.list(PARTITION) if name.endswith(".log")]


def tear_the_second(disk: FakeFileSystem) -> None:
    file = disk.open(logs_of(disk)[1], writable=True)
    file.truncate(file.size() - 1)
    file.close()


def tear_the_second_and_lose_the_snapshots(disk: FakeFileSystem) -> None:
    tear_the_second(disk)
    for name in disk.list(PARTITION):
        if name.endswith(".snapshot"):
            disk.remove(join(PARTITION, name))


def tear_the_last_and_lose_the_snapshots(disk: FakeFileSystem) -> None:
    tear_the_second_and_lose_the_snapshots(disk)
    file = disk.open(logs_of(disk)[-1], writable=True)
    file.pwrite(b"\xff" * file.size(), 0)
    file.close()


def lose_the_tail_of_the_second(disk: FakeFileSystem) -> None:
    """At a batch's end, so that nothing shows it but the next segment."""
    file = disk.open(logs_of(disk)[1], writable=True)
    size = int.from_bytes(file.pread(4, 8), "big") + 12
    file.truncate(size)
    file.close()


DAMAGES: list[tuple[Damage, TopicConfig]] = [
    (tear_the_second, TINY),
    (tear_the_second, COMPACTED),
    (tear_the_second_and_lose_the_snapshots, TINY),
    (tear_the_last_and_lose_the_snapshots, TINY),
    (lose_the_tail_of_the_second, TINY),
]


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "config"), DAMAGES)
def test_a_recovery_can_be_cut_off_anywhere(
    damage: Damage, config: TopicConfig, crash_seconds: float
) -> None:
    history: list[Event] = []
    disk = written_log(history, config)
    damage(disk)
    damaged = durable_copy(disk)
    uncut = stored_batches(reopened(damaged.crash(CrashMode.KEEP), config))

    def recover(file_system: FileSystem, events: list[Event]) -> None:
        # What was written and not flushed may be after the damage.
        events += [event for event in history if event.act is not Act.WRITTEN]
        Writer(file_system, events, config=config).open()

    points = every_crash_point(
        recover, make_file_system=lambda: damaged.crash(CrashMode.KEEP), seeds=2
    )
    for point in sample(points, crash_seconds):
        again = point.file_system.crash(CrashMode.KEEP)
        assert stored_batches(reopened(again, config)) == uncut, point
        check(replace(point, file_system=point.file_system.crash(CrashMode.KEEP)), config)
