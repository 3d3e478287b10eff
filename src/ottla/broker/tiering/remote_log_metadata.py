"""The topic `__remote_log_metadata` of a running broker: what it says of uploads, and new records.

Its partitions on this broker are read from their logs, in slices, up to the high watermark; what is
appended is applied once it is committed. So what is in memory is always what a restart would read.
A writer continues when its own record is applied.

In a cluster another broker may lead a partition: records for it are sent there, and partitions of
which this broker has no replica are read from there.

Format page: docs/format/remote-log-metadata.md. Kafka's counterparts:
`TopicBasedRemoteLogMetadataManager`, `ConsumerTask`, which reads the topic through a client.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.metadata_requests import (
    MetadataAnswer,
    MetadataAppend,
    MetadataFetch,
    MetadataRequest,
)
from ottla.broker.records.appends import Appends
from ottla.broker.tiering.metadata_reading import LeaderReading, LogReading
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic, TopicCreator, Topics
from ottla.config.tiering import MetadataTopicConfig
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import BuiltBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.remote.metadata_partition import metadata_partition
from ottla.storage.remote.metadata_records import Event, encode_event
from ottla.storage.remote.segment_index import SegmentIndex

ASK_AGAIN_MS: Final = 500.0
"""How often a leader is asked for records that this broker has no replica of."""

HASTE_MS: Final = 20.0
"""How often while a record of this broker is not applied yet."""

ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
NO_OFFSET: Final = -1


class AllTopics(Protocol):
    def partition_count(self, name: str, /) -> int | None:
        """Returns `None` for a topic that does not exist."""

    def name_by_id(self, topic_id: bytes, /) -> str | None: ...


class MetadataReplicas(Protocol):
    """What is asked of the replicas of the topic."""

    @property
    def topics(self) -> AllTopics: ...

    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Returns the leader and its epoch; -1 for none."""

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """Creates the topic, where that is not another broker's part; raises `ApiError`."""


class MetadataMembership(Protocol):
    def ask_about_metadata(self, request: MetadataRequest) -> None:
        """Sends a request to another broker; `RemoteLogMetadata.answered` gets the answer."""

    def create_topics(self, names: Sequence[str]) -> None:
        """Asks the controller to create topics."""


class MetadataBroker(Protocol):
    """The parts of the broker that the topic needs."""

    node_id: int
    topics: Topics
    appends: Appends

    @property
    def replicas(self) -> MetadataReplicas: ...

    @property
    def membership(self) -> MetadataMembership: ...

    @property
    def admin(self) -> TopicCreator: ...


class Publication:
    """A record that was appended, or sent to a leader; `is_applied` once it is committed and
    applied.
    """

    __slots__ = ("_deadline_ms", "error", "event", "is_applied", "offset", "place")

    def __init__(
        self, event: Event, place: TopicPartition, deadline_ms: float, offset: int = NO_OFFSET
    ) -> None:
        self.event = event
        self.place = place
        self.offset = offset
        """Unknown until the leader has answered."""
        self.is_applied = False
        self.error: ApiError | None = None
        """Why it is not known whether the record is committed."""
        self._deadline_ms = deadline_ms

    def expire(self, monotonic_ms: float) -> None:
        if monotonic_ms >= self._deadline_ms:
            reason = f"{self.place}: not committed in time"
            self.error = ApiError(ErrorCode.REQUEST_TIMED_OUT, reason)


