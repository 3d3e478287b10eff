"""A broker's logs over thirty days of a clock that is moved by hand, from one seed.

Records come with times that are right, late or ahead; segments roll; retention comes by; settings
change; logs are cut at the end and at the front; the clock is set; the disk fails, the process
dies, the power goes. `World.check_*` are the invariants.

Another thing that happens to logs is a method in `World.deeds`, with a weight; one that changes
which records there are tells `Partition.records`. Another invariant is a method in `World.checks`.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base.clock import read_clock
from ottla.base.errors import ApiError, StorageError
from ottla.base.files import FileSystem, base_name, parent_directory
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.startup.opening import BrokerOptions
from ottla.config.broker import broker_config
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record as StoredRecord
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import parse_file_name
from ottla.storage.findings import FindingKind
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, Effect, FakeClock, FakeFileSystem, FaultPlan, FaultyFileSystem
from tests.support.brokers import id_of
from tests.support.logs import read_all

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
DAYS = 30

DIRECTORY = "/d"
SETTINGS = {
    "log.segment.bytes": "900",
    "log.roll.ms": str(DAY),
    "log.index.interval.bytes": "200",
    "log.index.size.max.bytes": "480",
    "log.segment.delete.delay.ms": str(MINUTE),
    "log.initial.task.delay.ms": str(MINUTE),
}
TOPICS = {
    "by-time": {"retention.ms": str(2 * DAY)},
    "by-size": {"retention.bytes": "4000", "retention.ms": "-1"},
    "by-both": {"retention.bytes": "9000", "retention.ms": str(3 * DAY)},
    "kept": {"retention.bytes": "-1", "retention.ms": "-1"},
    "compacted-too": {"cleanup.policy": "compact,delete", "retention.ms": str(DAY)},
}
LIMITS_MS = [str(HOUR), str(DAY), str(4 * DAY), "-1"]
LIMITS_BYTES = ["0", "1500", "6000", "-1"]

Record = tuple[int, bytes | None, int]
"""Offset, value, timestamp."""


@dataclass
class Partition:
    """What the log of a topic must be; below `safe_end` no crash may undo anything.

    `maybe` are records whose append was cut off: they may be there after the next start.
    """

    topic: str
    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    safe_end: int = 0
    maybe: list[Record] = field(default_factory=list)

    def has_young(self, base: int, end: int, old_ms: int) -> bool:
        return any(base <= at < end and time >= old_ms for at, _, time in self.records)

    def starts_at(self, start: int) -> None:
        self.start = start
        self.end = max(self.end, start)
        self.safe_end = max(self.safe_end, start)
        self.records = [one for one in self.records if one[0] >= start]

    def ends_at(self, end: int) -> None:
        self.records = [one for one in self.records if one[0] < end]
        self.end = end
        self.safe_end = min(self.safe_end, end)
        self.start = min(self.start, end)


class World:
    def __init__(self, seed: int, topics: Mapping[str, Mapping[str, str]] = TOPICS) -> None:
        self.topics = topics
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.disk = FakeFileSystem(self.clock)
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory("/")
        self.partitions = {topic: Partition(topic) for topic in self.topics}
        self.counts: dict[str, int] = {}
        self._ids = iter(range(1000, 10**9))
        self._values = iter(range(10**9))
        self.broker = self.open(self.disk)
        for topic, overrides in self.topics.items():
            self.broker.admin.create_topic(NewTopic(name=topic, overrides=dict(overrides)))
        self.deeds: dict[Callable[[], None], int] = {
            self.append_some: 60,
            self.roll: 8,
            self.flush: 6,
            self.begin_to_read: 6,
            self.cut_the_end: 3,
            self.delete_records: 3,
            self.change_settings: 3,
            self.set_the_clock: 2,
            self.stop_and_start: 3,
            self.crash: 5,
            self.have_the_disk_fail: 3,
        }
        self.checks: list[Callable[[], None]] = [
            self.check_bounds,
            self.check_first_segments,
            self.check_reads,
        ]

    # A run

    def run(self, days: int = DAYS) -> None:
        """Things happen, time goes by, and what must hold is looked at after each."""
        until_ms = self.clock.monotonic_ms() + days * DAY
        steps = 0
        while self.clock.monotonic_ms() < until_ms:
            steps += 1
            deed = self.chance.choices(list(self.deeds), list(self.deeds.values()))[0]
            self.count(deed.__name__)
            deed()
            self.let_time_pass(self.chance.randrange(10 * MINUTE, 3 * HOUR))
            for one in self.checks:
                one()
            if steps % 20 == 0:
                self.check_records()
        self.check_records()
        self.stop_and_start()
        self.check_records()
        self.check_soundness()

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def open(self, file_system: FileSystem) -> Broker:
        options = BrokerOptions(
            now_ms=self.clock.now_ms(),
            new_id=lambda: id_of(next(self._ids)),
            random_below=self.chance.randrange,
            cluster_id="a-cluster-for-tests-01",
        )
        broker = assemble([DIRECTORY], file_system, broker_config(SETTINGS), options)
        broker.scheduler.run_due(read_clock(self.clock))  # from now on its jobs count
        return broker

    def log(self, partition: Partition) -> PartitionLog:
        return self.broker.topics.partition(partition.topic, 0).log

    def let_time_pass(self, ms: int) -> None:
        """Then retention comes by, once at least; what it took must have been due."""
        waiting = self.deleted_files()
        self.clock.advance(ms)
        before = {one.topic: self.sizes(one) for one in self.partitions.values()}
        self.run_jobs()
        for partition in self.partitions.values():
            self.take_retention(partition, before[partition.topic])
        assert waiting.isdisjoint(self.deleted_files()), "a file outlives its delay"

    def run_jobs(self) -> None:
        while True:
            self.broker.scheduler.run_due(read_clock(self.clock))
            due_ms = self.broker.scheduler.next_job_ms
            if due_ms is None or due_ms > self.clock.monotonic_ms():
                return

    def sizes(self, partition: Partition) -> list[tuple[int, int, int]]:
        """Base offset, end and size of each segment."""
        log = self.log(partition)
        segments = log.segments.values
        ends = [*(one.base_offset for one in segments[1:]), log.log_end_offset]
        return [(one.base_offset, end, one.size) for one, end in zip(segments, ends, strict=True)]

    def take_retention(self, partition: Partition, before: list[tuple[int, int, int]]) -> None:
        log = self.log(partition)
        start, left = log.log_start_offset, sum(size for _, _, size in before)
        assert start >= partition.start, "deleted records are back"
        old_ms = self.clock.now_ms() - log.config.retention_ms
        kept = {base for base, _, _ in self.sizes(partition)}
        for base, end, size in before:
            left -= size
            if base in kept or end <= partition.start:
                continue
            is_old = log.config.retention_ms >= 0 and not partition.has_young(base, end, old_ms)
            is_much = 0 <= log.config.retention_bytes <= left
            assert is_old or is_much, f"{partition.topic} at {base} went before its time"
            self.count("segments retained away")
        partition.starts_at(start)

    def deleted_files(self) -> set[tuple[str, str]]:
        return {
            (topic, name)
            for topic in self.topics
            for name in self.disk.list(f"{DIRECTORY}/{topic}-0")
            if name.endswith(".deleted")
        }

    # What happens

    def any_partition(self) -> Partition:
        return self.chance.choice(list(self.partitions.values()))

    def append_some(self) -> None:
        for _ in range(self.chance.randrange(1, 12)):
            self.append(self.any_partition())

    def append(self, partition: Partition) -> None:
        key, value = self.key_and_value(partition)
        shift_ms = self.chance.choice([0] * 12 + [-5 * DAY, -HOUR, HOUR, 2 * DAY])
        time_ms = self.clock.now_ms() + shift_ms
        builder = RecordBatchBuilder()
        builder.append(key, value, time_ms)
        record = (partition.end, value, time_ms)
        now_ms = self.clock.now_ms()
        try:
            info = self.broker.appends.append(
                self.broker.topics.partition(partition.topic, 0),
                bytearray(builder.build()),
                now_ms=now_ms,
            )
            self.broker.appends.write_out()
        except (ApiError, StorageError):
            partition.maybe.append((partition.end + len(partition.maybe), *record[1:]))
            return
        assert info.first_offset == partition.end
        partition.records.append(record)
        partition.end += 1

    def key_and_value(self, partition: Partition) -> tuple[bytes, bytes | None]:
        value = b"%d" % next(self._values) + bytes(self.chance.randrange(200))
        return value[:3], value

    def roll(self) -> None:
        self.log(self.any_partition()).writer.roll(self.clock.now_ms())

    def flush(self) -> None:
        partition = self.any_partition()
        self.log(partition).writer.flush()
        partition.safe_end = partition.end

    def begin_to_read(self) -> None:
        """A read whose answer is long in coming: half a minute, within the files' delay."""
        partition = self.any_partition()
        found = (
            self.log(partition).reader.read(partition.start, 5000, Isolation.HIGH_WATERMARK).records
        )
        if found is None:
            return
        content = found.read()
        self.clock.advance(MINUTE // 2)
        before = {one.topic: self.sizes(one) for one in self.partitions.values()}
        self.run_jobs()
        for one in self.partitions.values():
            self.take_retention(one, before[one.topic])
        assert found.read() == content, "a read under way was disturbed"

    def lowest_cut(self, partition: Partition) -> int:
        return partition.start

    def cut_the_end(self) -> None:
        partition = self.any_partition()
        offset = self.chance.randint(self.lowest_cut(partition), partition.end)
        self.log(partition).maintenance.truncate_to(offset, now_ms=self.clock.now_ms())
        partition.ends_at(offset)

    def delete_records(self) -> None:
        partition = self.any_partition()
        offset = self.chance.randint(partition.start, partition.end)
        if "delete" not in self.log(partition).config.cleanup_policy:
            return
        assert self.broker.admin.delete_records({(partition.topic, 0): offset}) == {
            (partition.topic, 0): offset
        }
        partition.starts_at(offset)

    def change_settings(self) -> None:
        topic = self.broker.topics.get(self.chance.choice(list(self.topics)))
        change = self.chance.choice(
            [
                {"retention.ms": self.chance.choice(LIMITS_MS)},
                {"retention.bytes": self.chance.choice(LIMITS_BYTES)},
                dict(self.topics[topic.name]),
            ]
        )
        self.broker.topic_changes.configure(topic, lambda known: {**known, **change})

    def set_the_clock(self) -> None:
        self.clock.step(self.chance.choice([-2 * HOUR, -MINUTE, HOUR, 6 * HOUR]))

    def stop_and_start(self) -> None:
        self.broker.close()
        for partition in self.partitions.values():
            partition.safe_end = partition.end
        self.broker = self.open(self.disk)

    def crash(self) -> None:
        mode = self.chance.choice(list(CrashMode))
        self.disk = self.disk.crash(mode, self.chance.randrange(10**6))
        self.broker = self.open(self.disk)
        for partition in self.partitions.values():
            self.take_crash(partition, mode)
        self.check_records()

    def take_crash(self, partition: Partition, mode: CrashMode) -> None:
        log = self.log(partition)
        assert log.log_start_offset >= partition.start, "deleted records are back"
        assert log.log_end_offset >= partition.safe_end, "flushed records are gone"
        if mode is CrashMode.KEEP:
            assert log.log_end_offset >= partition.end, "a killed process lost what was written"
        partition.records += partition.maybe
        partition.end += len(partition.maybe)
        partition.maybe = []
        assert log.log_end_offset <= max(partition.end, log.log_start_offset)
        # What was begun may be done: a start that was on its way to the disk.
        partition.starts_at(log.log_start_offset)
        partition.ends_at(log.log_end_offset)

    def have_the_disk_fail(self) -> None:
        """Somewhere in the next calls, while records come and retention continues."""
        self.stop_and_start()
        self.broker.close()
        plan = FaultPlan(
            at_call=self.chance.randrange(60, 400),
            error=OSError(5, "a fault of the simulation"),
            effect=self.chance.choice([Effect.BEFORE, Effect.AFTER]),
        )
        try:
            self.broker = self.open(FaultyFileSystem(self.disk, plan))
        except (StorageError, OSError):
            self.count("failed starts")
            self.crash()
            return
        for _ in range(20):
            self.append(self.any_partition())
            self.clock.advance(20 * MINUTE)
            before = {one.topic: self.sizes(one) for one in self.partitions.values()}
            self.run_jobs()
            if self.broker.directories[0].is_offline:
                self.count("offline")
                break
            for one in self.partitions.values():
                self.take_retention(one, before[one.topic])
        self.crash()

    # What must hold

    def check_bounds(self) -> None:
        for partition in self.partitions.values():
            log = self.log(partition)
            log.offsets.check()
            assert len(log.segments) >= 1
            bounds = (log.log_start_offset, log.high_watermark, log.log_end_offset)
            assert bounds == (partition.start, partition.end, partition.end), partition.topic

    def check_first_segments(self) -> None:
        """Nothing stays that may go: retention has just come by."""
        for partition in self.partitions.values():
            log = self.log(partition)
            (base, end, size), *behind = self.sizes(partition)
            if not behind and size == 0:
                continue
            left = sum(size for _, _, size in behind)
            old_ms = self.clock.now_ms() - log.config.retention_ms
            assert not behind or end > partition.start
            if not log.config.deletes:
                continue
            # Deleted records count for the segment's age, and are not in the list any more.
            inside = [time for at, _, time in partition.records if base <= at < end]
            if log.config.retention_ms >= 0 and inside and base >= partition.start:
                assert max(inside) >= old_ms, f"{partition.topic} at {base} is old and stays"
            is_much = 0 <= log.config.retention_bytes <= left
            assert not is_much, f"{partition.topic} at {base} is too much and stays"

    def check_reads(self) -> None:
        for partition in self.partitions.values():
            if not partition.records:
                continue
            log = self.log(partition)
            found = log.reader.find_timestamp(partition.records[-1][2])
            # Kafka looks into one segment only: its late record may be below the log's start, and
            # a segment without records counts as being as late as its file.
            is_cut_inside = partition.start > log.segments.first.base_offset
            has_empty = any(one.size == 0 for one in log.segments.values)
            assert found is not None or is_cut_inside or has_empty

    def check_records(self) -> None:
        for partition in self.partitions.values():
            found = [(one.offset, one.value, one.timestamp_ms) for one in self.read(partition)]
            assert found == partition.records, partition.topic

    def read(self, partition: Partition) -> list[StoredRecord]:
        return read_all(self.log(partition), isolation=Isolation.LOG_END)

    def check_soundness(self) -> None:
        """No file contradicts another, but where nobody looks any more.

        That is below a log's start, and in producer snapshots that newer ones stand before.
        """
        report = check(self.disk, DIRECTORY)
        starts = {f"{DIRECTORY}/{one.topic}-0": one for one in self.partitions.values()}
        for finding in report.findings:
            partition = starts.get(parent_directory(finding.path))
            name = parse_file_name(base_name(finding.path))
            is_below = partition is not None and name is not None and name.offset < partition.start
            is_old = finding.kind is FindingKind.PRODUCER_SNAPSHOT
            is_empty = finding.kind is FindingKind.LEADER_EPOCHS and not (
                partition and partition.records
            )
            assert finding.is_note or is_below or is_old or is_empty, finding.text
