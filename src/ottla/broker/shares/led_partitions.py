"""The partitions in share groups whose data this broker leads.

The state of each is read when it is first asked for, and dropped when another broker leads. What
members say is written by a `SharePersister`, one write at a time per partition. One timer for each
partition stands for all its locks. Kafka's counterparts: `SharePartitionManager`,
`SharePartitionCache`.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns, turn_list
from ottla.broker.membership.state_requests import ReadState, StateRequest, WriteState
from ottla.broker.records.fetches import Fetches
from ottla.broker.shares.dead_letters import DeadLetterBroker, DeadLetters, DeadRecords
from ottla.broker.shares.scheduling import Schedule
from ottla.broker.shares.settings import SettingsOf
from ottla.broker.shares.start_offsets import StartSearch
from ottla.broker.shares.states import SharePersister
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.fetch_queries import FetchQuery
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.coordinator import ShareStateAnswer, StateWrite
from ottla.coordinator.share.in_flight import InFlight, in_flight
from ottla.coordinator.share.persisted_state import PersistedState, SharePartitionKey
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    DeliveryState,
    Limits,
    Offsets,
    ReturnReason,
)
from ottla.coordinator.share.share_partition import (
    COORDINATOR_ERRORS,
    UNSURE,
    Outcome,
    Phase,
    SharePartition,
)

LAST_OF: Final = itemgetter(1)
REPEAT_MS: Final = 1000.0
"""How long nothing is written by itself after a share coordinator was looked for in vain."""

logger = logging.getLogger(__name__)


class PendingOutcome(Protocol):
    """Who waits for what becomes of acknowledgements; the pending ids of a `SharePartition`."""

    def answer(self, error: ErrorCode) -> None: ...

    def __hash__(self) -> int: ...


class LedPartition:
    """One partition in a group. Fetches wait for it under itself as the key.

    `failure` is why its state could not be read: it is given up then, and whoever waits for it is
    told. `fetch` is what is being read from the remote tier, for `fetched_for`.
    """

    __slots__ = (
        "failure",
        "fetch",
        "fetched_for",
        "key",
        "machine",
        "partition",
        "schedule",
        "search",
    )

    def __init__(self, key: SharePartitionKey, partition: Partition, limits: Limits) -> None:
        self.key = key
        self.partition = partition
        self.machine = SharePartition(partition.leader_epoch, limits)
        self.failure: ApiError | None = None
        self.search: StartSearch | None = None
        self.fetch: FetchQuery | None = None
        self.fetched_for: Hashable | None = None
        self.schedule: Schedule | None = None
        """Where headers of records say when they are delivered."""

    @property
    def place(self) -> TopicIdPartition:
        return self.key.topic_id, self.key.partition

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)

    @property
    def is_active(self) -> bool:
        return self.machine.phase is Phase.ACTIVE

    def next_offset(self) -> int | None:
        """Where the next records to deliver begin, or `None` while there may be no more."""
        self.machine.records.follow_log_start(self.partition.log.log_start_offset)
        return self.machine.records.next_offset()

    def first_beside(self, deferred: Sequence[Offsets]) -> int | None:
        """As `next_offset`, of what is not deferred; ranges are in order."""
        offset = self.next_offset()
        if offset is None or not deferred:
            return offset
        for run in self.machine.records.runs():
            if run.state == DeliveryState.AVAILABLE and not run.is_being_written:
                begin = run.first
                for first, last in deferred[bisect_left(deferred, begin, key=LAST_OF) :]:
                    if first > begin:
                        break
                    begin = last + 1
                if begin <= run.last:
                    return begin
        return None

    def has_room_beyond(self, offset: int) -> bool:
        """Whether records from an offset on are in flight, or may come."""
        records = self.machine.records
        room = records.limits.max_record_locks - records.open_count
        return offset < min(records.end + max(room, 0), self.partition.log.high_watermark)

    def awaited(self) -> list[Hashable]:
        """What wakes those who wait for its state."""
        return [self, *(self.search.awaited if self.search is not None else ())]


class ShareBroker(DeadLetterBroker, Protocol):
    """The parts of the broker that leaders of partitions need."""

    fetches: Fetches

    @property
    def share_persister(self) -> SharePersister: ...


class LedPartitions:
    """All of a broker, by group. `settings_of` returns the settings of a group."""

    def __init__(self, broker: ShareBroker, settings_of: SettingsOf, timers: AllTimers) -> None:
        self.fetches = broker.fetches
        self.settings_of = settings_of
        self._topics = broker.topics
        self._persister = broker.share_persister
        self._budget = broker.budget
        self.dead_letters = DeadLetters(broker, timers)
        self._by_group: dict[str, dict[TopicIdPartition, LedPartition]] = {}
        self._by_partition: dict[TopicPartition, dict[LedPartition, None]] = {}
        self._locks: Timers[LedPartition] = timers.new_room()
        self._due: Timers[LedPartition] = timers.new_room()
        """When records are delivered that say so."""
        self._repeats: Timers[LedPartition] = timers.new_room()
        """When the share coordinator is told again what it may not know, or may know wrongly."""
        self.at = Timestamps(now_ms=0, monotonic_ms=0.0)

    @property
    def now_ms(self) -> float:
        return self.at.monotonic_ms

    def note_time(self, at: Timestamps) -> None:
        """Sets the time for the following calls."""
        self.at = at

    # Finding and reading

    def find(
        self,
        group_id: str,
        place: TopicIdPartition,
        may_read: Callable[[str], bool] | None = None,
    ) -> LedPartition:
        """The partition, whose state is perhaps still being read. Raises `ApiError` if this broker
        does not lead it, or the client may not read it.
        """
        topic = self._topics.find_by_id(place[0])
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if may_read is not None and not may_read(topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = topic.partition(place[1])
        partition.check_leader()
        led = self.known(group_id, place)
        if led is not None and not self._is_current(led, partition):
            self._give_up(led)
            led = None
        limits = self.settings_of(group_id).limits
        if led is None:
            led = LedPartition(SharePartitionKey(group_id, *place), partition, limits)
            self._by_group.setdefault(group_id, {})[place] = led
            self._by_partition.setdefault(led.name, {})[led] = None
        led.machine.configure(limits)
        if led.machine.wants_state():
            self._ask(ReadState(led.key, led.machine.leader_epoch), partial(self._read, led))
        if led.search is not None and led.search.is_done:
            led.search.finish()
        if led.failure is not None:
            raise led.failure
        return led

    def known(self, group_id: str, place: TopicIdPartition) -> LedPartition | None:
        return self._by_group.get(group_id, {}).get(place)

    def _is_current(self, led: LedPartition, partition: Partition) -> bool:
        return (
            led.partition is partition
            and led.machine.leader_epoch == partition.leader_epoch
            and led.machine.phase is not Phase.FENCED
        )

    def _is_known(self, led: LedPartition) -> bool:
        """Whether it was not given up meanwhile."""
        return self.known(led.key.group_id, led.place) is led

    def _read(self, led: LedPartition, answer: ShareStateAnswer) -> None:
        if not self._is_known(led):
            return
        if answer.error is not ErrorCode.NONE:
            self._fail(led, told(answer))
        elif answer.state.start_offset >= 0:
            self._begin(led, answer.state)
        else:
            led.search = StartSearch(
                self.fetches,
                led.partition,
                self.settings_of(led.key.group_id).offset_reset,
                self.at,
                partial(self._found_start, led, answer.state),
            )
            led.search.begin()

    def _found_start(self, led: LedPartition, state: PersistedState, found: int | ApiError) -> None:
        """Writes where a new partition begins, before it delivers: what a member has got must come
        again after a crash, also if the partition began at its end.
        """
        led.search = None
        if not self._is_known(led):
            return
        if isinstance(found, ApiError):
            self._fail(led, found)
            return
        change = StateWrite(state.state_epoch, led.machine.leader_epoch, found, (), 0)
        begun = state._replace(start_offset=found)

        def written(answer: ShareStateAnswer) -> None:
            if answer.error is not ErrorCode.NONE:
                self._fail(led, told(answer))
            elif self._is_known(led):
                self._begin(led, begun)

        self._ask(WriteState(led.key, change), written)

    def _begin(self, led: LedPartition, state: PersistedState) -> None:
        led.machine.loaded(state, state.start_offset, self.now_ms)
        self._changed(led)
        self._bury(led)

    def _fail(self, led: LedPartition, failure: ApiError) -> None:
        if self._is_known(led):
            led.failure = failure.without_traceback()
            led.machine.failed()
            self._give_up(led)

    def doubt(self, group_id: str) -> None:
        """Has the states read again that an admin may have changed while the group was empty."""
        for led in self._by_group.get(group_id, {}).values():
            led.machine.doubt()
            self._locks.cancel(led)

    # Members

    def acknowledge(
        self,
        led: LedPartition,
        member: str,
        given: Sequence[Acknowledgement],
        pending: PendingOutcome,
    ) -> None:
        """What a member says of its records; `pending` is answered at once or later. Raises
        `ApiError`.
        """
        outcome = led.machine.acknowledge(member, given, self.now_ms, pending)
        if outcome is not None:
            pending.answer(outcome.error)
            self._set_timer(led)
        else:
            self._push(led)

    def acquired(self, led: LedPartition) -> None:
        """Call it when a member has got records."""
        self._set_timer(led)

    def release(self, group_id: str, member: str, reason: ReturnReason) -> None:
        """Takes back all that a member has."""
        for led in list(self._by_group.get(group_id, {}).values()):
            if led.machine.release(member, reason):
                self._push(led)

    # Writing

    def _push(self, led: LedPartition) -> None:
        write = led.machine.next_write()
        if write is not None:
            self._ask(WriteState(led.key, write), partial(self._written, led))

    def _ask(self, request: StateRequest, done: Callable[[ShareStateAnswer], None]) -> None:
        self._persister.ask([request], lambda answers: done(answers[0]), self.at)

    def _written(self, led: LedPartition, answer: ShareStateAnswer) -> None:
        if answer.error is not ErrorCode.NONE:
            logger.warning("cannot write the state of %s: %s", name_of(led), answer.error.name)
        self._tell(led.machine.written(answer.error, self.now_ms))
        if led.machine.phase is Phase.FENCED:
            self._give_up(led)
            return
        self._changed(led)
        if answer.error in UNSURE:
            self._repeats.set(led, self.now_ms + REPEAT_MS)
        else:
            self._push(led)
        self._bury(led)

    def _bury(self, led: LedPartition) -> None:
        """Has the dead letters written of what was given up, now that this is written."""
        for run in led.machine.records.take_dead():
            self.dead_letters.add(
                DeadRecords(
                    group_id=led.key.group_id,
                    partition=led.partition,
                    first=run.first,
                    last=run.last,
                    delivery_count=run.delivery_count,
                    reason=run.reasons[-1] if run.reasons else ReturnReason.UNKNOWN,
                    done=partial(self._buried, led),
                )
            )

    def _buried(self, led: LedPartition, first: int, last: int) -> None:
        led.machine.archived_as_dead_letters(first, last)
        self._push(led)

    def _tell(self, outcomes: Iterable[Outcome]) -> None:
        for one in outcomes:
            pending: PendingOutcome = one.pending_id  # type: ignore[assignment]
            pending.answer(one.error)

    def _changed(self, led: LedPartition) -> None:
        """Records may be available, or locked until another time."""
        self._set_timer(led)
        self.fetches.waiting.wake(led)

    def _set_timer(self, led: LedPartition) -> None:
        deadline_ms = led.machine.records.next_deadline_ms() if led.is_active else None
        if deadline_ms is None:
            self._locks.cancel(led)
        else:
            self._locks.set(led, deadline_ms)

    def wake_at(self, led: LedPartition, due_ms: int | None) -> None:
        """Wakes who waits for a partition at a time of the wall clock, and no more at another."""
        if due_ms is None:
            self._due.cancel(led)
        else:
            self._due.set(led, self.now_ms + due_ms - self.at.now_ms)

    # Leadership

    def _give_up(self, led: LedPartition) -> None:
        """Drops a partition that this broker leads no more, or whose state is to be read again."""
        group = self._by_group.get(led.key.group_id, {})
        if group.get(led.place) is led:
            del group[led.place]
            if not group:
                del self._by_group[led.key.group_id]
            same = self._by_partition[led.name]
            del same[led]
            if not same:
                del self._by_partition[led.name]
        self._locks.cancel(led)
        self._due.cancel(led)
        self._repeats.cancel(led)
        self._tell(led.machine.fence(self.now_ms))
        self.fetches.waiting.wake(led)

    def _give_up_all(self, place: TopicPartition, *, epoch: int | None = None) -> None:
        for led in list(self._by_partition.get(place, ())):
            if led.machine.leader_epoch != epoch:
                self._give_up(led)

    def __iter__(self) -> Iterator[LedPartition]:
        for group in self._by_group.values():
            yield from group.values()

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None:
        self._give_up_all(partition, epoch=leader_epoch)

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        self._give_up_all(partition)

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None:
        self._give_up_all(partition)

    def high_watermark_moved(self, partition: Partition) -> None:
        """Fetches that wait are woken by their partition."""

    def topics_deleted(self, names: Iterable[str]) -> None:
        gone = set(names)
        for place in [one for one in self._by_partition if one.topic in gone]:
            self._give_up_all(place)

    def stop(self) -> None:
        """Drops all."""
        for led in in_turns(turn_list(self)):
            self._give_up(led)

    # Time

    def advance(self, at: Timestamps) -> None:
        """Takes back what was locked for too long."""
        self.at = at
        self.dead_letters.advance(at)
        for one in self._due.take_all_due(at.monotonic_ms):
            self.fetches.waiting.wake(one)
        for one in self._repeats.take_all_due(at.monotonic_ms):
            self._push(one)
        while (led := self._locks.take_due(at.monotonic_ms)) is not None:
            if led.machine.expire(at.monotonic_ms):
                self._push(led)
            self._changed(led)
            if self._budget.is_spent():
                return

    # For people

    def in_flight(self, group_id: str, place: TopicIdPartition) -> list[InFlight]:
        """What the group has in flight in a partition, if its state was read. Raises `ApiError` if
        this broker does not lead the partition.
        """
        topic = self._topics.find_by_id(place[0])
        if topic is not None:
            topic.partition(place[1]).check_leader()
        led = self.known(group_id, place)
        if led is None:
            return []
        return list(in_flight(led.partition.topic, place, led.machine.records.runs(), self.at))


def told(answer: ShareStateAnswer) -> ApiError:
    """What a member is told instead of what the share coordinator said."""
    return ApiError(COORDINATOR_ERRORS.get(answer.error, answer.error), answer.message)


def name_of(led: LedPartition) -> str:
    return f"{led.partition.topic}-{led.partition.index} in share group {led.key.group_id}"
