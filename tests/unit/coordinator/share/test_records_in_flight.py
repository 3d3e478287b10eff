"""Records in flight: by example, and beside a model that has one state for each offset."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRange,
    DeliveryState,
    Limits,
    Offer,
    RecordsInFlight,
    ReturnReason,
    StateBatch,
    Transition,
    Wanted,
)

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
ARCHIVING = DeliveryState.ARCHIVING
FINAL = (ACKNOWLEDGED, ARCHIVED)


def in_flight(limits: Limits | None = None) -> RecordsInFlight:
    return RecordsInFlight(0, limits or Limits())


def take(
    records: RecordsInFlight, member: str, *batches: tuple[int, int], most: int = 1 << 30
) -> list[AcquiredRange]:
    offset = records.next_offset()
    assert offset is not None
    return records.acquire(member, Offer(offset, batches), Wanted(most), 0.0)


def say(records: RecordsInFlight, member: str, first: int, last: int, *types: int) -> Transition:
    transition = records.acknowledge(member, [Acknowledgement(first, last, types)], 0.0)
    records.commit(transition, 0.0)
    return transition


def states(records: RecordsInFlight) -> list[tuple[int, int, DeliveryState, int]]:
    return [(one.first, one.last, one.state, one.delivery_count) for one in records.runs()]


def test_records_are_with_one_member_until_it_has_accepted_them() -> None:
    records = in_flight()
    assert take(records, "a", (0, 9), (10, 14)) == [AcquiredRange(0, 14, 1)]
    assert records.next_offset() == 15
    assert say(records, "a", 0, 9, ACCEPT).batches == [StateBatch(0, 9, ACKNOWLEDGED, 1)]
    assert (records.start, records.end, records.open_count) == (10, 15, 5)
    say(records, "a", 10, 14, ACCEPT)
    assert (records.start, records.end, records.open_count) == (15, 15, 0)


def test_what_is_released_is_delivered_again_before_what_is_new() -> None:
    records = in_flight()
    take(records, "a", (0, 9))
    say(records, "a", 3, 5, RELEASE)
    assert records.next_offset() == 3
    assert take(records, "b", (0, 9), (10, 12), most=4) == [
        AcquiredRange(3, 5, 2),
        AcquiredRange(10, 12, 1),
    ]


def test_each_offset_may_have_a_type_of_its_own() -> None:
    records = in_flight()
    take(records, "a", (0, 4))
    done = say(records, "a", 0, 4, ACCEPT, ACCEPT, RELEASE, REJECT, AcknowledgeType.GAP)
    assert done.batches == [
        StateBatch(0, 1, ACKNOWLEDGED, 1),
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 4, ARCHIVED, 1),
    ]
    assert (records.start, records.complete_count) == (2, 2)


@pytest.mark.parametrize(
    ("member", "first", "last"), [("b", 0, 4), ("a", 0, 5), ("a", 5, 9), ("a", 2, 3)]
)
def test_only_what_a_member_has_can_be_acknowledged_by_it(
    member: str, first: int, last: int
) -> None:
    records = in_flight()
    take(records, "a", (0, 4))
    say(records, "a", 2, 2, RELEASE)
    before = states(records)
    with pytest.raises(ApiError) as refused:
        records.acknowledge(member, [Acknowledgement(first, last, [ACCEPT])], 0.0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert states(records) == before


@pytest.mark.parametrize(
    "given",
    [
        [Acknowledgement(3, 2, [1])],
        [Acknowledgement(-1, 2, [1])],
        [Acknowledgement(0, 2, [1, 1])],
        [Acknowledgement(0, 2, [])],
        [Acknowledgement(0, 2, [5])],
        [Acknowledgement(2, 3, [1]), Acknowledgement(3, 4, [1])],
        [Acknowledgement(2, 3, [1]), Acknowledgement(0, 1, [1])],
    ],
)
def test_what_makes_no_sense_is_refused(given: Sequence[Acknowledgement]) -> None:
    records = in_flight()
    take(records, "a", (0, 4))
    with pytest.raises(ApiError) as refused:
        records.acknowledge("a", given, 0.0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert states(records) == [(0, 4, ACQUIRED, 1)]


def test_nothing_else_happens_to_what_is_being_written() -> None:
    records = in_flight()
    take(records, "a", (0, 4))
    transition = records.acknowledge("a", [Acknowledgement(1, 2, [RELEASE])], 0.0)
    with pytest.raises(ApiError):
        records.acknowledge("a", [Acknowledgement(2, 2, [ACCEPT])], 0.0)
    assert records.next_offset() == 5
    assert [one.first for one in records.expire(30_000).batches] == [0, 3]
    records.roll_back(transition)
    assert records.expire(30_000).batches == [StateBatch(1, 2, AVAILABLE, 1)]


def test_a_lock_expires_unless_it_is_renewed() -> None:
    records = in_flight()
    take(records, "a", (0, 9))
    assert records.next_deadline_ms() == 30_000
    assert not records.expire(29_999)
    assert not records.acknowledge("a", [Acknowledgement(4, 9, [AcknowledgeType.RENEW])], 20_000)
    assert records.expire(30_000).batches == [StateBatch(0, 3, AVAILABLE, 1)]
    assert records.expire(50_000).batches == [StateBatch(4, 9, AVAILABLE, 1)]
    assert [one.reasons for one in records.runs()] == [(ReturnReason.LOCK_EXPIRED,)]


def test_what_was_delivered_too_often_is_archived_and_with_dead_letters_later() -> None:
    for has_dead_letters, state in ((False, ARCHIVED), (True, ARCHIVING)):
        records = in_flight(Limits(delivery_count=2, has_dead_letters=has_dead_letters))
        take(records, "a", (0, 4))
        say(records, "a", 0, 4, RELEASE)
        assert [one.delivery_count for one in take(records, "b", (0, 4))] == [2]
        assert records.release("b", ReturnReason.MEMBER_LOST).batches == [
            StateBatch(0, 4, state, 2)
        ]


def test_dead_letters_hold_the_start_until_they_are_copied() -> None:
    records = in_flight(Limits(has_dead_letters=True))
    take(records, "a", (0, 4))
    say(records, "a", 0, 4, REJECT)
    assert (records.start, records.open_count) == (0, 5)
    records.commit(records.archived_as_dead_letters(0, 2), 0.0)
    assert (records.start, records.open_count) == (3, 2)


def test_no_more_than_the_limit_is_in_flight_but_what_is_there_is_delivered_again() -> None:
    records = in_flight(Limits(max_record_locks=10))
    assert take(records, "a", (0, 7), (8, 15), (16, 23)) == [AcquiredRange(0, 15, 1)]
    assert records.next_offset() is None
    say(records, "a", 9, 9, RELEASE)
    assert records.next_offset() == 9
    assert take(records, "b", (8, 15), (16, 23)) == [AcquiredRange(9, 9, 2)]


def test_a_strict_member_gets_no_more_than_it_asked_for() -> None:
    records = in_flight()
    wanted = Wanted(3, is_strict=True)
    assert records.acquire("a", Offer(0, [(0, 7)]), wanted, 0.0) == [AcquiredRange(0, 2, 1)]
    assert records.acquire("b", Offer(3, [(0, 7), (8, 9)]), Wanted(6), 0.0) == [
        AcquiredRange(3, 9, 1)
    ]


def test_ranges_are_cut_between_record_batches_by_the_wished_size() -> None:
    records = in_flight()
    offer = Offer(0, [(0, 3), (4, 7), (8, 11)])
    assert records.acquire("a", offer, Wanted(100, batch_size=6), 0.0) == [
        AcquiredRange(0, 7, 1),
        AcquiredRange(8, 11, 1),
    ]


def test_what_compaction_or_an_aborted_transaction_took_is_archived() -> None:
    records = in_flight()
    offer = Offer(0, [(3, 5), (8, 12)], aborted=[(4, 4), (11, 20)])
    assert records.acquire("a", offer, Wanted(100), 0.0) == [
        AcquiredRange(3, 3, 1),
        AcquiredRange(5, 5, 1),
        AcquiredRange(8, 10, 1),
    ]
    assert (records.start, records.end, records.open_count) == (3, 13, 5)


def test_the_start_follows_that_of_the_log_when_members_have_said_what_they_have() -> None:
    records = in_flight()
    take(records, "a", (0, 4))
    take(records, "b", (5, 9))
    say(records, "b", 5, 9, RELEASE)
    records.follow_log_start(7)
    assert states(records) == [
        (0, 4, ACQUIRED, 1),
        (5, 6, ARCHIVED, 1),
        (7, 9, AVAILABLE, 1),
    ]
    assert say(records, "a", 0, 4, RELEASE).batches == [StateBatch(0, 4, ARCHIVED, 1)]
    assert records.start == 7
    records.follow_log_start(100)
    assert (records.start, records.end, records.next_offset()) == (100, 100, 100)


def test_bad_records_are_found_in_ever_smaller_parts_and_alone_at_last() -> None:
    limits = Limits(delivery_count=6)
    records = in_flight(limits)
    sizes = []
    for _ in range(5):
        (acquired,) = take(records, "a", (0, 499))
        sizes.append(acquired.last - acquired.first + 1)
        say(records, "a", acquired.first, acquired.last, RELEASE)
    assert sizes == [500, 500, 500, 250, 125]
    assert take(records, "a", (0, 499)) == [AcquiredRange(0, 0, 6)]


def test_what_was_written_is_taken_up_and_what_lies_between_is_available() -> None:
    written = [
        StateBatch(10, 12, ACKNOWLEDGED, 1),
        StateBatch(15, 16, AVAILABLE, 2),
        StateBatch(20, 21, ARCHIVED, 3),
    ]
    records = RecordsInFlight(9, Limits(), written)
    assert take(records, "a", (0, 30)) == [
        AcquiredRange(9, 9, 1),
        AcquiredRange(13, 14, 1),
        AcquiredRange(15, 16, 3),
        AcquiredRange(17, 19, 1),
        AcquiredRange(22, 30, 1),
    ]


@dataclass
class Model:
    """A state, a member and a count of deliveries for each offset."""

    limits: Limits
    states: dict[int, tuple[DeliveryState, str, int]] = field(default_factory=dict)
    log_start: int = 0

    def check(self, records: RecordsInFlight) -> None:
        before = records.start
        for run in records.runs():
            assert run.first == before <= run.last
            before = run.last + 1
        assert before == records.end
        shown = {
            offset: (run.state, run.member, run.delivery_count)
            for run in records.runs()
            for offset in range(run.first, run.last + 1)
        }
        # Final records are joined, and how often each was delivered is told no more.
        counts = {at: 0 if one[0] in FINAL else one[2] for at, one in self.states.items()}
        known = {at: (*one[:2], counts[at]) for at, one in self.states.items()}
        shown = {at: (*one[:2], 0 if one[0] in FINAL else one[2]) for at, one in shown.items()}
        for offset, (state, _, _) in self.states.items():
            if offset < records.start:
                assert state in FINAL
        assert shown == {at: one for at, one in known.items() if at >= records.start}
        final = [at for at, one in shown.items() if one[0] in FINAL]
        assert records.open_count == len(shown) - len(final)
        assert records.complete_count == len(final)
        assert records.start not in final
        available = [at for at, one in shown.items() if one[0] is AVAILABLE]
        is_full = records.open_count >= self.limits.max_record_locks
        if not any(run.is_being_written for run in records.runs()):
            assert records.next_offset() == min(available, default=None if is_full else before)

    def given_back(self, offset: int) -> DeliveryState:
        archived = ARCHIVING if self.limits.has_dead_letters else ARCHIVED
        if offset < self.log_start:
            return ARCHIVED
        return archived if self.states[offset][2] >= self.limits.delivery_count else AVAILABLE

    def become(self, offset: int, state: DeliveryState) -> None:
        self.states[offset] = (state, "", self.states[offset][2])


class Trial:
    """Random operations on both, over a log whose record batches have holes between them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.limits = Limits(
            delivery_count=self.chance.choice([2, 3, 5, 10]),
            lock_ms=100,
            max_record_locks=self.chance.choice([5, 30, 200]),
            has_dead_letters=self.chance.random() < 0.3,
        )
        self.model = Model(self.limits)
        self.records = RecordsInFlight(0, self.limits)
        self.batches: list[tuple[int, int]] = []
        end = 0
        while end < 300:
            first = end + self.chance.choice([0, 0, 0, 2])
            end = first + self.chance.randint(1, 12)
            self.batches.append((first, end - 1))
        self.aborted = [
            (at, at + self.chance.randint(0, 9)) for at in self.chance.sample(range(0, 300, 15), 4)
        ]
        self.aborted.sort()
        self.locks: dict[int, float] = {}
        self.now = 0.0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.chance.choice([0, 1, 40])
            step = self.chance.choice(
                [self.acquire] * 4
                + [self.acknowledge] * 5
                + [self.expire, self.leave, self.cut]
                + [self.restart, self.copy_dead_letters]
            )
            step()
            self.model.check(self.records)

    def acquire(self) -> None:
        offset = self.records.next_offset()
        if offset is None:
            return
        member = self.chance.choice("abc")
        wanted = Wanted(self.chance.randint(1, 60), self.chance.choice([1, 10, 500]))
        if self.chance.random() < 0.5:
            wanted = wanted._replace(is_strict=True)
        offer = Offer(offset, [one for one in self.batches if one[1] >= offset], self.aborted)
        before = dict(self.model.states)
        ranges = self.records.acquire(member, offer, wanted, self.now)
        if wanted.is_strict:
            assert sum(last - first + 1 for first, last, _ in ranges) <= wanted.max_records
        in_log = {at for first, last in self.batches for at in range(first, last + 1)}
        aborted = {at for first, last in self.aborted for at in range(first, last + 1)}
        for first, last, count in ranges:
            for at in range(first, last + 1):
                assert at in in_log
                assert at not in aborted
                state, _, earlier = before.get(at, (AVAILABLE, "", 0))
                assert (state, earlier) == (AVAILABLE, count - 1), "one member at a time"
                self.model.states[at] = (ACQUIRED, member, count)
                self.locks[at] = self.now + self.limits.lock_ms
        # Others may only have been archived, if the log lacks them or their transaction aborted.
        for run in self.records.runs():
            for at in range(run.first, run.last + 1):
                known = self.model.states.get(at, (AVAILABLE, "", 0))
                if run.state is ARCHIVED and known[0] is AVAILABLE:
                    assert at not in in_log or at in aborted
                    self.model.states[at] = (ARCHIVED, "", known[2])
        for at in range(self.records.start):
            if self.model.states.get(at, (AVAILABLE, "", 0))[0] is AVAILABLE:
                assert at not in in_log or at in aborted
                self.model.states[at] = (ARCHIVED, "", 0)

    def acknowledge(self) -> None:
        member = self.chance.choice("abc")
        first = self.chance.randrange(max(0, self.records.start - 3), self.records.end + 2)
        last = first + self.chance.choice([0, 3, 20])
        types = [self.chance.randrange(5) for _ in range(last - first + 1)]
        if self.chance.random() < 0.5:
            types = types[:1]
        wanted = range(max(first, self.records.start), last + 1)
        known = self.model.states
        is_right = all(known.get(at, (None, ""))[:2] == (ACQUIRED, member) for at in wanted)
        given = [Acknowledgement(first, last, types)]
        if not is_right:
            with pytest.raises(ApiError, match="not acquired"):
                self.records.acknowledge(member, given, self.now)
            return
        transition = self.records.acknowledge(member, given, self.now)
        self.model.check(self.records)
        kinds = types * (last - first + 1) if len(types) == 1 else types
        is_written = self.chance.random() < 0.8
        for at, kind in zip(range(first, last + 1), kinds, strict=True):
            if at < self.records.start:
                continue
            if kind == AcknowledgeType.RENEW:
                self.locks[at] = self.now + self.limits.lock_ms
            elif is_written:
                archived = ARCHIVING if self.limits.has_dead_letters else ARCHIVED
                rejected = {ACCEPT: ACKNOWLEDGED, REJECT: archived, AcknowledgeType.GAP: ARCHIVED}
                found = rejected.get(AcknowledgeType(kind))
                self.model.become(at, found or self.model.given_back(at))
        if is_written:
            self.records.commit(transition, self.now)
        else:
            self.records.roll_back(transition)

    def expire(self) -> None:
        self.now += self.chance.choice([0, 60, 100])
        self.records.expire(self.now)
        for at, (state, _, _) in self.model.states.items():
            if state is ACQUIRED and self.locks[at] <= self.now:
                self.model.become(at, self.model.given_back(at))

    def leave(self) -> None:
        member = self.chance.choice("abc")
        transition = self.records.release(member, ReturnReason.MEMBER_LOST)
        self.records.commit(transition, self.now)
        for at, (state, its_member, _) in self.model.states.items():
            if (state, its_member) == (ACQUIRED, member):
                self.model.become(at, self.model.given_back(at))

    def cut(self) -> None:
        if self.chance.random() > 0.3:
            return
        start = self.records.start + self.chance.choice([0, 1, 10])
        self.model.log_start = max(self.model.log_start, start)
        self.records.follow_log_start(start)
        for at in range(start):
            if self.model.states.get(at, (AVAILABLE, "", 0))[0] is AVAILABLE:
                self.model.states[at] = (ARCHIVED, "", self.model.states.get(at, (0, 0, 0))[2])

    def restart(self) -> None:
        """Another leader has what was written: all but who has what."""
        written = [
            StateBatch(run.first, run.last, run.state, run.delivery_count)
            for run in self.records.runs()
            if run.state is not ACQUIRED
        ]
        end = max((one.last + 1 for one in written), default=self.records.start)
        self.records = RecordsInFlight(self.records.start, self.limits, written)
        for at, (state, _, _) in [*self.model.states.items()]:
            if at >= end:
                del self.model.states[at]
            elif state is ACQUIRED:
                self.model.states[at] = (AVAILABLE, "", 0)
        self.records.follow_log_start(self.model.log_start)
        for at in range(self.model.log_start):
            state, _, count = self.model.states.get(at, (AVAILABLE, "", 0))
            if state is AVAILABLE:
                self.model.states[at] = (ARCHIVED, "", count)

    def copy_dead_letters(self) -> None:
        for run in [*self.records.runs()]:
            if run.state is ARCHIVING:
                transition = self.records.archived_as_dead_letters(run.first, run.last)
                self.records.commit(transition, self.now)
        for at, (state, _, _) in self.model.states.items():
            if state is ARCHIVING:
                self.model.become(at, ARCHIVED)


@pytest.mark.parametrize("seed", range(12))
def test_each_record_is_in_one_state_with_one_member_and_never_lost(seed: int) -> None:
    Trial(seed).run(150)
