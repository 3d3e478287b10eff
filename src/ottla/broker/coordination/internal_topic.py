"""An internal topic: its coordinator writes it, and reads it at startup.

Kafka's counterparts: `CoordinatorPartitionWriter`, `CoordinatorLoaderImpl`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.events import OnEvent
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.turns import Budget, at_once, let_others
from ottla.base.values import dataclass
from ottla.broker.coordination.losses import KeptState
from ottla.broker.coordination.refused_writes import RefusedWrites
from ottla.broker.coordination.shards import (
    MachineT,
    NewMachine,
    PartitionOwner,
    ShardOwner,
    Shards,
)
from ottla.broker.coordination.stored_records import (
    STEP_RECORDS,
    EveryRecord,
    LatestRecords,
    ReadRecords,
    StoredRecord,
)
from ottla.broker.records.appends import Appends
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic, TopicCreator, Topics
from ottla.codec.compression import Compression
from ottla.coordinator.catalog import TopicCatalog
from ottla.coordinator.placement import partition_for
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import Batch, BuiltBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.findings import Finding
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.reading.checked_batches import repair_hint
from ottla.storage.reading.sound_batches import sound_batches

logger = logging.getLogger(__name__)


class CoordinatorBroker(Protocol):
    """The parts of the broker that a coordinator needs."""

    topics: Topics
    appends: Appends
    budget: Budget

    @property
    def replicas(self) -> "CoordinatorReplicas": ...

    @property
    def on_event(self) -> OnEvent: ...

    @property
    def admin(self) -> TopicCreator: ...


class AllTopics(TopicCatalog, Protocol):
    """All topics; in a cluster also those on other brokers."""

    def partition_count(self, name: str, /) -> int | None:
        """Returns `None` for a topic that does not exist."""

    def name_by_id(self, topic_id: bytes, /) -> str | None:
        """Returns `None` for an unknown id."""

    def has_partition(self, partition: TopicPartition, /) -> bool: ...

    def leader_of(self, partition: TopicPartition, /) -> int | None:
        """Returns -1 without a live leader, and `None` for a partition that does not exist."""


class CoordinatorReplicas(Protocol):
    """What a coordinator asks of the replicas of its topic."""

    @property
    def topics(self) -> AllTopics: ...

    def shards(
        self, timers: AllTimers, new_machine: NewMachine[MachineT], owner: ShardOwner[MachineT]
    ) -> Shards[MachineT]:
        """Returns the shards of the topic."""

    def partition_shards(
        self, timers: AllTimers, new_machine: NewMachine[MachineT], owner: PartitionOwner[MachineT]
    ) -> Shards[MachineT]:
        """As `shards`, but always one for each partition."""

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """Creates the topic, where that is not another broker's part; raises `ApiError`."""


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    key: bytes
    value: bytes | None


