"""One fetch of a member of a share group: records that are available, read and acquired.

Partitions are read one after the other, each once at a time. What is read is acquired at once, so
that nothing is read for nobody, and goes out as whole batches of the file. Kafka's counterparts:
`ShareFetch`, `DelayedShareFetch`.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import FileSlice
from ottla.base.timestamps import Timestamps
from ottla.base.turns import many_in_turns
from ottla.broker.records.fetches import NO_QUERY, Fetches, LongPoll
from ottla.broker.shares.led_partitions import LedPartition, LedPartitions, name_of
from ottla.broker.shares.log_batches import LogBatches
from ottla.broker.shares.scheduling import Schedule
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.broker.waiting.rooms import LongFetch
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.records_in_flight import AcquiredRange, Offer, Offsets, Wanted
from ottla.coordinator.share.sessions import SessionKey
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.storage.log.reader import FetchData

logger = logging.getLogger(__name__)

MOST_READS: Final = 8
"""Of a partition in one go, if what was read was only of aborted transactions; a next go follows.
"""

SCHEDULED_AT_ONCE: Final = 300
"""Records whose headers are read in one go, which takes about two milliseconds; a next go follows.
"""

SCHEDULE_SIZE: Final = 1 << 18
MAX_READ_SIZE: Final = 8 << 20
"""Of a partition at once, since with `read_committed` it is looked up what was aborted there."""


class ShareQuery(NamedTuple):
    """What a member wants of some partitions, in its turn; `may_read` as in `FetchQuery`."""

    member: SessionKey
    places: Sequence[TopicIdPartition]
    wanted: Wanted
    max_size: int
    min_size: int = 1
    may_read: Callable[[str], bool] | None = None


class Delivery(NamedTuple):
    """Whole batches, and which of their records are the member's."""

    records: FileSlice
    acquired: Sequence[AcquiredRange]


