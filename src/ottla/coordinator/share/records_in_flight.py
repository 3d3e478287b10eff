"""The records of a partition that a share group has in flight: who has which, and what became of
each.

A record is *available*, *acquired* by one member under a lock that expires, or final: acknowledged,
or archived. Final records at the front move the start offset on. Records between the start and the
end that the caller was not told of are in one state together, so that a million of them cost as
much as one: the state is a list of runs, which covers every offset from `start` to `end` once.

An operation that must outlive this broker returns a `Transition`, whose batches the caller writes
to the share coordinator; then it calls `commit`, or `roll_back` if the write failed. Meanwhile no
other operation touches these records. Which member has a record is never written: after a crash
it is available again, with the number of deliveries that was written last.

Kafka's counterpart: `SharePartition`, which keeps a state for each batch, and one for each offset
of a batch once they differ.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.share.acknowledgements import checked, pieces_of


class DeliveryState(IntEnum):
    """As in `__share_group_state`, where ACQUIRED never stands."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Final but for its copy in the dead letter topic."""
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a member says of an offset; GAP if there is no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ReturnReason(IntEnum):
    """Why a record is not with the member any more that it was delivered to."""

    RELEASED = 1
    REJECTED = 2
    LOCK_EXPIRED = 3
    MEMBER_LOST = 4
    UNKNOWN = 5
    """It was delivered before this broker began to lead."""


AVAILABLE: Final = DeliveryState.AVAILABLE
ACQUIRED: Final = DeliveryState.ACQUIRED
ACKNOWLEDGED: Final = DeliveryState.ACKNOWLEDGED
ARCHIVING: Final = DeliveryState.ARCHIVING
ARCHIVED: Final = DeliveryState.ARCHIVED

EXPIRED_AT_ONCE: Final = 200
"""Locks, which takes about a millisecond."""

Offsets = tuple[int, int]
"""The first and the last offset of a range."""


