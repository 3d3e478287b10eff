"""What a consumer reads, its positions, and what has been fetched but not returned yet.

Values alone: threads fetch what `plan` returns and pass the result to `take`, and the application
gets `next_chunk`. The response to a request from before a seek is dropped. Kafka's counterparts:
`SubscriptionState`, `Fetcher`, `FetchBuffer`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import ReadUpTo
from ottla.client.bulk.fetching import whole_batches
from ottla.client.bulk.reading import Fetched, FetchFrom
from ottla.client.connecting.cluster import PASSING, PartitionLeader
from ottla.record.batch import InvalidBatchError

OTHER_LEADER = PASSING | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Errors after which a partition's leader is looked up again."""


@dataclass(slots=True)
class Reading:
    """One assigned partition. `version` changes with every seek."""

    read_up_to: ReadUpTo | None = None
    """The application's position, once it is known."""
    fetch_offset: int = -1
    version: int = 0
    is_paused: bool = False
    leader: int | None = None
    leader_epoch: int = -1
    fetched_epoch: int = -1
    """Epoch of the batch before `fetch_offset`, if known."""
    queued_size: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    refusal: ApiError | None = None
    """An error that the application must get before anything more is fetched."""
    is_doubtful: bool = False
    """Whether the leader changed, whose log may have been truncated below `fetch_offset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFetch:
    place: TopicPartition
    offset: int
    version: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches of one partition; the first may have records before the requested offset."""

    place: TopicPartition
    version: int
    fetched: Fetched
    end: ReadUpTo
    """The application's position after it."""


@dataclass(slots=True)
class FetchQueue:
    """All methods are called under one lock, which the caller holds."""

    max_queued_size: int
    max_partition_size: int
    readings: dict[TopicPartition, Reading] = field(default_factory=dict)
    """Partitions in fetch order: those that returned something go last."""
    _chunks: deque[Chunk] = field(default_factory=deque)
    _versions: int = 0

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            if one not in self.readings:
                self.readings[one] = Reading(version=self._next_version())

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self.readings.pop(one, None)
        self._drop_stale()

    def seek(self, place: TopicPartition, to: ReadUpTo | None) -> None:
        """Continues at an offset; `None` stands for a committed offset or a reset."""
        reading = self.readings[place]
        reading.read_up_to = to
        offset, epoch = to or ReadUpTo(-1)
        reading.fetch_offset, reading.fetched_epoch = offset, epoch
        reading.is_doubtful = 0 <= epoch < reading.leader_epoch
        reading.version = self._next_version()
        reading.queued_size = 0
        reading.refusal = None
        self._drop_stale()

    def without_position(self) -> list[TopicPartition]:
        return [
            place
            for place, one in self.readings.items()
            if one.read_up_to is None and one.refusal is None
        ]

    def without_leader(self) -> list[TopicPartition]:
        return [place for place, one in self.readings.items() if one.leader is None]

    def lead(self, leaders: Mapping[TopicPartition, PartitionLeader]) -> None:
        for place, (node_id, epoch) in leaders.items():
            if (reading := self.readings.get(place)) is None:
                continue
            if epoch != reading.leader_epoch:
                reading.is_doubtful |= 0 <= reading.fetched_epoch < epoch
            reading.leader, reading.leader_epoch = node_id, epoch

    def doubtful(self) -> dict[TopicPartition, Reading]:
        """Partitions whose new leader must be asked whether it has all that was fetched
        (KIP-320).
        """
        return {
            place: one
            for place, one in self.readings.items()
            if one.is_doubtful and one.leader is not None and one.read_up_to is not None
        }

    def plan(self, leader: int) -> list[PlannedFetch]:
        """The next request for a broker; nothing while enough records wait for the application."""
        if sum(one.queued_size for one in self.readings.values()) >= self.max_queued_size:
            return []
        share = max(1, self.max_queued_size // max(1, len(self.readings)))
        limit = min(share, 4 * self.max_partition_size)
        return [
            PlannedFetch(
                place=place,
                offset=one.fetch_offset,
                version=one.version,
                leader_epoch=one.leader_epoch,
            )
            for place, one in self.readings.items()
            if one.leader == leader
            and one.read_up_to is not None
            and one.refusal is None
            and not one.is_paused
            and not one.is_doubtful
            and one.queued_size < limit
        ]

    def take(self, planned: PlannedFetch, found: Fetched | ApiError) -> None:
        """Takes the result of a planned fetch."""
        reading = self.readings.get(planned.place)
        if reading is None or reading.version != planned.version:
            return
        if isinstance(found, ApiError):
            self._refused(reading, found)
            return
        if found.is_answered:
            reading.high_watermark = found.high_watermark
            reading.last_stable_offset = found.last_stable_offset
            reading.log_start_offset = found.log_start_offset
        if not len(found.records):
            return
        asked = FetchFrom(
            topic=planned.place.topic,
            partition=planned.place.partition,
            offset=planned.offset,
            max_size=self.max_partition_size,
        )
        try:
            records, last = whole_batches(found.records, asked)
        except (UserError, InvalidBatchError) as error:
            reading.refusal = ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
            return
        if last is None:
            return
        whole = replace(found, records=records, next_offset=last.next_offset)
        end = ReadUpTo(last.next_offset, last.partition_leader_epoch)
        self._chunks.append(
            Chunk(place=planned.place, version=planned.version, fetched=whole, end=end)
        )
        reading.queued_size += len(records)
        reading.fetch_offset, reading.fetched_epoch = end
        self.readings[planned.place] = self.readings.pop(planned.place)

    def next_chunk(self) -> Chunk | None:
        """The chunk that was fetched first."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self.readings[chunk.place].queued_size -= len(chunk.fetched.records)
        return chunk

    def has_chunk(self) -> bool:
        return bool(self._chunks)

    def is_current(self, chunk: Chunk) -> bool:
        reading = self.readings.get(chunk.place)
        return reading is not None and reading.version == chunk.version

    def _refused(self, reading: Reading, error: ApiError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Earlier fetched records are returned first: they are not out of range.
            if not reading.queued_size:
                reading.refusal = error
        elif error.code in OTHER_LEADER:
            reading.leader = None
        else:
            reading.refusal = error

    def _next_version(self) -> int:
        self._versions += 1
        return self._versions

    def _drop_stale(self) -> None:
        self._chunks = deque(one for one in self._chunks if self.is_current(one))
