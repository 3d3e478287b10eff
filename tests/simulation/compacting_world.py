"""Thirty days of logs that are compacted, between everything else that happens to logs.

A pass may be cut off by the disk, and meet appends, cuts and time going by between its plan and its
end. What it takes away must have a later record of its key, or be a tombstone whose time is over.
Readers follow the logs; one that reads often enough sees every delete.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from ottla.base.clock import read_clock
from ottla.base.errors import StorageError
from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.log.offsets import Isolation
from ottla.testing import CrashMode, Effect, FaultPlan, FaultyFileSystem
from tests.simulation.log_world import DAY, HOUR, MINUTE, Partition, World
from tests.support.logs import read_all

TOMBSTONES_STAY_MS = 6 * HOUR
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": str(TOMBSTONES_STAY_MS)}
TOPICS = {
    "by-size": {"retention.bytes": "4000", "retention.ms": "-1"},
    "compacted": COMPACT,
    "compacted-late": {**COMPACT, "min.compaction.lag.ms": str(5 * HOUR)},
    "compacted-too": {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": str(2 * DAY)},
}
FOLLOWED = ("compacted", "compacted-late")
"""Nothing but compaction takes their records."""
KEYS = [b"key-%d" % number for number in range(9)]


@dataclass
class Reader:
    """Where a reader is, what it knows, and when it last read."""

    position: int = 0
    values: dict[bytes, bytes] = field(default_factory=dict)
    read_ms: int = 0

    def take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


class CompactingWorld(World):
    def __init__(self, seed: int) -> None:
        self.history: dict[str, dict[int, tuple[bytes, bytes | None]]] = {one: {} for one in TOPICS}
        """Key and value of all that was appended and not cut off again, by offset."""
        self.compacted_until = dict.fromkeys(TOPICS, -1)
        """Before this nothing is cut off; a failed disk may have kept it from the checkpoint."""
        self.readers: dict[str, Reader] = {}
        super().__init__(seed, TOPICS)
        self.deeds.update({self.clean: 25, self.fail_while_cleaning: 3, self.follow: 40})
        self.checks.append(self.check_last_values)

    def open(self, file_system: FileSystem) -> Broker:
        self.files = file_system
        return super().open(file_system)

    # The model

    def key_and_value(self, partition: Partition) -> tuple[bytes, bytes | None]:
        key, number = self.chance.choice(KEYS), next(self._values)
        is_tombstone = partition.topic != "by-size" and self.chance.random() < 0.2
        self.written = (key, None if is_tombstone else b"%d" % number + bytes(number % 150))
        return self.written

    def append(self, partition: Partition) -> None:
        end = partition.end
        super().append(partition)
        offset = end if partition.end > end else partition.maybe[-1][0]
        self.history[partition.topic][offset] = self.written

    def forget_what_was_cut_off(self, partition: Partition) -> None:
        history = self.history[partition.topic]
        for offset in [one for one in history if one >= partition.end]:
            del history[offset]
        reader = self.readers.get(partition.topic)
        if reader is not None and reader.position > partition.end:
            del self.readers[partition.topic]

    def truth(self, partition: Partition) -> dict[bytes, bytes]:
        """What a reader of everything that was ever appended would end with."""
        reader = Reader()
        for _, (key, value) in sorted(self.history[partition.topic].items()):
            reader.take(key, value)
        return reader.values

    def deleted_files(self) -> set[tuple[str, str]]:
        """Of a compacted log a later file may wait under the name of one that has gone."""
        return {one for one in super().deleted_files() if one[0] == "by-size"}

    # What happens

    def lowest_cut(self, partition: Partition) -> int:
        """Nothing is cut that is compacted: it was below the high watermark."""
        return min(max(partition.start, self.compacted_until[partition.topic] + 1), partition.end)

    def cut_the_end(self) -> None:
        super().cut_the_end()
        for partition in self.partitions.values():
            self.forget_what_was_cut_off(partition)

    def take_crash(self, partition: Partition, mode: CrashMode) -> None:
        super().take_crash(partition, mode)
        self.forget_what_was_cut_off(partition)
        self.take_compaction(partition)

    def set_the_clock(self) -> None:
        """A tombstone's time is told by the clock, and a reader cannot keep up with its jumps."""
        super().set_the_clock()
        self.readers.clear()

    def clean(self) -> None:
        partition = self.partitions[self.chance.choice([one for one in TOPICS if one != "by-size"])]
        task = self.broker.log_jobs.cleaner.task_for((partition.topic, 0), read_clock(self.clock))
        if task is None:
            return
        key_filter = PlainKeyFilter(task.plan.map_bytes, task.plan.load_factor)
        try:
            result = compact(task.plan, key_filter, Surroundings(file_system=self.files))
        except OSError as error:
            self.broker.log_jobs.cleaner.fail(task, error, read_clock(self.clock))
            return
        if self.files is self.disk and self.chance.random() < 0.3:
            self.let_things_happen(partition)
        until = max(self.compacted_until[partition.topic], result.end_offset)
        self.compacted_until[partition.topic] = until
        with suppress(StorageError):
            self.broker.log_jobs.cleaner.finish(task, result, read_clock(self.clock))
        with suppress(StorageError):  # The disk may fail a read, too; what follows looks again.
            self.take_compaction(partition)

    def let_things_happen(self, partition: Partition) -> None:
        """Between a pass's plan and its end."""
        self.append_some()
        self.let_time_pass(self.chance.randrange(10 * MINUTE, HOUR))
        if self.chance.random() < 0.3:
            key = (partition.topic, 0)
            self.broker.log_jobs.cleaner.states.pause(key)
            offset = self.chance.randint(self.lowest_cut(partition), partition.end)
            self.log(partition).maintenance.truncate_to(offset, now_ms=self.clock.now_ms())
            partition.ends_at(offset)
            self.forget_what_was_cut_off(partition)
            self.broker.log_jobs.cleaner.states.resume(key)

    def take_compaction(self, partition: Partition) -> None:
        """What is gone had a later record of its key after it, or was a tombstone."""
        kept = {one.offset for one in read_all(self.log(partition), isolation=Isolation.LOG_END)}
        history = self.history[partition.topic]
        for offset, value, _ in partition.records:
            if offset in kept:
                continue
            self.count("records compacted away")
            key = history[offset][0]
            later = any(at > offset and history[at][0] == key for at in history)
            assert later or value is None, f"{partition.topic} at {offset}: the last of its key"
        partition.records = [one for one in partition.records if one[0] in kept]

    def fail_while_cleaning(self) -> None:
        self.stop_and_start()
        self.broker.close()
        at_call = self.chance.randrange(60, 300)
        effect = self.chance.choice([Effect.BEFORE, Effect.AFTER])
        plan = FaultPlan(at_call=at_call, error=OSError(5, "a fault"), effect=effect)
        try:
            self.broker = self.open(FaultyFileSystem(self.disk, plan))
        except (StorageError, OSError):
            self.crash()
            return
        for _ in range(10):
            for _ in range(3):
                self.append(self.any_partition())
            self.clean()
            if self.broker.directories[0].is_offline:
                self.count("offline while cleaning")
                break
        self.crash()

    def follow(self) -> None:
        now_ms = self.clock.now_ms()
        for topic in FOLLOWED:
            reader = self.readers.get(topic)
            if reader is None or now_ms - reader.read_ms >= TOMBSTONES_STAY_MS:
                reader = Reader()
            else:
                self.count("reads on")
            partition = self.partitions[topic]
            if reader.position < partition.end:
                for one in read_all(self.log(partition), reader.position):
                    assert one.key is not None
                    reader.take(one.key, one.value)
            reader.position, reader.read_ms = partition.end, now_ms
            assert reader.values == self.truth(partition), f"{topic}: a reader was misled"
            self.readers[topic] = reader

    # What must hold

    def check_last_values(self) -> None:
        for topic in FOLLOWED:
            partition = self.partitions[topic]
            reader = Reader()
            for one in read_all(self.log(partition)):
                assert one.key is not None
                reader.take(one.key, one.value)
            assert reader.values == self.truth(partition), topic