class ShareFetch:
    """A fetch that is tried until it has something. `found` has what was delivered, or went wrong,
    by partition. `waiting` is its wait between two tries.
    """

    def __init__(self, query: ShareQuery, led: LedPartitions) -> None:
        self.query = query
        self.found: dict[TopicIdPartition, Delivery | ApiError] = {}
        self.waiting: LongPoll | None = None
        self._settings = led.settings_of(query.member.group_id)
        self._led = led
        self._fetches = led.fetches
        self._watch: Callable[[Hashable], None] = _ignore
        self._size = 0
        self._left_count = query.wanted.max_records
        self._has_more = False
        self._waited_for: set[LedPartition] = set()

    def attempt(self, watch: Callable[[Hashable], None], *, is_late: bool) -> bool:
        """Takes what there is; returns whether that is an answer. `watch` is called with what else
        the fetch waits for, before it is looked at.
        """
        self._watch = watch
        try:
            return self._attempt(is_late=is_late)
        finally:
            self._watch = _ignore  # It holds the request, which would hold itself.

    def _attempt(self, *, is_late: bool) -> bool:
        if self.query.min_size > 1 and not is_late and not self._has_enough():
            return False
        for place in many_in_turns(self.query.places):
            if self._left_count <= 0:
                break
            try:
                self._take(place)
            except ApiError as error:
                self.found[place] = self._fetches.refusal(error, None, place[1], place[0])
        return is_late or bool(self.found)

    @property
    def has_more(self) -> bool:
        """Whether the last try has ended before it came to what is available."""
        return self._has_more

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.waiting is None or self.waiting.is_over

    # Partitions

    def _available(self, place: TopicIdPartition) -> LedPartition | None:
        """A partition that may have something; raises `ApiError`."""
        led = self._led.find(self.query.member.group_id, place, self.query.may_read)
        for key in led.awaited():
            self._watch(key)
        if not led.is_active:
            self._waited_for.add(led)
            return None
        self._watch(led.partition)
        return None if self._is_of_another(led) else led

    def _is_of_another(self, led: LedPartition) -> bool:
        other = led.fetched_for
        return isinstance(other, ShareFetch) and other is not self and not other.is_over

    def _has_enough(self) -> bool:
        """Whether the records that are there suffice, without acquiring any."""
        size = 0
        for place in many_in_turns(self.query.places):
            try:
                led = self._available(place)
                offset = None if led is None else led.next_offset()
                if led is None or offset is None:
                    continue
                data = self._read(led, offset, self.query.max_size - size)
            except ApiError:
                return True
            if data is not None and data.records is not None:
                size += data.records.size
                led.partition.bytes_out -= data.records.size
            if size >= self.query.min_size:
                return True
        return False

    def _take(self, place: TopicIdPartition) -> None:
        """Raises `ApiError`."""
        failures = [one.failure for one in self._waited_for if one.place == place]
        for failure in failures:
            if failure is not None:
                raise failure
        led = self._available(place)
        self._has_more = False
        for _ in range(MOST_READS):
            if led is None:
                return
            deferred = self._deferred(led) if self._settings.is_scheduled else ()
            offset = self._first(led, deferred)
            if offset is None or self._has_more:
                return
            data = self._read(led, offset, self.query.max_size - self._size)
            if data is None or data.records is None:
                return
            delivery = self._acquire(led, offset, data, deferred)
            led.partition.bytes_out -= data.records.size
            if delivery is not None:
                led.partition.bytes_out += delivery.records.size
                self._size += delivery.records.size
                self.found[place] = delivery
                return
            if self._first(led, deferred) == offset:
                return
        self._has_more = True

    def _read(self, led: LedPartition, offset: int, max_size: int) -> FetchData | None:
        """What the log has from an offset on; `None` while that is read from the tier. Raises
        `ApiError`.
        """
        if offset > led.partition.log.log_end_offset:
            return None  # The log was cut off under another leader, and has yet to grow again.
        query = led.fetch
        if query is None or query.partitions[0].offset != offset:
            query = self._query(led, offset, max_size)
        result = self._fetches.fetch(query)
        if result.is_reading and query.tier is not None:
            led.fetch, led.fetched_for = query, self
            self._waited_for.add(led)
            for key in query.tier.awaited():
                self._watch(key)
            return None
        led.fetch = led.fetched_for = None
        data = result.partitions[0]
        if isinstance(data, ApiError):
            raise data
        return data

    def _query(self, led: LedPartition, offset: int, max_size: int) -> FetchQuery:
        size = min(max(max_size, 0), MAX_READ_SIZE)
        partition = led.partition
        wanted = PartitionQuery(
            partition.topic, partition.index, offset, size, topic_id=led.key.topic_id
        )
        return FetchQuery(
            [wanted],
            size,
            isolation=self._settings.isolation,
            is_hard_limit=self._size > 0,
            begun_ms=self._led.now_ms,
        )

    def _first(self, led: LedPartition, deferred: Sequence[Offsets]) -> int | None:
        """Where the records to deliver begin."""
        offset = led.first_beside(deferred)
        is_unknown = self._settings.is_scheduled and offset == led.machine.records.end
        return None if is_unknown else offset

    def _deferred(self, led: LedPartition) -> Sequence[Offsets]:
        """The records that are not to be delivered now, by their headers. Raises `ApiError`."""
        led.next_offset()
        schedule, records = led.schedule, led.machine.records
        if schedule is None:
            schedule = led.schedule = Schedule(name_of(led), records.start)
        schedule.forget_before(records.start)
        count = 0
        while led.has_room_beyond(schedule.known_until) and count < SCHEDULED_AT_ONCE:
            data = self._read(led, schedule.known_until, SCHEDULE_SIZE)
            if data is None or data.records is None:
                break
            led.partition.bytes_out -= data.records.size
            count += self._learn(led, schedule, data.records)
        self._has_more = count >= SCHEDULED_AT_ONCE
        records.extend(schedule.known_until)
        plan = schedule.plan(records.runs(), self._led.at.now_ms)
        self._led.wake_at(led, plan.next_due_ms)
        return plan.deferred

    def _learn(self, led: LedPartition, schedule: Schedule, records: FileSlice) -> int:
        """Reads the headers of the records of some batches; returns their number."""
        count = 0
        try:
            with led.partition.log.health.guarding():
                content = records.read()
            for batch in iter_batches(content, allow_torn_tail=True):
                count += schedule.read(batch) or 1
                if count >= SCHEDULED_AT_ONCE:
                    break
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except InvalidBatchError as error:
            logger.error("cannot read %s: %s", name_of(led), error)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE) from error
        return count

    def _acquire(
        self, led: LedPartition, offset: int, data: FetchData, deferred: Sequence[Offsets]
    ) -> Delivery | None:
        assert data.records is not None
        until = led.machine.records.end if self._settings.is_scheduled else None
        batches = LogBatches(data.records, offset, data.aborted, until)
        wanted = self.query.wanted._replace(max_records=self._left_count)
        member = self.query.member.member_id
        offer = Offer(offset, batches, batches.left_out)
        try:
            with led.partition.log.health.guarding():
                acquired = led.machine.acquire(member, offer, wanted, self._led.now_ms, deferred)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            raise led.partition.damaged(error, "read") from error
        if not acquired:
            return None
        self._led.acquired(led)
        self._left_count -= sum(one.last - one.first + 1 for one in acquired)
        return Delivery(batches.around(acquired), acquired)


