"""A broker of the simulated cluster whose logs are real ones, on a disk in memory.

As `cluster_broker.ModelBroker` to the world around it: `Replicas` carries out what the machine
wants, and the world looks at each effect before. A killed process leaves what it has written.
"""

import errno
import random
from collections.abc import Callable
from typing import Any, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.replicas.replicas import Awaited, Replicas
from ottla.broker.replication.effects import AnswerDelayed, Effect
from ottla.broker.replication.fetches import (
    AskEpochEnd,
    AskOffsets,
    Fetch,
    Fetched,
    FollowerRequest,
    LeaderAnswer,
)
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.replication.replica_manager import (
    Applied,
    ReplicaManager,
    Sender,
)
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.fetch_queries import Fetcher, FetchQuery, NoRecordsError, PartitionQuery
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import Outgoing
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.record import read_records
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode
from tests.simulation.cluster_broker import (
    LAG_MS,
    MIN_ISR,
    PRODUCE_TIMEOUT_MS,
    ManagedReplicas,
    Record,
)
from tests.support.brokers import NOW_MS, batch, disk
from tests.support.leader_answers import epoch_ended, offsets
from tests.support.replicated_brokers import open_member, replicas_of

DIRECTORIES = ("/d", "/e")
FETCH_SIZE = 400
"""Some batches of one record."""


def transactional(value: str, producer_id: int) -> bytearray:
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(None, value.encode(), NOW_MS)
    return bytearray(builder.build())


class LogView:
    """A real log as the invariants look at one; records are decoded once."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._records: dict[int, Record] = {}
        self._end = 0
        self._cut_count = -1

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    def transactions(self, start: int) -> tuple[set[tuple[int, int, int]], set[int]]:
        """The aborted ones that begin at an offset or later, and where open ones begin."""
        aborted = self.log.reader.aborted_transactions(start, self.log_end_offset)
        begins = [one.transaction_first_offset for one in self.log.producers.entries.values()]
        return (
            {
                (one.producer_id, one.first_offset, one.last_offset)
                for one in aborted
                if one.first_offset >= start
            },
            {one for one in begins if one is not None and one >= start},
        )

    @property
    def records(self) -> list[Record]:
        return [
            record
            for offset in range(self.log_start_offset, self.log_end_offset)
            if (record := self.record(offset)) is not None
        ]

    def record(self, offset: int) -> Record | None:
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        self.decode()
        return self._records.get(offset)

    def decode(self) -> None:
        log = self.log
        if self._cut_count != log.offsets.cut_count:
            self._records, self._end = {}, log.log_start_offset
            self._cut_count = log.offsets.cut_count
        self._end = max(self._end, log.log_start_offset)
        while self._end < log.log_end_offset:
            found = log.reader.read(self._end, 1 << 20, Isolation.LOG_END).records
            assert found is not None
            for one in iter_batches(found.read()):
                assert isinstance(one, RecordBatch)
                for record in read_records(one):
                    value = b"" if record.value is None else record.value
                    self._records[record.offset] = (one.partition_leader_epoch, value.decode())
                self._end = one.last_offset + 1


class LogViews:
    """By partition, of the broker that is up, or was last."""

    def __init__(self) -> None:
        self.broker: Broker
        self._views: dict[TopicPartition, LogView] = {}

    def get(self, place: TopicPartition) -> LogView | None:
        topic = self.broker.topics.find(place.topic)
        partition = None if topic is None else topic.partitions.get(place.partition)
        if partition is None:
            return None
        view = self._views.get(place)
        if view is None or view.log is not partition.log:
            view = self._views[place] = LogView(partition.log)
        return view

    def decode_all(self, directory: LogDirectory) -> None:
        """What a directory holds cannot be read after it has failed."""
        for place, log in directory.logs.items():
            view = self.get(place)
            if view is not None and view.log is log:
                view.decode()

    def __getitem__(self, place: TopicPartition) -> LogView:
        view = self.get(place)
        assert view is not None, place
        return view


class Waiting(DelayedOperation):
    """A produce of one record."""

    __slots__ = ("record",)

    def __init__(self, offset: int, value: str, deadline_ms: float) -> None:
        super().__init__(deadline_ms)
        self.record = (offset, value)


class Clock(Protocol):
    """What time it is in a broker's process."""

    @property
    def at(self) -> Timestamps: ...