class InternalTopic:
    """A topic that is created at the first request that may write to it."""

    def __init__(
        self,
        broker: CoordinatorBroker,
        new: NewTopic,
        compression: Compression,
        kept: KeptState,
    ) -> None:
        self._kept = kept
        self._broker = broker
        self._new = new
        self._all_topics = broker.replicas.topics
        self._compression = compression
        self._is_being_made = False
        self._refused_writes = RefusedWrites()
        self.name: Final = new.name
        self.unread: set[int] = set()
        """The partitions whose records could not be read."""

    def prepare(self, before_making: Callable[[], None]) -> None:
        """Creates the topic, in turns, before a decision that needs it.

        Other requests that need it wait meanwhile. If the creation fails, `append` raises the
        error.
        """
        topics, name = self._all_topics, self.name
        if topics.find(name) is not None and not self._is_being_made:
            return
        before_making()
        while self._is_being_made and let_others():
            pass
        if topics.find(name) is not None:
            return
        self._is_being_made = True
        try:
            with suppress(ApiError):
                self.make()
        finally:
            self._is_being_made = False

    def append(
        self,
        place: str,
        records: Sequence[EncodedRecord],
        *,
        now_ms: int,
        producer: tuple[int, int] | None = None,
    ) -> int:
        """Appends one batch to the partition that stores a group's or transactional id.

        `producer` is the id and epoch of the transaction that the batch belongs to. Returns the
        offset of the first record. Raises `ApiError`, and has then written nothing; the log says
        so.
        """
        stored = TopicPartition(self.name, self.partition_of(place))
        try:
            offset = self._append(stored.partition, records, producer, now_ms)
        except ApiError as error:
            self._refused_writes.refused(stored, f"{self._kept.owners} such as {place}", error)
            raise
        self._refused_writes.written(stored)
        return offset

    def _append(
        self,
        index: int,
        records: Sequence[EncodedRecord],
        producer: tuple[int, int] | None,
        now_ms: int,
    ) -> int:
        topic = self._broker.topics.find(self.name)
        if topic is None:
            # A decision is being carried out: it must be replayed before the next is made.
            with at_once():
                topic = self.make()
        builder = RecordBatchBuilder(compression=self._compression)
        if producer is not None:
            builder.is_transactional = True
            builder.producer_id, builder.producer_epoch = producer
        for record in records:
            builder.append(record.key, record.value, now_ms)
        partition = topic.partition(index)
        batch = BuiltBatch(builder.build_writable())
        origin = AppendOrigin.COORDINATOR
        info = self._broker.appends.append(partition, batch, now_ms=now_ms, origin=origin)
        return info.first_offset

    def make(self) -> Topic:
        """Creates the topic; raises `ApiError`, where it is another broker's part
        NOT_LEADER_OR_FOLLOWER.
        """
        topic = self._broker.replicas.make_internal(self._new, self._broker.admin)
        self.unread.clear()
        return topic

    def read_all(self) -> Iterator[StoredRecord]:
        """Yields the last record of every key in every partition, and records of open transactions.

        Skips partitions that are offline or lost, or so damaged that nothing is left; requests for
        their keys are refused from then on (`is_unread`). Of another damaged partition all sound
        records are served, and the error names whose records may be lost. Raises `StorageError`.
        """
        topic = self._broker.topics.find(self.name)
        if topic is None:
            return
        self.unread.update(topic.leaderless_indexes)
        for index, partition in sorted(topic.partitions.items()):
            if partition.is_offline:
                continue
            latest = LatestRecords()
            for _ in latest.take_all(_found_in(partition), partition.log.directory):
                pass
            try:
                self._report_damage(latest, partition.log)
            except CorruptionError as error:
                self.unread.add(index)
                logger.error("%s; what %s keeps is not served", error, partition.log.name)
            yield from latest.sorted()

    def read_in_steps(self, index: int, take: Callable[[StoredRecord], None]) -> Iterator[None]:
        """As `read_all`, for one partition; passes a few records to `take` in each step.

        Raises `CorruptionError` if it is damaged and nothing is left, and `StorageError`, also for
        a partition that is not on this broker.
        """
        partition = self.partition(index)
        partition.log.writer.write_out()
        latest = LatestRecords()
        for _ in latest.take_all(_found_in(partition), partition.log.directory):
            yield
        self._hand_over_damaged(partition, latest)
        self._report_damage(latest, partition.log)
        records = latest.in_order()
        while part := list(islice(records, STEP_RECORDS)):
            for record in part:
                take(record)
            yield

    def replay_in_steps(
        self, index: int, take: Callable[[bytes, bytes | None, int], None]
    ) -> Iterator[None]:
        """As `read_in_steps`, for a topic that is not compacted: all records of a partition in
        their order, each as its key, its value or `None`, and its offset.
        """
        partition = self.partition(index)
        partition.log.writer.write_out()
        every = EveryRecord(take)
        yield from every.take_all(_found_in(partition), partition.log.directory)
        self._hand_over_damaged(partition, every)
        self._report_damage(every, partition.log)

    def _hand_over_damaged(self, partition: Partition, read: ReadRecords) -> None:
        """Raises `CorruptionError` if a replica in sync, which has all records, leads instead."""
        if read.damage and partition.replication is not None:
            damage = read.damage[0].error()
            if partition.damaged(damage, "load").code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise damage

    def _report_damage(self, read: ReadRecords, log: PartitionLog) -> None:
        lost = self._kept.loss(log.name, read, "served", repair_hint(log.directory))
        if lost is not None:
            logger.error("%s", lost)

    def partition(self, index: int) -> Partition:
        """Returns one of this broker's partitions; raises `StorageError` for any other."""
        name = self.name
        try:
            return self._broker.topics.online_partition(name, index)
        except ApiError as error:
            raise StorageError(name, f"{name}-{index} is not at hand") from error

    def is_unread(self, place: str) -> bool:
        """Whether the partition that stores an id could not be read."""
        return bool(self.unread) and self.partition_of(place) in self.unread

    def partition_of(self, place: str) -> int:
        """The partition that stores an id, or will store it when the topic is created."""
        return partition_for(place, self._partition_count)

    @property
    def _partition_count(self) -> int:
        """The partition count of the topic as it is, or as it will be created."""
        return self._all_topics.partition_count(self.name) or self._new.partition_count

    def leader_epoch_of(self, place: str) -> int:
        """The leader epoch of the partition that stores an id; the partition must be online."""
        return self._broker.topics.partition(self.name, self.partition_of(place)).leader_epoch

    def is_online(self, place: str) -> bool:
        """Whether the partition that stores an id is writable, or is yet to be created."""
        topic = self._broker.topics.find(self.name)
        if topic is None:
            return True
        index = self.partition_of(place)
        partition = topic.partitions.get(index)
        if partition is None:
            return index not in topic.offline_indexes
        return not partition.is_offline


def _found_in(partition: Partition) -> Iterator[Batch | Finding]:
    place = TopicPartition(partition.topic, partition.index)
    cleaned_until = partition.directory.checkpoints.cleaned.get(place, 0)
    return sound_batches(partition.log, partition.log.losses(cleaned_until))
