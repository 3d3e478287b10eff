"""A writer that keeps a history of what it does; the crash tests' workloads are made of it."""

from collections.abc import Iterable

from ottla.base.errors import StorageError
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.retention.retention import begin_retention, facts_of, plan_retention
from tests.crash.history import Act, Event
from tests.support.logs import NOW_MS, TOPIC_ID, open_directory

TINY = TopicConfig(segment_bytes=420, index_interval_bytes=90, segment_index_bytes=120)
KEY = TopicPartition("t", 0)


class Writer:
    """Writes to one partition and notes each deed in `events`, before and after."""

    def __init__(
        self, file_system: FileSystem, events: list[Event], *, config: TopicConfig = TINY
    ) -> None:
        self._file_system = file_system
        self._config = config
        self.events = events
        self.epoch = 0
        self._sequences: dict[int, int] = {}
        self._times = 0
        self._opened: LogDirectory | None = None

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def directory(self) -> LogDirectory:
        assert self._opened is not None
        return self._opened

    @property
    def has_log(self) -> bool:
        return self._opened is not None and KEY in self._opened.logs

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs[KEY]

    def open(self) -> None:
        self._opened = open_directory(self._file_system, self._config)
        if KEY not in self.directory.logs:
            self.directory.create_log(*KEY, TOPIC_ID)
            self._note(Act.CREATED)

    def append(
        self, count: int = 1, *, producer: int | None = None, transaction: bool = False
    ) -> None:
        """One batch of `count` records, whose values tell their offsets."""
        self._append(self._batch(count, self.log.log_end_offset, producer, transaction))

    def append_together(self, counts: Iterable[int]) -> None:
        """Several batches in one append, as a follower is given them."""
        records, offset = bytearray(), self.log.log_end_offset
        for count in counts:
            records += self._batch(count, offset, None, False)
            offset += count
        self._note(Act.APPENDING, records=bytes(records))
        self.log.writer.append_as_follower(records, now_ms=NOW_MS)
        self.log.writer.write_out()
        self._note(Act.WRITTEN)

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=commit, coordinator_epoch=3),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=self._next_time(),
            base_offset=self.log.log_end_offset,
        )
        self._append(bytearray(marker), AppendOrigin.COORDINATOR)

    def flush(self) -> None:
        self.log.writer.flush()
        self._note(Act.FLUSHED)

    def roll(self) -> None:
        self.log.writer.roll(NOW_MS)

    def checkpoint(self) -> None:
        self.directory.checkpoints.write()
        self._note(Act.START_KEPT)

    def truncate(self, offset: int) -> None:
        self._note(Act.CUTTING, offset)
        self.log.maintenance.truncate_to(offset, now_ms=NOW_MS)
        self._note(Act.CUT, offset)
        self._sequences = {
            producer: entry.last_sequence + 1
            for producer, entry in self.log.producers.entries.items()
        }

    def restart(self, offset: int) -> None:
        self._note(Act.RESTARTING, offset)
        self.log.maintenance.truncate_fully_and_start_at(offset, now_ms=NOW_MS)
        self._note(Act.RESTARTED, offset)
        self._sequences = {}

    def delete_before(self, offset: int) -> None:
        self._note(Act.DELETING, offset)
        self.log.maintenance.delete_records_before(offset)
        self.checkpoint()
        self.log.maintenance.delete_segments_below_start()

    def retain(self, age_ms: int, *, max_count: int = 100, in_slices: bool = False) -> None:
        """Retention comes by when that much time has passed since the newest record.

        In slices of one segment only the last is made durable; checkpoints come between.
        """
        now_ms = NOW_MS + 10 * self._times + age_ms
        plan = plan_retention(facts_of(self.log), now_ms, max_count)
        assert plan.going, "a workload that retains nothing proves nothing"
        self._note(Act.DELETING, plan.start_offset)
        begin_retention(self.log, plan, now_ms)
        self.directory.checkpoints.write_log_starts()
        self._note(Act.START_KEPT)
        slices = [1] * (len(plan.going) - 1) if in_slices else []
        retired = []
        for count in slices:
            retired += self.log.maintenance.delete_segments_below_start(
                max_count=count, durably=False
            )
            self.directory.checkpoints.write_log_starts()
        last = len(plan.going) - len(slices)
        retired += self.log.maintenance.delete_segments_below_start(max_count=last)
        # Half of them wait, as those do whose delay is not over when the power fails.
        for segment in retired[::2]:
            with self.log.health.guarding(changes_files=True):
                segment.remove()

    def recreate(self) -> None:
        """Deletes the topic, and makes another one of the same name."""
        self._note(Act.RESTARTING)
        log = self.directory.logs[KEY]
        self.directory.delete_logs([KEY])
        log.maintenance.abandon()
        self.directory.create_log(*KEY, TOPIC_ID)
        self._note(Act.RESTARTED)
        self._sequences = {}

    def close(self) -> None:
        directory, self._opened = self.directory, None
        directory.close()
        if directory.is_offline:
            # Closing an offline directory is no error, but it promises nothing either.
            raise StorageError(directory.path, "went offline while it was closed")
        self._note(Act.FLUSHED)
        self._note(Act.START_KEPT)

    def _append(self, records: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        # The leader epoch lies outside the CRC, as the base offset does.
        records[12:16] = self.epoch.to_bytes(4, "big")
        self._note(Act.APPENDING, records=bytes(records))
        for batch in iter_batches(records):
            # As producers send them; the log puts the offset back.
            batch.stamp(0, self.epoch)
        self.log.writer.append_as_leader(
            records, leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin
        )
        self.log.writer.write_out()
        self._note(Act.WRITTEN)

    def _batch(self, count: int, offset: int, producer: int | None, transaction: bool) -> bytearray:
        builder = RecordBatchBuilder(
            offset,
            leader_epoch=self.epoch,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            base_sequence=-1 if producer is None else self._take_sequences(producer, count),
            is_transactional=transaction,
        )
        for number in range(count):
            value = b"%d in epoch %d" % (offset + number, self.epoch)
            builder.append(b"k", value, self._next_time())
        return bytearray(builder.build())

    def _take_sequences(self, producer: int, count: int) -> int:
        first = self._sequences.get(producer, 0)
        self._sequences[producer] = first + count
        return first

    def _next_time(self) -> int:
        """Times that go back now and then, as those of several producers do."""
        self._times += 1
        return NOW_MS + 10 * self._times - (25 if self._times % 3 == 0 else 0)

    def _note(self, act: Act, offset: int = 0, records: bytes = b"") -> None:
        self.events.append(Event(act, offset, records))
