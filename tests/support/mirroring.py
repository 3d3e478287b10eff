"""Sources and targets of mirrors on disks in memory, and what a whole mirror must come to."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ottla.base.files import FileSystem, join
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.mirror import Mirror, MirrorOptions, RoundReport
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.mirror.verify import Verification, VerifyOptions, VerifyReport
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import partition_directory_name
from ottla.storage.findings import FindingKind
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.testing import FakeClock, FakeFileSystem
from tests.support.brokers import NOW_MS, at, disk, open_broker

SOURCE = "/source"
TARGET = "/target"

SETTINGS = {"offsets_topic_num_partitions": "1", "log_index_size_max_bytes": "1200"}
SMALL_SEGMENTS = {"segment.bytes": "600", "index.interval.bytes": "100"}


class SourceLog:
    """A broker that a mirror's source is, on a disk of its own."""

    def __init__(self, file_system: FileSystem | None = None) -> None:
        self.files = file_system or disk(SOURCE)
        self.broker = open_broker(self.files, SOURCE, ids=itertools.count(100), **SETTINGS)
        self._sequences: dict[int, int] = {}

    def create(self, name: str = "t", partitions: int = 1, **overrides: str) -> None:
        named = {key.replace("_", "."): text for key, text in overrides.items()}
        self.broker.admin.create_topic(
            NewTopic(name=name, partition_count=partitions, overrides={**SMALL_SEGMENTS, **named})
        )

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        return self.broker.topics.partition(topic, partition).log

    def append(
        self,
        *values: bytes | None,
        topic: str = "t",
        partition: int = 0,
        producer: int | None = None,
        keys: tuple[bytes, ...] = (),
    ) -> None:
        """One batch; a producer writes it in a transaction."""
        builder = RecordBatchBuilder(
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            base_sequence=-1 if producer is None else self._take(producer, len(values)),
            is_transactional=producer is not None,
        )
        for number, value in enumerate(values):
            key = keys[number] if keys else b"key"
            builder.append(key, value, NOW_MS + number, [("h", b"x")])
        self.broker.appends.append(
            self.broker.topics.partition(topic, partition),
            bytearray(builder.build()),
            now_ms=NOW_MS,
        )
        self.broker.appends.write_out()

    def fill(self, count: int, *, topic: str = "t", partition: int = 0) -> None:
        """Batches of two records, whose values are their offsets."""
        for _ in range(count):
            first = self.log(topic, partition).log_end_offset
            self.append(b"%d" % first, b"%d" % (first + 1), topic=topic, partition=partition)

    def end(self, producer: int, *, commit: bool, topic: str = "t", partition: int = 0) -> None:
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=commit, coordinator_epoch=0),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.broker.appends.append(
            self.broker.topics.partition(topic, partition),
            bytearray(marker),
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
        )
        self.broker.appends.write_out()

    def lead_again(self, topic: str = "t", partition: int = 0) -> None:
        """The next batches are of a later leader epoch."""
        self.broker.topics.partition(topic, partition).leader_epoch += 1

    def delete_before(self, offset: int, *, topic: str = "t", partition: int = 0) -> None:
        self.broker.admin.delete_records({(topic, partition): offset})

    def compact(self, topic: str = "t", partition: int = 0) -> None:
        from threading import RLock

        from ottla.runtime.cleaning import Cleaning, ThreadEngine

        lock, clock = RLock(), FakeClock()
        cleaning = Cleaning(self.broker, ThreadEngine(self.files, lock), clock=clock, lock=lock)
        self.broker.topics.partition(topic, partition).log.writer.flush()
        task = self.broker.log_jobs.cleaner.task_for((topic, partition), at(0))
        assert task is not None
        cleaning.carry_out(task)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        new = {where: NewOffset(offset=offset, metadata="m") for where, offset in offsets.items()}
        request = CommitRequest(claim=MemberClaim(group_id=group), offsets=new)
        answer = self.broker.groups.carry_out(
            self.broker.groups.machines(at(0))[0].commit(request, at(0)), at(0)
        )
        assert not any(answer.partitions.values())
        self.broker.appends.write_out()

    def _take(self, producer: int, count: int) -> int:
        first = self._sequences.get(producer, 0)
        self._sequences[producer] = first + count
        return first


def target_disk() -> FakeFileSystem:
    return disk(TARGET)


@contextmanager
def target_on(file_system: FileSystem) -> Iterator[Target]:
    """Ids are alike every time, so that the same work makes the same calls."""
    broker = open_broker(file_system, TARGET, ids=itertools.count(5000), **SETTINGS)
    with Target(broker, FakeClock()) as target:
        yield target


def mirror_round(source: FileSystem, target: Target, **options: Any) -> RoundReport:
    throttle = Throttle(None, FakeClock(), lambda _: None)
    opened = DirectorySource(SOURCE, source)
    return Mirror(opened, target, MirrorOptions(**options), throttle=throttle).run_round()


def mirror_once(source: FileSystem, target: FileSystem, **options: Any) -> RoundReport:
    """Opens the target, mirrors, and closes it."""
    with target_on(target) as opened:
        return mirror_round(source, opened, **options)


def verified(source: FileSystem, target: FileSystem, **options: Any) -> VerifyReport:
    sides = DirectorySource(SOURCE, source), DirectorySource(TARGET, target)
    return Verification(*sides, VerifyOptions(**options)).run()


def differences(source: FileSystem, target: FileSystem, **options: Any) -> list[str]:
    found = verified(source, target, **options).differences
    return [f"{one.place}: {one.text}" for one in found]


HEALED_WHEN_READ = (FindingKind.OFFSET_INDEX, FindingKind.TIME_INDEX)
"""What a power failure may leave of the index of a segment that was just ended: it has no checksum,
so whoever looks something up in it compares it with the log, and rebuilds it."""


def assert_is_mirrored(
    source: FileSystem, target: FileSystem, *, after_power_failure: bool = False
) -> None:
    """Byte for byte, and all that is derived is what a rebuild from the bytes gives."""
    assert differences(source, target) == []
    for topic, partitions in open_for_reading(SOURCE, source).topics().items():
        for partition in partitions if not topic.startswith("__") else ():
            ours = content(SOURCE, source, topic, partition)
            assert content(TARGET, target, topic, partition) == ours
    findings = [one for one in check(target, TARGET, deep=True).findings if not one.is_note]
    if after_power_failure:
        findings = [one for one in findings if one.kind not in HEALED_WHEN_READ]
    assert findings == [], [one.text for one in findings]


def read_only(path: str, file_system: FileSystem | None, topic: str, partition: int) -> ReadOnlyLog:
    return open_for_reading(path, file_system).partition(topic, partition)


def content(
    path: str, file_system: FileSystem | None, topic: str, partition: int
) -> tuple[int, int, bytes]:
    """Where a log starts and ends, and all the bytes of its batches in between."""
    log = read_only(path, file_system, topic, partition)
    batches = log.batches.read(log.log_start_offset)
    return (
        log.log_start_offset,
        log.log_end_offset,
        b"".join(bytes(one.bytes_view()) for one in batches),
    )


def partition_path(root: str, topic: str = "t", partition: int = 0) -> str:
    return join(root, partition_directory_name(topic, partition))


def damage(file_system: FileSystem, path: str, position: int) -> None:
    """Flips every bit of one byte."""
    file = file_system.open(path, create=True)
    (byte,) = file.pread(1, position)
    file.pwrite(bytes([byte ^ 0xFF]), position)
    file.close()
