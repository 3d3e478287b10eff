"""Copies the committed records of a topic into a new topic of the same cluster.

Keys, values, headers, timestamps, partitions and codecs are kept; offsets, transactions, producers
and the group's committed offsets are not. Records are sent idempotently, so that a retry writes no
record twice. A copy that is interrupted leaves the new topic with the records so far.
"""

from collections.abc import Callable, Iterator, Mapping

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import led_partitions
from ottla.client.administration.topics import check_new_topic
from ottla.client.bulk.fetching import committed_runs, fetches
from ottla.client.bulk.producer import Batch, Delivery
from ottla.client.bulk.producer_identity import ProducerIdentity, init_producer
from ottla.client.bulk.reading import LATEST, READ_COMMITTED, FetchFrom
from ottla.client.connecting.cluster import Cluster
from ottla.client.refusals import RefusedError, refusals
from ottla.codec.compression import Compression
from ottla.record.batch import MAX_SEQUENCE, InvalidBatchError, iter_batches
from ottla.record.builder import MAX_RECORD_OVERHEAD, RecordBatchBuilder
from ottla.record.record import Record, read_records

FETCH_SIZE = 4 << 20
EMPTY_ANSWERS = 3
"""Empty responses before the end after which a partition has no more committed records."""
BATCH_SIZE = 256 << 10
"""The bytes of a batch before compression, if the topic's settings allow them."""
LIMITS = ("max.message.bytes", "segment.bytes")
"""The settings that limit the size of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What is copied: the offsets of each partition, and the settings of the new topic."""

    source: str
    target: str
    ranges: Mapping[TopicPartition, OffsetRange]
    """The source's offsets, up to its last stable one."""
    replication_factor: int
    settings: Mapping[str, str]
    """The source's own settings, overridden by those that were given."""
    batch_size: int

    @property
    def total(self) -> int:
        """The number of offsets; there may be fewer records."""
        return sum(one.until_offset - one.from_offset for one in self.ranges.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """What has been copied: `offset_count` of the plan's total, and the records in them."""

    offset_count: int = 0
    record_count: int = 0
    size: int = 0
    """The bytes of the records before compression."""


def plan_topic_copy(
    admin: Admin, source: str, target: str, given: Mapping[str, str] | None = None
) -> CopyPlan:
    """Plans a copy of what is in the source now. Raises `UserError`, also if the target exists."""
    check_new_topic(target)
    if target in admin.list_topics(internal=True):
        raise UserError(f"topic {target} exists; name a topic that does not, or delete it first")
    (described,) = admin.describe_topics([source])
    places = led_partitions(described)
    if len(places) < len(described.partitions):
        raise UserError(f"topic {source}: a partition has no leader; see ottla doctor")
    ends = admin.list_offsets(places, LATEST, isolation_level=READ_COMMITTED)
    starts = {place: start for place, (start, _) in admin.bounds(places).items()}
    settings = {**admin.topic_overrides([source]).get(source, {}), **(given or {})}
    limits = {**admin.topic_settings(source), **settings}
    return CopyPlan(
        source=source,
        target=target,
        ranges={
            place: OffsetRange(
                from_offset=starts[place], until_offset=max(starts[place], ends[place].offset)
            )
            for place in places
        },
        replication_factor=min(len(one.replicas) for one in described.partitions),
        settings=settings,
        batch_size=min(BATCH_SIZE, *(int(limits.get(one, BATCH_SIZE)) for one in LIMITS)),
    )


def create_copy(admin: Admin, plan: CopyPlan, *, validate_only: bool = False) -> None:
    """Creates the new topic, empty. Raises `RefusedError`."""
    admin.create_topic(
        plan.target,
        partitions=len(plan.ranges),
        replication_factor=plan.replication_factor,
        configs=dict(plan.settings),
        validate_only=validate_only,
    )


def copy_records(
    reader: Cluster,
    writer: Cluster,
    plan: CopyPlan,
    on_progress: Callable[[CopyProgress], None],
) -> CopyProgress:
    """Copies all records of the plan into the new topic, which is there.

    `reader` and `writer` have connections of their own, so that a response that is not read yet
    does not hold up a batch; they may be the same for a log in this process. `on_progress` is
    called when a batch is on all in-sync replicas, and may raise, which ends the copy. Raises
    `UserError` and `CorruptionError`.
    """
    copy = _Copy(reader, writer, plan, on_progress)
    for place, wanted in plan.ranges.items():
        copy.partition(place, wanted)
    return copy.progress


class _Copy:
    """One producer, which sends a batch of one partition at a time, while the next is read."""

    def __init__(
        self,
        reader: Cluster,
        writer: Cluster,
        plan: CopyPlan,
        on_progress: Callable[[CopyProgress], None],
    ) -> None:
        self.progress = CopyProgress()
        self._reader = reader
        self._writer = writer
        self._plan = plan
        self._on_progress = on_progress
        self._identity: ProducerIdentity = init_producer(writer, "", 0)
        self._target = TopicPartition(plan.target, 0)
        self._sequence = 0
        self._passed = 0
        """The source's offset up to which it is sent."""
        self._builder = self._new_builder(Compression.NONE)
        self._pending: Delivery | None = None

    def partition(self, source: TopicPartition, wanted: OffsetRange) -> None:
        self._target = TopicPartition(self._plan.target, source.partition)
        self._sequence, self._passed = 0, wanted.from_offset
        self._builder = self._new_builder(Compression.NONE)
        for record, codec in self._records(source, wanted):
            if self._is_full(record, codec):
                self._send(record.offset)
            self._builder.compression = codec
            try:
                self._append(record)
            except UserError:
                if not self._builder.record_count:
                    raise
                self._send(record.offset)  # Its time is too far from those of the batch.
                self._builder.compression = codec
                self._append(record)
        self._send(wanted.until_offset)
        self._finish()

    def _is_full(self, record: Record, codec: Compression) -> bool:
        builder = self._builder
        size = builder.size_estimate + _size_bound(record)
        is_other = codec is not builder.compression or size > self._plan.batch_size
        return builder.record_count > 0 and is_other

    def _append(self, record: Record) -> None:
        self._builder.append(record.key, record.value, record.timestamp_ms, record.headers)

    def _records(
        self, source: TopicPartition, wanted: OffsetRange
    ) -> Iterator[tuple[Record, Compression]]:
        asked = FetchFrom(
            topic=source.topic,
            partition=source.partition,
            offset=wanted.from_offset,
            max_size=FETCH_SIZE,
            isolation_level=READ_COMMITTED,
        )
        empty_count = 0
        try:
            for found in fetches(self._reader, asked, wanted.until_offset):
                empty_count = 0 if len(found.records) else empty_count + found.is_answered
                if empty_count == EMPTY_ANSWERS:
                    return
                for run in committed_runs(found):
                    for batch in iter_batches(run):
                        batch.check()
                        if batch.is_control:
                            continue
                        for record in read_records(batch):
                            if wanted.from_offset <= record.offset < wanted.until_offset:
                                yield record, batch.compression
        except InvalidBatchError as error:
            raise CorruptionError(f"{source.topic}-{source.partition}", 0, str(error)) from error
        except ApiError as error:
            raise RefusedError(f"{source.topic}-{source.partition}", error) from error

    def _new_builder(self, codec: Compression) -> RecordBatchBuilder:
        return RecordBatchBuilder(
            compression=codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequence,
        )

    def _send(self, until_offset: int) -> None:
        """Sends the records before an offset once the batch before them is acknowledged."""
        self._finish()
        builder, progress = self._builder, self.progress
        self.progress = CopyProgress(
            offset_count=progress.offset_count + until_offset - self._passed,
            record_count=progress.record_count + builder.record_count,
            size=progress.size + builder.size_estimate,
        )
        self._passed = until_offset
        if builder.record_count:
            batch = Batch(self._target, builder.build())
            self._pending = Delivery(self._writer, "", {self._target: batch})
            with refusals(f"{self._target.topic}-{self._target.partition}"):
                self._writer.again(self._pending.start)
            self._sequence = (self._sequence + builder.record_count) & MAX_SEQUENCE
            self._builder = self._new_builder(builder.compression)

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.finish()
        self._on_progress(self.progress)


def _size_bound(record: Record) -> int:
    """The most bytes of a record in a batch."""
    headers = sum(
        len(name.encode()) + len(value or b"") + MAX_RECORD_OVERHEAD
        for name, value in record.headers
    )
    return len(record.key or b"") + len(record.value or b"") + headers + MAX_RECORD_OVERHEAD
