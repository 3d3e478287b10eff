"""The topic `__remote_log_metadata` of a running broker: what it says of uploads, and new records.

Its partitions on this broker are read from their logs, in slices, up to the high watermark; what is
appended is applied once it is committed. So what is in memory is always what a restart would read.
A writer continues when its own record is applied.

Format page: docs/format/remote-log-metadata.md. Kafka's counterparts:
`TopicBasedRemoteLogMetadataManager`, `ConsumerTask`, which reads the topic through a client.
"""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.records.appends import Appends
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import NewTopic, Topic, TopicCreator, Topics
from ottla.codec.api_messages import UnknownRecordError
from ottla.config.tiering import MetadataTopicConfig
from ottla.record.batch import Batch, BuiltBatch, InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record, read_records
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.findings import Finding
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.reading.sound_batches import sound_batches
from ottla.storage.remote.metadata_partition import metadata_partition
from ottla.storage.remote.metadata_records import (
    Event,
    decode_event,
    encode_event,
)
from ottla.storage.remote.segment_index import SegmentIndex, SegmentIndexes

logger = logging.getLogger(__name__)

RECORDS_PER_SLICE: Final = 64
"""Each takes 30 µs to decode and to apply."""

READ_SIZE: Final = 1 << 16


class MetadataReplicas(Protocol):
    """What is asked of the replicas of the topic."""

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """Creates the topic, where that is not another broker's part; raises `ApiError`."""


class MetadataBroker(Protocol):
    """The parts of the broker that the topic needs."""

    topics: Topics
    appends: Appends

    @property
    def replicas(self) -> MetadataReplicas: ...

    @property
    def admin(self) -> TopicCreator: ...


class Publication:
    """A record that was appended; `is_applied` once it is committed and applied."""

    __slots__ = ("_deadline_ms", "error", "event", "is_applied", "offset", "place")

    def __init__(
        self, event: Event, place: TopicPartition, offset: int, deadline_ms: float
    ) -> None:
        self.event = event
        self.place = place
        self.offset = offset
        self.is_applied = False
        self.error: ApiError | None = None
        """Why it is not known whether the record is committed."""
        self._deadline_ms = deadline_ms

    def expire(self, monotonic_ms: float) -> bool:
        if monotonic_ms < self._deadline_ms:
            return False
        self.error = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{self.place}: not committed in time")
        return True


