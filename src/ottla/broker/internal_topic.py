"""An internal topic, as its coordinator writes it and reads it again at start.

Kafka's counterparts: `CoordinatorPartitionWriter`, `CoordinatorLoaderImpl`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from ottla.base.errors import ApiError, CorruptionError
from ottla.base.events import OnEvent
from ottla.base.files import Buffer
from ottla.base.partitions import TopicPartition
from ottla.base.turns import at_once, let_others
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import NewTopic, Topic, Topics
from ottla.codec.compression import Compression
from ottla.coordinator.placement import partition_for
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import read_records
from ottla.storage.files.integrity import NO_LOSSES, KnownLosses
from ottla.storage.log.append import AppendInfo
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.log.reader import Isolation
from ottla.storage.reading.checked_batches import checked_batches, repair_hint

logger = logging.getLogger(__name__)

READ_SIZE = 1 << 20


class Appender(Protocol):
    """What a coordinator needs of the broker it belongs to."""

    topics: Topics
    on_event: OnEvent

    def create_topic(self, new: NewTopic) -> Topic: ...

    def append(
        self,
        partition: Partition,
        records: Buffer,
        *,
        now_ms: int,
        acks: int = ...,
        origin: AppendOrigin,
    ) -> AppendInfo: ...


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that counts: `producer_id` is there if its transaction is still open."""

    key: bytes
    value: bytes
    offset: int
    producer_id: int | None = None


class InternalTopic:
    """A compacted topic that is made for the first request that may write to it."""

    def __init__(self, broker: Appender, new: NewTopic, compression: Compression) -> None:
        self._broker = broker
        self._new = new
        self._compression = compression
        self._is_being_made = False
        self.unread: set[int] = set()
        """The partitions whose records could not be read."""

    def prepare(self, before_making: Callable[[], None]) -> None:
        """Makes the topic before anything is decided that needs it, in turns.

        A request that comes meanwhile waits. Why the topic cannot be made `append` reports.
        """
        topics, name = self._broker.topics, self._new.name
        if topics.find(name) is not None:
            return
        before_making()
        while self._is_being_made and let_others():
            pass
        if topics.find(name) is not None:
            return
        self._is_being_made = True
        try:
            with suppress(ApiError):
                self._create()
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
        """Appends to the partition that a group's or transaction's id stands for, in one batch.

        `producer` is the id and epoch in whose transaction that is. Returns the first record's
        offset. Raises `ApiError`, and has then written nothing.
        """
        topic = self._broker.topics.find(self._new.name)
        if topic is None:
            # A decision is being carried out: nobody else may decide before it is replayed.
            with at_once():
                topic = self._create()
        builder = RecordBatchBuilder(compression=self._compression)
        if producer is not None:
            builder.is_transactional = True
            builder.producer_id, builder.producer_epoch = producer
        for record in records:
            builder.append(record.key, record.value, now_ms)
        partition = topic.partition(partition_for(place, topic.partition_count))
        batch = bytearray(builder.build())
        origin = AppendOrigin.COORDINATOR
        return self._broker.append(partition, batch, now_ms=now_ms, origin=origin).first_offset

    def _create(self) -> Topic:
        topic = self._broker.create_topic(self._new)
        self.unread.clear()
        return topic

    def read_all(self) -> Iterator[StoredRecord]:
        """The last record of every key in every partition, and those of open transactions.

        Nothing of a partition that is offline, or damaged: a client that asks for what it keeps is
        refused from now on (`is_unread`). Raises `StorageError`.
        """
        topic = self._broker.topics.find(self._new.name)
        if topic is None:
            return
        self.unread.update(topic.leaderless_indexes)
        for index, partition in sorted(topic.partitions.items()):
            if partition.directory.is_offline:
                continue
            log = partition.log
            try:
                cleaned_until = partition.directory.checkpoints.cleaned.get(
                    TopicPartition(topic.name, index), 0
                )
                batches = batches_of(log, log.losses(cleaned_until))
                yield from latest_records(batches, log.directory)
            except CorruptionError as error:
                self.unread.add(index)
                logger.error("%s; what %s keeps is not served", error, log.name)

    def is_unread(self, place: str) -> bool:
        """Whether what the partition keeps that an id stands for could not be read."""
        return bool(self.unread) and self.partition_of(place) in self.unread

    def partition_of(self, place: str) -> int:
        """The partition that an id stands for, or will when the topic is made."""
        topic = self._broker.topics.find(self._new.name)
        count = self._new.partition_count if topic is None else topic.partition_count
        assert count is not None
        return partition_for(place, count)

    def leader_epoch_of(self, place: str) -> int:
        """The leader epoch of the partition that an id stands for, which must be online."""
        return self._broker.topics.partition(self._new.name, self.partition_of(place)).leader_epoch

    def is_online(self, place: str) -> bool:
        """Whether the partition that an id stands for can be written to, or is yet to be made."""
        topic = self._broker.topics.find(self._new.name)
        if topic is None:
            return True
        index = partition_for(place, topic.partition_count)
        partition = topic.partitions.get(index)
        if partition is None:
            return index not in topic.offline_indexes
        return not partition.directory.is_offline