class Limits(NamedTuple):
    """The settings of the group: `share.delivery.count.limit`, `share.record.lock.duration.ms`,
    `share.partition.max.record.locks`, and whether archived records go to a dead letter topic.
    """

    delivery_count: int = 5
    lock_ms: float = 30_000
    max_record_locks: int = 2000
    has_dead_letters: bool = False

    @property
    def cautious_count(self) -> int:
        """The deliveries after which records are delivered in ever smaller parts, so that one bad
        record does not archive those around it.
        """
        return max(2, -(-self.delivery_count // 2))


class Offer(NamedTuple):
    """What was read from the log from `offset` on: its record batches in order, and the ranges of
    records of aborted transactions, in order too, which are not to be delivered. Batches are taken
    only as far as they are wanted; `aborted` is looked at after that.
    """

    offset: int
    batches: Iterable[Offsets]
    aborted: Sequence[Offsets] = ()


class Wanted(NamedTuple):
    """How much a member asks for. Whole record batches are delivered, which may be more than
    `max_records`, unless it `is_strict`. `batch_size` is the wanted size of an acquired range.
    """

    max_records: int
    batch_size: int = 1 << 31
    is_strict: bool = False


class AcquiredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """`types` has one type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    first: int
    last: int
    state: int
    delivery_count: int


class Run:
    """Neighbouring records in one state. `batch_size` is the number of records that they were first
    acquired with.
    """

    __slots__ = (
        "batch_size",
        "deadline_ms",
        "delivery_count",
        "first",
        "is_being_written",
        "is_handed_out",
        "last",
        "member",
        "reasons",
        "since_ms",
        "state",
    )

    def __init__(self, first: int, last: int, state: DeliveryState, delivery_count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.batch_size = last - first + 1
        self.member = ""
        self.deadline_ms = 0.0
        self.since_ms = 0.0
        self.is_being_written = False
        self.is_handed_out = False
        """Whether its dead letter is being written."""
        self.reasons: tuple[ReturnReason, ...] = ()
        """Of each delivery that ended without a final state."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def is_final(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    def cut(self, offset: int) -> "Run":
        """Ends the run before an offset inside it; returns the rest."""
        rest = Run(offset, self.last, self.state, self.delivery_count)
        rest.batch_size, rest.member = self.batch_size, self.member
        rest.deadline_ms, rest.since_ms = self.deadline_ms, self.since_ms
        rest.is_being_written, rest.reasons = self.is_being_written, self.reasons
        rest.is_handed_out = self.is_handed_out
        self.last = offset - 1
        return rest

    def continues(self, before: "Run") -> bool:
        """Whether one run can stand for both."""
        if self.state != before.state or self.state in (ACQUIRED, ARCHIVING):
            return False
        if self.is_being_written or before.is_being_written:
            return False
        return self.is_final or (
            self.delivery_count == before.delivery_count
            and self.batch_size == before.batch_size
            and self.reasons == before.reasons
        )


class Transition:
    """What becomes of records once it is written; `batches` are the states to write."""

    __slots__ = ("batches", "changes")

    def __init__(self, changes: "list[Change]") -> None:
        self.changes = changes
        self.batches: list[StateBatch] = []
        for run, state, _ in changes:
            before = self.batches[-1] if self.batches else None
            if before is not None and before[1:] == (run.first - 1, state, run.delivery_count):
                self.batches[-1] = before._replace(last=run.last)
            else:
                self.batches.append(StateBatch(run.first, run.last, state, run.delivery_count))

    def __bool__(self) -> bool:
        return bool(self.changes)

    def undone(self) -> list[StateBatch]:
        """The states as they were written before: a delivery that has not ended is not written."""
        return [
            StateBatch(run.first, run.last, AVAILABLE, run.delivery_count - 1)
            if run.state == ACQUIRED
            else StateBatch(run.first, run.last, run.state, run.delivery_count)
            for run, _, _ in self.changes
        ]

    @property
    def final_count(self) -> int:
        """The number of records that become final."""
        return sum(
            one.run.count
            for one in self.changes
            if one.state in (ACKNOWLEDGED, ARCHIVED) and not one.run.is_final
        )


class Change(NamedTuple):
    run: Run
    state: DeliveryState
    reason: ReturnReason | None


class _Taking:
    """What one acquisition has taken so far."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.parts: list[Offsets] = []
        self.left = wanted.max_records
        self.is_done = self.left <= 0

    def room_for(self, run: Run, limits: Limits) -> int:
        """How many of the available records of a run to take; 0 to stop before it."""
        cautious = run.delivery_count - limits.cautious_count
        if cautious < 0:
            return self.left if self.wanted.is_strict else run.count
        self.is_done = True
        if self.parts:
            return 0
        if limits.delivery_count > 2 and run.delivery_count >= limits.delivery_count - 1:
            return 1
        most = max(1, run.batch_size >> (cautious + 1))
        return min(most, self.left) if self.wanted.is_strict else most

    def add(self, first: int, last: int) -> None:
        self.parts.append((first, last))
        self.left -= last - first + 1
        if self.left <= 0:
            self.is_done = True


class RecordsInFlight:
    """`start` is the offset before which all records are final, `end` the one after the last that
    was ever acquired.
    """

    def __init__(
        self, start: int, limits: Limits, written: Sequence[StateBatch] = (), now_ms: float = 0.0
    ) -> None:
        """`written` are the states that the share coordinator has, in order. Records between them
        were acquired and never final, and are available.
        """
        self.start = self.end = start
        self.limits = limits
        self._runs: list[Run] = []
        self._locks: list[tuple[float, int, int]] = []
        """A heap of deadlines and ranges, also of locks that have been given up since."""
        self._open_count = 0
        self._available_from = start
        """No record before this offset is available."""
        self._log_start = 0
        for batch in written:
            self._load(batch, now_ms)
        self._move_start()

    def _load(self, batch: StateBatch, now_ms: float) -> None:
        first = max(batch.first, self.end)
        if batch.last < first:
            return
        if first > self.end:
            self._append(self.end, first - 1, AVAILABLE, 0)
        state = DeliveryState(batch.state)
        run = self._append(first, batch.last, state, batch.delivery_count)
        run.since_ms = now_ms
        run.reasons = (ReturnReason.UNKNOWN,) * batch.delivery_count

    # Questions

    @property
    def open_count(self) -> int:
        """The number of records from `start` to `end` that are not final."""
        return self._open_count

    @property
    def complete_count(self) -> int:
        """The number of final records from `start` to `end`."""
        return self.end - self.start - self._open_count

    def runs(self) -> Sequence[Run]:
        """All of them, in order; for reading only."""
        return self._runs

    def next_offset(self) -> int | None:
        """Where the next records to deliver begin; `None` while as many as may be are in flight."""
        for number in range(self._index(self._available_from), len(self._runs)):
            run = self._runs[number]
            if run.state == AVAILABLE and not run.is_being_written:
                self._available_from = run.first
                return run.first
        self._available_from = self.end
        return self.end if self._open_count < self.limits.max_record_locks else None

    def next_deadline_ms(self) -> float | None:
        """When the next lock may expire."""
        return self._locks[0][0] if self._locks else None

    # Acquisition

    def extend(self, end: int) -> None:
        """Has the records up to `end` in flight before any member gets them, as far as there is
        room.
        """
        last = min(end, self.end + self.limits.max_record_locks - self._open_count) - 1
        if last >= self.end:
            self._append(self.end, last, AVAILABLE, 0)
            self._tidy(last, last)

    def acquire_but(
        self,
        deferred: Sequence[Offsets],
        member: str,
        offer: Offer,
        wanted: Wanted,
        now_ms: float,
    ) -> list[AcquiredRange]:
        """As `acquire`, but leaves ranges of available records as they are."""
        left: list[Run] = []
        for first, last in deferred:
            for run in self._available_in(first, last):
                run.is_being_written = True
                left.append(run)
        try:
            return self.acquire(member, offer, wanted, now_ms)
        finally:
            for run in left:
                run.is_being_written = False

    def acquire(
        self, member: str, offer: Offer, wanted: Wanted, now_ms: float
    ) -> list[AcquiredRange]:
        """Gives available records to a member; those that the log has no more are archived."""
        if offer.offset > self.end:
            raise ValueError(f"read from {offer.offset} on, after the end {self.end}")
        taking = _Taking(wanted)
        begin = position = max(offer.offset, self.start)
        for first, last in offer.batches:
            if taking.is_done:
                break
            if last < position:
                continue
            if first > position:
                self._archive(position, first - 1)
            if position < self.end:
                self._take_known(max(first, position), min(last, self.end - 1), taking)
            if last >= self.end and not taking.is_done:
                self._take_new(last, taking)
            position = last + 1
        acquired: list[AcquiredRange] = []
        for first, last in taking.parts:
            self._archive_aborted(first, last, offer.aborted)
            for run in self._runs_in(first, last):
                if run.state == AVAILABLE:
                    self._lock(run, member, now_ms)
                    _add_range(acquired, run, wanted.batch_size)
        self._tidy(position, begin)
        return acquired

    def _archive(self, first: int, last: int) -> None:
        """Archives what is available, or new, in a range."""
        if first < self.end:
            for run in self._available_in(first, min(last, self.end - 1)):
                self._open_count -= run.count
                run.state = ARCHIVED
        if last >= self.end:
            self._append(self.end, last, ARCHIVED, 0)

    def _take_known(self, first: int, last: int, taking: _Taking) -> None:
        number = self._index(max(first, self._available_from))
        while number < len(self._runs) and not taking.is_done:
            run = self._runs[number]
            number += 1
            if run.first > last:
                return
            begin, end = max(run.first, first), min(run.last, last)
            if run.state != AVAILABLE or run.is_being_written or begin > end:
                continue
            room = taking.room_for(run, self.limits)
            if not room:
                return
            taking.add(begin, min(end, begin + room - 1))

    def _take_new(self, last: int, taking: _Taking) -> None:
        """Takes the records from the end to the end of a record batch."""
        room = self.limits.max_record_locks - self._open_count
        if room <= 0:
            taking.is_done = True
            return
        first = self.end
        if taking.wanted.is_strict and last - first >= min(room, taking.left):
            last = first + min(room, taking.left) - 1
            taking.is_done = True
        self._append(first, last, AVAILABLE, 0)
        taking.add(first, last)

    def _archive_aborted(self, first: int, last: int, aborted: Sequence[Offsets]) -> None:
        for begin, end in aborted:
            if begin <= last and end >= first:
                self._archive(max(begin, first), min(end, last))

    def _lock(self, run: Run, member: str, now_ms: float) -> None:
        run.state = ACQUIRED
        run.member = member
        run.delivery_count += 1
        run.since_ms = now_ms
        self._renew(run, now_ms)

    def _renew(self, run: Run, now_ms: float) -> None:
        run.deadline_ms = now_ms + self.limits.lock_ms
        heapq.heappush(self._locks, (run.deadline_ms, run.first, run.last))

    # What members say

    def acknowledge(
        self, member: str, given: Sequence[Acknowledgement], now_ms: float
    ) -> Transition:
        """All of it or nothing; renewals take effect at once. Raises `ApiError`: INVALID_REQUEST,
        INVALID_RECORD_STATE.
        """
        pieces = [
            (max(first, self.start), last, kind)
            for first, last, kind in pieces_of(checked(given))
            if last >= self.start  # Others are final already, or the log has them no more.
        ]
        for first, last, _ in pieces:
            self._check_acquired(member, first, last)
        changes: list[Change] = []
        for first, last, kind in pieces:
            for run in self._runs_in(first, last):
                if kind == AcknowledgeType.RENEW:
                    self._renew(run, now_ms)
                else:
                    changes.append(self._acknowledged(run, kind))
        return self._begin(changes)

    def _check_acquired(self, member: str, first: int, last: int) -> None:
        if last >= self.end:
            raise _not_acquired(first, last)
        for number in range(self._index(first), len(self._runs)):
            run = self._runs[number]
            if run.first > last:
                return
            if run.state != ACQUIRED or run.member != member or run.is_being_written:
                raise _not_acquired(first, last)

    def _acknowledged(self, run: Run, kind: int) -> Change:
        match kind:
            case AcknowledgeType.ACCEPT:
                return Change(run, ACKNOWLEDGED, None)
            case AcknowledgeType.REJECT:
                return Change(run, self._rejected(), ReturnReason.REJECTED)
            case AcknowledgeType.RELEASE:
                return self._given_back(run, ReturnReason.RELEASED)
        return Change(run, ARCHIVED, None)

    def _rejected(self) -> DeliveryState:
        return ARCHIVING if self.limits.has_dead_letters else ARCHIVED

    def _given_back(self, run: Run, reason: ReturnReason) -> Change:
        if run.first < self._log_start:
            return Change(run, ARCHIVED, reason)
        if run.delivery_count >= self.limits.delivery_count:
            return Change(run, self._rejected(), reason)
        return Change(run, AVAILABLE, reason)

    def release(self, member: str, reason: ReturnReason) -> Transition:
        """Takes back all that a member has: it has left, or is lost."""
        return self._begin(
            [
                self._given_back(run, reason)
                for run in self._runs
                if run.state == ACQUIRED and run.member == member and not run.is_being_written
            ]
        )

    def expire(self, now_ms: float) -> Transition:
        """Takes back what was locked for too long, or some of it, after which the next deadline is
        due too. That is in effect already: a lock has expired whether or not the state can be
        written.
        """
        changes: list[Change] = []
        while self._locks and self._locks[0][0] <= now_ms and len(changes) < EXPIRED_AT_ONCE:
            _, first, last = heapq.heappop(self._locks)
            for number in range(self._index(max(first, self.start)), len(self._runs)):
                run = self._runs[number]
                if run.first > last:
                    break
                # What its member has said of one that is being written decides, if it can be.
                is_locked = run.state == ACQUIRED and not run.is_being_written
                if is_locked and run.deadline_ms <= now_ms and run.last >= first:
                    changes.append(self._given_back(run, ReturnReason.LOCK_EXPIRED))
                    run.is_being_written = True
        changes.sort(key=_first)
        transition = self._begin(changes)
        self.commit(transition, now_ms)
        return transition

    def take_dead(self) -> list[Run]:
        """The records whose dead letters are to be written now; each is returned once."""
        dead = [
            one
            for one in self._runs
            if one.state == ARCHIVING and not (one.is_being_written or one.is_handed_out)
        ]
        for one in dead:
            one.is_handed_out = True
        return dead

    def archived_as_dead_letters(self, first: int, last: int) -> Transition:
        """Makes records final whose copies are in the dead letter topic, or cannot be."""
        runs = self._runs_in(first, last)
        return self._begin([Change(one, ARCHIVED, None) for one in runs if one.state == ARCHIVING])

    def follow_log_start(self, offset: int) -> None:
        """Archives what the log has no more, but for what members have."""
        if offset > self._log_start:
            self._log_start = offset
            self._follow_log_start()

    def _follow_log_start(self) -> None:
        if self._log_start > self.start:
            self._archive(self.start, self._log_start - 1)
            number = self._index(self._log_start)
            # What is given back is available again only from here on.
            if number < len(self._runs) and not self._runs[number].is_being_written:
                self._cut(self._log_start)
            self._tidy(self._log_start, self.start)

    # Transitions

    def _begin(self, changes: list[Change]) -> Transition:
        for change in changes:
            change.run.is_being_written = True
        return Transition(changes)

    def commit(self, transition: Transition, now_ms: float) -> None:
        for run, state, reason in transition.changes:
            run.is_being_written = False
            run.state = state
            run.member = ""
            run.since_ms = now_ms
            if reason is not None:
                run.reasons = (*run.reasons, reason)
            if run.is_final:
                self._open_count -= run.count
            elif state == AVAILABLE:
                self._available_from = min(self._available_from, run.first)
        if transition.changes:
            self._tidy(transition.changes[-1].run.last, transition.changes[0].run.first)
            self._follow_log_start()

    def roll_back(self, transition: Transition) -> None:
        """As if nothing had been said: the records are their member's until its lock expires."""
        for change in transition.changes:
            change.run.is_being_written = False
            heapq.heappush(self._locks, (change.run.deadline_ms, change.run.first, change.run.last))

    # Runs

    def _index(self, offset: int) -> int:
        """The number of the run that has the offset, or would have it."""
        return max(0, bisect_right(self._runs, offset, key=FIRST) - 1)

    def _append(self, first: int, last: int, state: DeliveryState, delivery_count: int) -> Run:
        run = Run(first, last, state, delivery_count)
        self._runs.append(run)
        self.end = last + 1
        if not run.is_final:
            self._open_count += run.count
        return run

    def _runs_in(self, first: int, last: int) -> list[Run]:
        """The runs of a range, which are cut where it begins and ends."""
        number = self._cut(first)
        end = self._cut(last + 1)
        return self._runs[number:end]

    def _available_in(self, first: int, last: int) -> Iterator[Run]:
        """The available runs of a range, cut where it begins and ends."""
        number = self._index(first)
        while number < len(self._runs) and (run := self._runs[number]).first <= last:
            if run.state == AVAILABLE and not run.is_being_written and run.last >= first:
                begin, end = max(run.first, first), min(run.last, last)
                number = self._cut(begin)
                self._cut(end + 1)
                yield self._runs[number]
            number += 1

    def _cut(self, offset: int) -> int:
        """The number of the run that begins with the offset, after a cut if none does."""
        number = self._index(offset)
        if number == len(self._runs) or self._runs[number].first >= offset:
            return number
        if self._runs[number].last >= offset:
            self._runs.insert(number + 1, self._runs[number].cut(offset))
        return number + 1

    def _tidy(self, last: int, first: int) -> None:
        """Joins what is alike in a range and beside it, and moves the start over what is final."""
        begin = max(0, self._index(first) - 1)
        end = min(len(self._runs), self._index(last) + 2)
        joined: list[Run] = []
        for run in self._runs[begin:end]:
            if joined and run.continues(joined[-1]):
                joined[-1].last = run.last
            else:
                joined.append(run)
        if len(joined) < end - begin:
            self._runs[begin:end] = joined
        self._move_start()

    def _move_start(self) -> None:
        number = 0
        for run in self._runs:
            if not run.is_final:
                break
            number += 1
        del self._runs[:number]
        self.start = self._runs[0].first if self._runs else self.end
        self._available_from = max(self._available_from, self.start)


FIRST: Final = attrgetter("first")


def _first(change: Change) -> int:
    return change.run.first


def _add_range(ranges: list[AcquiredRange], run: Run, batch_size: int) -> None:
    before = ranges[-1] if ranges else None
    is_next = before is not None and before[1:] == (run.first - 1, run.delivery_count)
    if before is not None and is_next and before.last - before.first + 1 < batch_size:
        ranges[-1] = before._replace(last=run.last)
        return
    ranges.append(AcquiredRange(run.first, run.last, run.delivery_count))


def _not_acquired(first: int, last: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD_STATE,
        f"The member has not acquired all of the offsets {first} to {last}, or not any more.",
    )