class RemoteLogMetadata:
    """The uploads of the partitions whose metadata this broker has, and the topic's writer.

    For one thread at a time, as the broker is.
    """

    def __init__(self, broker: MetadataBroker, config: MetadataTopicConfig) -> None:
        self._broker = broker
        self._config = config
        self._readings: dict[int, _Reading] = {}
        """By partition of the topic."""
        self._places: dict[tuple[Uuid, int], int] = {}
        """The partition of the topic that has a partition's records."""
        self._partition_count = 0
        self._pending: list[Publication] = []

    # What is known

    def index_of(self, topic_id: Uuid, partition: int) -> SegmentIndex | None:
        """The uploads of a partition; `None` if no record speaks of it, or none that is read."""
        reading = self._readings.get(self.place_of(topic_id, partition))
        return None if reading is None else reading.indexes.find(topic_id, partition)

    def is_ready(self, topic_id: Uuid, partition: int) -> bool:
        """Whether all records that were committed when the broker began to read have been read.

        Before the first upload there is no topic, and nothing to be read.
        """
        if self._topic() is None:
            return True
        reading = self._readings.get(self.place_of(topic_id, partition))
        return reading is not None and reading.is_ready

    def indexes(self) -> Iterator[SegmentIndex]:
        """Those of all partitions that are known."""
        for reading in self._readings.values():
            yield from reading.indexes

    @property
    def unreadable(self) -> dict[int, str]:
        """The partitions of the topic that cannot be read, and why."""
        return {
            index: one.failure for index, one in self._readings.items() if one.failure is not None
        }

    def place_of(self, topic_id: Uuid, partition: int) -> int:
        """The partition of the topic that has the records of a partition, or will have them."""
        topic = self._topic()
        count = (
            self._config.remote_log_metadata_topic_num_partitions
            if topic is None
            else topic.partition_count
        )
        if count != self._partition_count:
            self._places.clear()
            self._partition_count = count
        key = topic_id, partition
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = metadata_partition(topic_id, partition, count)
        return place

    def _topic(self) -> Topic | None:
        return self._broker.topics.find(REMOTE_LOG_METADATA)

    # Reading

    def advance(self, at: Timestamps) -> bool:
        """Reads some records that are committed meanwhile; returns whether more are left."""
        topic = self._topic()
        partitions = {} if topic is None else topic.partitions
        for index in self._readings.keys() - partitions.keys():
            del self._readings[index]
        has_more = False
        for index, partition in partitions.items():
            reading = self._readings.get(index)
            if reading is None or not reading.is_of(partition):
                reading = self._readings[index] = _Reading(partition)
            if not has_more and not reading.is_at_end:
                reading.advance()
                has_more = not reading.is_at_end
        self._settle(at.monotonic_ms)
        return has_more

    def _settle(self, monotonic_ms: float) -> None:
        """Answers what waits for records."""
        left: list[Publication] = []
        for one in self._pending:
            reading = self._readings.get(one.place.partition)
            if reading is None:
                one.error = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif reading.next_offset > one.offset:
                one.is_applied = True
            elif not one.expire(monotonic_ms):
                left.append(one)
        self._pending = left

    # Writing

    @property
    def is_created(self) -> bool:
        """Whether the topic exists, as far as this broker knows."""
        return self._topic() is not None

    def is_writer_of(self, topic_id: Uuid, partition: int) -> bool:
        """Whether this broker leads the partition of the topic that has a partition's records."""
        place = self.place_of(topic_id, partition)
        try:
            self._broker.topics.online_partition(REMOTE_LOG_METADATA, place).check_leader()
        except ApiError:
            return False
        return True

    def prepare(self) -> None:
        """Creates the topic in turns, unless it exists; raises `ApiError`."""
        if self._topic() is None:
            config = self._config
            overrides: dict[str, str | None] = {
                "cleanup.policy": "delete",
                "remote.storage.enable": "false",
                "retention.ms": str(config.remote_log_metadata_topic_retention_ms),
            }
            if config.remote_log_metadata_topic_replication_factor > 1:
                overrides["min.insync.replicas"] = str(config.remote_log_metadata_topic_min_isr)
            new = NewTopic(
                name=REMOTE_LOG_METADATA,
                partition_count=config.remote_log_metadata_topic_num_partitions,
                replication_factor=config.remote_log_metadata_topic_replication_factor,
                overrides=overrides,
            )
            self._broker.replicas.make_internal(new, self._broker.admin)

    def publish(self, event: Event, at: Timestamps) -> Publication:
        """Appends a record; the topic must exist. Raises `ApiError`, and has then written nothing.

        Returns what tells when it is applied: at once where no other replica has to have it.
        """
        topic_id, index = event.partition.topic_id, event.partition.partition
        place = TopicPartition(REMOTE_LOG_METADATA, self.place_of(topic_id, index))
        partition = self._broker.topics.online_partition(*place)
        partition.check_leader()
        builder = RecordBatchBuilder()
        builder.append(None, encode_event(event), at.now_ms)
        batch = BuiltBatch(builder.build_writable())
        info = self._broker.appends.append(
            partition, batch, now_ms=at.now_ms, origin=AppendOrigin.COORDINATOR
        )
        try:
            self._broker.appends.write_out()
        except StorageError as error:
            if partition.directory.is_offline:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        wait_ms = self._config.remote_log_metadata_consume_wait_ms
        published = Publication(event, place, info.first_offset, at.monotonic_ms + wait_ms)
        self._pending.append(published)
        self.advance(at)
        return published

    def log_of(self, published: Publication) -> PartitionLog | None:
        """The log that has a record on this broker, to be synced."""
        try:
            return self._broker.topics.online_partition(*published.place).log
        except ApiError:
            return None