class RemoteLogMetadata:
    """The uploads of the partitions whose metadata this broker has, and the topic's writer.

    For one thread at a time, as the broker is.
    """

    def __init__(self, broker: MetadataBroker, config: MetadataTopicConfig) -> None:
        self._broker = broker
        self._config = config
        self._readings: dict[int, LogReading] = {}
        """By partition of the topic."""
        self._asked: dict[int, LeaderReading] = {}
        """The same, of partitions without a replica here."""
        self._places: dict[tuple[Uuid, int], int] = {}
        """The partition of the topic that has a partition's records."""
        self._partition_count = 0
        self._pending: list[Publication] = []
        self._sent: dict[int, Publication] = {}
        """What other brokers were asked to append, by the number of the request."""
        self._numbers = count(1)
        self.on_ready: Callable[[], None] = _pass
        """Called when some partitions' lists of uploads have been read."""
        self._ready: set[int] = set()

    # What is known

    def index_of(self, topic_id: Uuid, partition: int) -> SegmentIndex | None:
        """The uploads of a partition; `None` if no record speaks of it, or none that is read."""
        reading = self._reading(self.place_of(topic_id, partition))
        return None if reading is None else reading.indexes.find(topic_id, partition)

    def is_ready(self, topic_id: Uuid, partition: int) -> bool:
        """Whether all records that were committed when the broker began to read have been read.

        Before the first upload there is no topic, and nothing to be read. A member that has not
        heard of the partition's own topic yet does not know whether there is.
        """
        if not self.is_created:
            return self.is_topic(topic_id)
        reading = self._reading(self.place_of(topic_id, partition))
        return reading is not None and reading.is_ready

    def watch(self, topic_id: Uuid, partition: int) -> None:
        """Has the uploads of a partition read, also if this broker has no replica of their
        records.
        """
        place = self.place_of(topic_id, partition)
        if self.is_created and self._reading(place) is None:
            self._asked[place] = LeaderReading(TopicPartition(REMOTE_LOG_METADATA, place))

    def indexes(self) -> Iterator[SegmentIndex]:
        """Those of all partitions that are known."""
        for reading in (*self._readings.values(), *self._asked.values()):
            yield from reading.indexes

    @property
    def unreadable(self) -> dict[int, str]:
        """The partitions of the topic that cannot be read, and why."""
        return {
            index: one.failure for index, one in self._readings.items() if one.failure is not None
        }

    def place_of(self, topic_id: Uuid, partition: int) -> int:
        """The partition of the topic that has the records of a partition, or will have them."""
        count = (
            self._broker.replicas.topics.partition_count(REMOTE_LOG_METADATA)
            or self._config.remote_log_metadata_topic_num_partitions
        )
        if count != self._partition_count:
            self._places.clear()
            self._partition_count = count
        key = topic_id, partition
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = metadata_partition(topic_id, partition, count)
        return place

    def _reading(self, place: int) -> LogReading | LeaderReading | None:
        return self._readings.get(place) or self._asked.get(place)

    # Reading

    def advance(self, at: Timestamps) -> bool:
        """Reads some records that are committed meanwhile; returns whether more are left."""
        topic = self._broker.topics.find(REMOTE_LOG_METADATA)
        partitions: dict[int, Partition] = {} if topic is None else topic.partitions
        for index in self._readings.keys() - partitions.keys():
            del self._readings[index]
        has_more = False
        for index, partition in partitions.items():
            reading = self._readings.get(index)
            if reading is None or not reading.is_of(partition):
                reading = self._readings[index] = LogReading(partition)
                self._asked.pop(index, None)
            if not has_more and not reading.is_at_end:
                reading.advance()
                has_more = not reading.is_at_end
        self._ask_leaders(at)
        self._settle(at.monotonic_ms)
        self._note_ready()
        return has_more

    def _note_ready(self) -> None:
        every = (*self._readings.items(), *self._asked.items())
        before, self._ready = self._ready, {place for place, one in every if one.is_ready}
        if self._ready - before:
            self.on_ready()

    def _ask_leaders(self, at: Timestamps) -> None:
        if not self.is_created:
            self._asked.clear()
        for index, reading in self._asked.items():
            is_hurried = any(one.place.partition == index for one in self._pending)
            due_ms = min(
                reading.next_ask_ms, at.monotonic_ms if is_hurried else reading.next_ask_ms
            )
            if reading.is_asked or at.monotonic_ms < due_ms:
                continue
            place = TopicPartition(REMOTE_LOG_METADATA, index)
            leader, _ = self._broker.replicas.leader_of(place)
            reading.next_ask_ms = at.monotonic_ms + ASK_AGAIN_MS
            # A log that this broker has to lead may not be made yet.
            if leader not in (-1, self._broker.node_id):
                reading.is_asked = True
                request = MetadataFetch(broker=leader, place=place, offset=reading.next_offset)
                self._broker.membership.ask_about_metadata(request)

    def answered(self, request: MetadataRequest, answer: MetadataAnswer, at: Timestamps) -> None:
        """Takes the answer of another broker."""
        match request:
            case MetadataAppend(number=number):
                published = self._sent.pop(number, None)
                if published is not None and answer.error:
                    published.error = ApiError(answer.error, f"{request.place}: refused")
                elif published is not None:
                    published.offset = answer.offset
                    self._hurry(request.place, at)
            case MetadataFetch():
                self._fetched(request, answer, at)
        self._settle(at.monotonic_ms)
        self._note_ready()

    def _hurry(self, place: TopicPartition, at: Timestamps) -> None:
        """Has a record looked for at once that its leader has appended."""
        reading = self._asked.get(place.partition)
        if reading is not None:
            reading.next_ask_ms = at.monotonic_ms

    def _fetched(self, request: MetadataFetch, answer: MetadataAnswer, at: Timestamps) -> None:
        place = request.place
        reading = self._asked.get(place.partition)
        if reading is None or reading.next_offset != request.offset:
            return  # of a reading that has begun again since
        if reading.is_cut_by(answer):
            self._asked[place.partition] = LeaderReading(place)
        elif reading.answered(answer):
            reading.next_ask_ms = at.monotonic_ms

    def _settle(self, monotonic_ms: float) -> None:
        """Notes which records are applied."""
        for one in self._pending:
            reading = self._reading(one.place.partition)
            if reading is not None and NO_OFFSET < one.offset < reading.next_offset:
                one.is_applied = True
            else:
                one.expire(monotonic_ms)
        self._pending = [one for one in self._pending if not one.is_applied and one.error is None]

    # Writing

    @property
    def is_created(self) -> bool:
        """Whether the topic exists, as far as this broker knows."""
        return self._broker.replicas.topics.partition_count(REMOTE_LOG_METADATA) is not None

    def is_topic(self, topic_id: Uuid) -> bool:
        """Whether a topic with this id exists, on any broker."""
        return self._broker.replicas.topics.name_by_id(topic_id) is not None

    def is_writer_of(self, topic_id: Uuid, partition: int) -> bool:
        """Whether this broker leads the partition of the topic that has a partition's records."""
        place = self.place_of(topic_id, partition)
        try:
            self._broker.topics.online_partition(REMOTE_LOG_METADATA, place).check_leader()
        except ApiError:
            return False
        return True

    def prepare(self) -> None:
        """Creates the topic in turns, unless it exists; in a cluster it asks the controller to do
        so. Raises `ApiError`.
        """
        if self.is_created:
            return
        try:
            self._broker.replicas.make_internal(
                new_metadata_topic(self._config), self._broker.admin
            )
        except ApiError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            self._broker.membership.create_topics([REMOTE_LOG_METADATA])

    def publish(self, event: Event, at: Timestamps) -> Publication:
        """Appends a record, here or at its leader; the topic must exist. Raises `ApiError`, and has
        then written nothing.

        Returns what tells when it is applied: at once where no other replica has to have it.
        """
        topic_id, index = event.partition.topic_id, event.partition.partition
        place = TopicPartition(REMOTE_LOG_METADATA, self.place_of(topic_id, index))
        deadline_ms = at.monotonic_ms + self._config.remote_log_metadata_consume_wait_ms
        published = Publication(event, place, deadline_ms)
        try:
            partition = self._broker.topics.online_partition(*place)
            partition.check_leader()
        except ApiError as error:
            if error.code not in ELSEWHERE:
                raise
            self._send(published, error, at)
        else:
            self._append(published, partition, at)
        self._pending.append(published)
        self.watch(topic_id, index)
        self.advance(at)
        return published

    def _append(self, published: Publication, partition: Partition, at: Timestamps) -> None:
        builder = RecordBatchBuilder()
        builder.append(None, encode_event(published.event), at.now_ms)
        batch = BuiltBatch(builder.build_writable())
        info = self._broker.appends.append(
            partition, batch, now_ms=at.now_ms, origin=AppendOrigin.COORDINATOR
        )
        try:
            self._broker.appends.write_out()
        except StorageError as error:
            if partition.is_offline:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        published.offset = info.first_offset

    def _send(self, published: Publication, error: ApiError, at: Timestamps) -> None:
        leader, _ = self._broker.replicas.leader_of(published.place)
        if leader in (-1, self._broker.node_id):
            raise error
        number = next(self._numbers)
        self._sent[number] = published
        self._broker.membership.ask_about_metadata(
            MetadataAppend(
                number=number,
                broker=leader,
                place=published.place,
                value=encode_event(published.event),
                timestamp_ms=at.now_ms,
            )
        )

    def log_of(self, published: Publication) -> PartitionLog | None:
        """The log that has a record on this broker, to be synced."""
        try:
            return self._broker.topics.online_partition(*published.place).log
        except ApiError:
            return None


def _pass() -> None:
    """What is done at first when lists have been read."""


def new_metadata_topic(config: MetadataTopicConfig) -> NewTopic:
    """The topic with Kafka's settings; several replicas have `min.insync.replicas` (KIP-1235)."""
    overrides: dict[str, str | None] = {
        "cleanup.policy": "delete",
        "remote.storage.enable": "false",
        "retention.ms": str(config.remote_log_metadata_topic_retention_ms),
    }
    if config.remote_log_metadata_topic_replication_factor > 1:
        overrides["min.insync.replicas"] = str(config.remote_log_metadata_topic_min_isr)
    return NewTopic(
        name=REMOTE_LOG_METADATA,
        partition_count=config.remote_log_metadata_topic_num_partitions,
        replication_factor=config.remote_log_metadata_topic_replication_factor,
        overrides=overrides,
    )