def _ignore(key: Hashable) -> None:
    """Before the first try."""


class Acknowledging:
    """What a member says of records in one request; `errors` are those of each partition, as far as
    they are known. It wakes who waits under itself when all are.
    """

    def __init__(self, wake: Callable[[Hashable], None]) -> None:
        self.errors: dict[TopicIdPartition, ApiError | None] = {}
        self._pending: set[TopicIdPartition] = set()
        self._wake = wake

    def add(self, place: TopicIdPartition) -> "PendingAcknowledgement":
        self._pending.add(place)
        return PendingAcknowledgement(self, place)

    def answer(self, place: TopicIdPartition, error: ApiError | None) -> None:
        self.errors[place] = error
        self._pending.discard(place)
        if self.is_done:
            self._wake(self)

    @property
    def is_done(self) -> bool:
        return not self._pending

    def give_up(self) -> None:
        """Answers what was not written in time; it may be written yet."""
        for place in list(self._pending):
            self.answer(place, ApiError(ErrorCode.REQUEST_TIMED_OUT))


class PendingAcknowledgement:
    """What was said of one partition."""

    __slots__ = ("_place", "_whole")

    def __init__(self, whole: Acknowledging, place: TopicIdPartition) -> None:
        self._whole = whole
        self._place = place

    def answer(self, error: ErrorCode) -> None:
        self._whole.answer(self._place, ApiError(error) if error else None)


class ShareWork:
    """One request: what it says of records, and then what it fetches, if it does."""

    def __init__(
        self,
        fetches: Fetches,
        acknowledging: Acknowledging,
        fetch: ShareFetch | None,
        deadlines_ms: tuple[float, float],
    ) -> None:
        """`deadlines_ms`: of what is written, and of the fetch."""
        self.acknowledging = acknowledging
        self.fetch = fetch
        self._is_fetched = fetch is None
        self._room = fetches.waiting
        self._written_by_ms, self._fetched_by_ms = deadlines_ms

    def go_on(self, at: Timestamps) -> LongPoll | None:
        """Does what can be done now; returns a wait after which it is to be called again, or `None`
        when all is done.
        """
        keys: list[Hashable] = [self.acknowledging]
        deadline_ms = self._written_by_ms if self._is_fetched else self._fetched_by_ms
        waiting: LongPoll = LongFetch(NO_QUERY, keys, deadline_ms)

        def watch(key: Hashable) -> None:
            keys.append(key)
            self._room.watch(waiting, key)

        self._room.hold(waiting)
        self._room.watch(waiting, self.acknowledging)
        try:
            self._try(waiting, watch, at)
        except BaseException:
            self._room.end(waiting)
            raise
        if self._is_fetched and self.acknowledging.is_done:
            self._room.end(waiting)
            return None
        waiting.deadline_ms = self._written_by_ms if self._is_fetched else self._fetched_by_ms
        self._room.release(waiting)
        if not self._is_fetched and self.fetch is not None and self.fetch.has_more:
            self._room.wake(self.acknowledging)
        return waiting

    def _try(self, waiting: LongPoll, watch: Callable[[Hashable], None], at: Timestamps) -> None:
        if self.fetch is not None and not self._is_fetched:
            self.fetch.waiting = waiting
            is_late = at.monotonic_ms >= self._fetched_by_ms
            self._is_fetched = self.fetch.attempt(watch, is_late=is_late)
        if self._is_fetched and at.monotonic_ms >= self._written_by_ms:
            self.acknowledging.give_up()