class _Reading:
    """Reads one partition of the topic, and applies its records."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.indexes = SegmentIndexes()
        self.failure: str | None = None
        """Why nothing can be read."""
        self.is_ready = False
        self._log = partition.log
        self._cut_count = partition.log.offsets.cut_count
        self._records = self._stored_records()
        """Those that are in the log at the start."""
        self._ready_offset = partition.log.high_watermark
        self.next_offset = partition.log.log_start_offset
        if self._ready_offset <= self.next_offset:
            self._loaded()

    def is_of(self, partition: Partition) -> bool:
        """Whether it has read this log, and an unclean election has not cut off what was read."""
        log = partition.log
        is_cut = log.offsets.cut_count != self._cut_count and log.log_end_offset < self.next_offset
        return log is self._log and not is_cut

    @property
    def is_at_end(self) -> bool:
        return self.failure is not None or (
            self.is_ready and self.next_offset >= self._log.high_watermark
        )

    def advance(self) -> None:
        """Reads some records."""
        try:
            if not self.is_ready:
                self._load_some()
            else:
                self._read_some()
        except (StorageError, CorruptionError, ApiError, InvalidBatchError) as error:
            self.failure = str(error)
            logger.error("%s: what it says of uploads is unknown: %s", self._log.name, error)

    def _load_some(self) -> None:
        count = 0
        for record in islice(self._records, RECORDS_PER_SLICE):
            self._take(record)
            count += 1
        if count < RECORDS_PER_SLICE:
            self._loaded()

    def _loaded(self) -> None:
        self.is_ready = True
        self.next_offset = max(self.next_offset, self._ready_offset)
        self._records = iter(())

    def _stored_records(self) -> Iterator[Record]:
        """The records up to the high watermark; damage between them is logged."""
        log, place = self._log, TopicPartition(self.partition.topic, self.partition.index)
        cleaned_until = self.partition.directory.checkpoints.cleaned.get(place, 0)
        for one in sound_batches(log, log.losses(cleaned_until)):
            if isinstance(one, Finding):
                logger.error("%s; what it said of uploads is unknown", one.error())
                continue
            if one.last_offset >= self._ready_offset:
                return
            yield from _records_of(one, log.directory)

    def _read_some(self) -> None:
        """Reads what was appended since; one batch may hold more records than wanted."""
        self.next_offset = max(self.next_offset, self._log.log_start_offset)
        data = self._log.reader.read(self.next_offset, READ_SIZE, Isolation.HIGH_WATERMARK)
        if data.records is None:
            return
        for batch in islice(iter_batches(data.records.read(), allow_torn_tail=True), 16):
            batch.check()
            for record in read_records(batch):
                if record.offset >= self.next_offset:
                    self._take(record)
            self.next_offset = max(self.next_offset, batch.last_offset + 1)

    def _take(self, record: Record) -> None:
        """A record that cannot be applied is logged: Kafka leaves it out likewise."""
        self.next_offset = record.offset + 1
        try:
            refusal = self.indexes.apply(decode_event(record.value or b""))
        except CorruptionError as error:
            refusal = error.reason
        except UnknownRecordError as error:
            refusal = f"{error}; what it says of uploads is unknown"
        if refusal is not None:
            logger.error("%s: the record at offset %d: %s", self._log.name, record.offset, refusal)


def _records_of(batch: Batch, directory: str) -> Iterator[Record]:
    if batch.is_control:
        return
    try:
        yield from read_records(batch)
    except InvalidBatchError as error:
        logger.error("%s: offset %d: %s", directory, batch.base_offset, error)