class LogBroker(ManagedReplicas):
    """All but its disk is gone when it restarts."""

    def __init__(
        self,
        broker_id: int,
        look_at: Callable[["LogBroker", Effect], None],
        clock: Clock,
        *,
        version: str,
    ) -> None:
        self.id = broker_id
        self.logs = LogViews()
        self._look_at = look_at
        self._clock = clock
        self._version = version
        self._disk = disk(*DIRECTORIES)
        self._open()

    def _open(self) -> None:
        self._broker = self.logs.broker = open_member(
            self.id,
            self._disk,
            *DIRECTORIES,
            before_effect=self._look,
            inter_broker_protocol_version=self._version,
            min_insync_replicas=str(MIN_ISR),
            replica_lag_time_max_ms=str(LAG_MS),
            replica_fetch_wait_max_ms=str(LAG_MS),
            log_segment_bytes="2000",
            log_retention_check_interval_ms="300",
        )
        self._replicas: Replicas = replicas_of(self._broker)

    def restart(self) -> None:
        self._disk = self._disk.crash(CrashMode.KEEP)
        self._open()

    def _look(self, effect: Effect) -> None:
        if isinstance(effect, AnswerDelayed):
            awaited = effect.pending_id
            assert isinstance(awaited, Awaited)
            assert isinstance(awaited.pending, Waiting)
            effect = AnswerDelayed(awaited.pending.record, effect.partition, effect.error)
        self._look_at(self, effect)

    @property
    def _at(self) -> Timestamps:
        return self._clock.at

    @property
    def storage_failures(self) -> int:
        """Those that the broker has noticed."""
        return self._replicas.storage_failures

    @property
    def has_failed_directory(self) -> bool:
        return not self._broker.directories.is_complete

    def fail_directory(self, chance: random.Random) -> bool:
        """As a failed write or sync of a file in it does."""
        if self.has_failed_directory:
            return False
        failing = chance.choice(self._broker.directories.online)
        self.logs.decode_all(failing)
        failing.health.fail(OSError(errno.EIO, "I/O error"))
        return True

    @property
    def manager(self) -> ReplicaManager:
        return self._replicas.manager

    def fence(self) -> None:
        self._replicas.fence()

    def apply(self, request: Outgoing, controller: int, now_ms: float) -> Applied:
        sender = Sender(
            controller=controller,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
        )
        applied = self._replicas.apply(request.order, sender, self._at)
        self._replicas.save_stopped()
        return applied

    # Leading

    def produce(self, partition: TopicPartition, value: str, now_ms: float) -> ErrorCode:
        """A third of the values come in a transaction, which some later one ends."""
        found, number = self._broker.topics.partition(*partition), int(value[1:])
        records = batch(value.encode())
        if number % 3 == 0:
            records = transactional(value, number)
        try:
            info = self._broker.appends.append(found, records, now_ms=self._at.now_ms)
            if number % 4 == 0:
                self._end_transactions(found, is_commit=number % 8 == 0)
        except ApiError as error:
            return error.code
        pending = Waiting(info.first_offset, value, now_ms + PRODUCE_TIMEOUT_MS)
        assert found.replication is not None
        found.replication.await_commit(pending, info.last_offset + 1)
        pending.all_awaited()
        self._broker.appends.write_out()
        self._broker.answers.take_answered(now_ms)
        return ErrorCode.NONE

    def _end_transactions(self, partition: Partition, *, is_commit: bool) -> None:
        open_ones = [
            one.producer_id
            for one in partition.log.producers.entries.values()
            if one.transaction_first_offset is not None
        ]
        for producer_id in open_ones:
            marker = build_end_transaction_marker(
                EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=NOW_MS,
            )
            self._broker.appends.append(
                partition,
                bytearray(marker),
                now_ms=self._at.now_ms,
                origin=AppendOrigin.COORDINATOR,
            )

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        self.logs[partition].log.maintenance.delete_records_before(offset)

    def serve(self, request: FollowerRequest, now_ms: float) -> LeaderAnswer:
        self._replicas.note_time(self._at)
        match request:
            case Fetch():
                return self._fetched(request)
            case AskEpochEnd():
                return epoch_ended(self.manager, request)
            case AskOffsets():
                return offsets(self.manager, request)

    def _fetched(self, asked: Fetch) -> Fetched:
        wanted = PartitionQuery(
            *asked.partition,
            asked.fetch_offset,
            FETCH_SIZE,
            asked.leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            replica_log_start=asked.log_start_offset,
        )
        fetcher = Fetcher(asked.follower, asked.broker_epoch)
        (found,) = self._broker.fetches.fetch(
            FetchQuery([wanted], 1 << 20, fetcher=fetcher)
        ).partitions
        fields: dict[str, Any] = {}
        if isinstance(found, NoRecordsError):
            assert found.diverging is not None
            fields["diverging"] = EpochEnd(*found.diverging)
            found = found.data
        if isinstance(found, ApiError):
            fields["error"] = found.code
        else:
            fields["high_watermark"] = found.high_watermark
            fields["log_start_offset"] = found.log_start_offset
            fields["records"] = None if found.records is None else found.records.read()
        return Fetched(
            partition=asked.partition,
            leader_epoch=asked.leader_epoch,
            fetch_offset=asked.fetch_offset,
            **fields,
        )

    def tick(self, now_ms: float) -> None:
        self._broker.scheduler.run_due(self._at)
        self._broker.answers.take_answered(now_ms)

    def altered(self, attempt: int, answers: tuple[AlteredAnswer, ...], now_ms: float) -> None:
        self._replicas.altered(attempt, answers, self._at)

    # Following

    def take(self, answer: LeaderAnswer) -> None:
        self._replicas.take(answer, self._at)

    def record_high_watermarks(self) -> None:
        for directory in self._broker.directories.online:
            directory.checkpoints.write_high_watermarks()