def latest_records(batches: Iterable[Batch], place: str) -> Iterator[StoredRecord]:
    """What compaction would leave of a log, without the tombstones, in order of offset.

    Raises `CorruptionError`, which names the place and the offset.
    """
    latest = _Latest()
    offset = 0
    try:
        for batch in batches:
            offset = batch.base_offset
            latest.take(batch)
    except InvalidBatchError as error:
        raise CorruptionError(f"{place} at offset {offset}", 0, str(error)) from error
    return iter(latest.records())


def batches_of(log: PartitionLog, losses: KnownLosses = NO_LOSSES) -> Iterator[Batch]:
    """Every batch of a log, to its end, each checked; raises `CorruptionError`.

    Also where one is missing that is known to be lost.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.reader.read(offset, READ_SIZE, Isolation.LOG_END)
        region = data.records.read() if data.records else b""
        if data.records is None or not region:
            _check_gap(log, losses.within(offset, log.log_end_offset))
            return
        for batch in checked_batches(data.records, region):
            _check_gap(log, losses.within(offset, batch.base_offset))
            yield batch
            offset = batch.last_offset + 1


def _check_gap(log: PartitionLog, lost: tuple[int, int] | None) -> None:
    if lost is not None:
        reason = f"offsets {lost[0]} to {lost[1] - 1} are missing"
        raise CorruptionError(log.directory, 0, f"{reason}; {repair_hint(log.directory)}")


@dataclass(slots=True)
class _Latest:
    """The last value of each key with its offset; a transaction's count when it is committed."""

    values: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    open: dict[int, dict[bytes, tuple[int, bytes | None]]] = field(default_factory=dict)

    def take(self, batch: Batch) -> None:
        if batch.is_control:
            self._end_transaction(batch)
            return
        values = self.values
        if isinstance(batch, RecordBatch) and batch.is_transactional:
            values = self.open.setdefault(batch.producer_id, {})
        for record in read_records(batch):
            if record.key is not None:
                values[record.key] = (record.offset, record.value)

    def _end_transaction(self, batch: Batch) -> None:
        marker = parse_end_transaction_marker(batch)
        values = None if marker is None else self.open.pop(batch.producer_id, None)
        if values is None or marker is None or not marker.is_commit:
            return
        for key, (offset, value) in values.items():
            known = self.values.get(key)
            if known is None or known[0] < offset:
                self.values[key] = (offset, value)

    def records(self) -> list[StoredRecord]:
        found = [
            StoredRecord(key, value, offset)
            for key, (offset, value) in self.values.items()
            if value is not None
        ]
        for producer_id, values in self.open.items():
            found += [
                StoredRecord(key, value, offset, producer_id)
                for key, (offset, value) in values.items()
                if value is not None
            ]
        found.sort(key=lambda one: one.offset)
        return found
