"""A partition in a share group: its leader, the share coordinator, and losses between them."""

import random
from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.coordinator.share.coordinator import (
    Answered,
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
    StateWrite,
)
from ottla.coordinator.share.persisted_state import PersistedState, SharePartitionKey
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRange,
    DeliveryState,
    Limits,
    Offer,
    ReturnReason,
    StateBatch,
    Wanted,
)
from ottla.coordinator.share.share_partition import Outcome, Phase, SharePartition

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
FRESH = PersistedState(state_epoch=1, leader_epoch=0, start_offset=-1)
ACKNOWLEDGED, AVAILABLE = DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE


def active(state: PersistedState = FRESH, start: int = 0) -> SharePartition:
    partition = SharePartition(0, Limits())
    assert partition.wants_state()
    partition.loaded(state, start, 0.0)
    return partition


def take(partition: SharePartition, member: str, *batches: tuple[int, int]) -> list[AcquiredRange]:
    offset = partition.records.next_offset()
    assert offset is not None
    return partition.acquire(member, Offer(offset, batches), Wanted(1000), 0.0)


def say(
    partition: SharePartition, member: str, first: int, last: int, kind: int, pending_id: str
) -> Outcome | None:
    return partition.acknowledge(member, [Acknowledgement(first, last, [kind])], 0.0, pending_id)


def test_records_are_delivered_once_the_state_was_read_which_is_asked_for_once() -> None:
    partition = SharePartition(0, Limits())
    with pytest.raises(ApiError, match="not read yet"):
        partition.acquire("a", Offer(0, [(0, 1)]), Wanted(1), 0.0)
    assert [partition.wants_state(), partition.wants_state()] == [True, False]
    partition.failed()
    assert partition.wants_state()
    partition.loaded(FRESH, 7, 0.0)
    assert partition.records.next_offset() == 7


def test_what_members_say_counts_once_it_is_written() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    assert say(partition, "a", 0, 4, ACCEPT, "first") is None
    write = partition.next_write()
    assert write == StateWrite(1, 0, 0, (StateBatch(0, 4, ACKNOWLEDGED, 1),), 5)
    assert say(partition, "a", 5, 6, RELEASE, "second") is None
    assert say(partition, "a", 7, 9, ACCEPT, "third") is None
    assert partition.next_write() is None, "one write at a time"
    assert partition.written(ErrorCode.NONE, 0.0) == [Outcome("first", ErrorCode.NONE)]
    assert partition.records.start == 5
    write = partition.next_write()
    assert write is not None
    assert write.batches == (StateBatch(5, 6, AVAILABLE, 1), StateBatch(7, 9, ACKNOWLEDGED, 1))
    assert (write.start_offset, write.complete_count) == (5, 3)
    assert [one.pending_id for one in partition.written(ErrorCode.NONE, 0.0)] == ["second", "third"]


def test_what_cannot_be_written_was_not_said() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    say(partition, "a", 0, 9, ACCEPT, "x")
    partition.next_write()
    assert partition.written(ErrorCode.NOT_COORDINATOR, 0.0) == [
        Outcome("x", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ]
    assert say(partition, "a", 0, 9, ACCEPT, "again") is None


def test_what_may_have_been_written_though_its_member_was_told_an_error_is_taken_back() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    say(partition, "a", 0, 4, ACCEPT, "x")
    partition.next_write()
    say(partition, "a", 8, 9, ACCEPT, "y")
    partition.written(ErrorCode.COORDINATOR_NOT_AVAILABLE, 0.0)
    write = partition.next_write()
    assert write is not None
    assert write.batches == (StateBatch(0, 4, AVAILABLE, 0), StateBatch(8, 9, ACKNOWLEDGED, 1))
    assert say(partition, "a", 0, 4, ACCEPT, "again") is None, "it is still its member's"
    partition.written(ErrorCode.COORDINATOR_NOT_AVAILABLE, 0.0)
    write = partition.next_write()
    assert write is not None
    assert write.batches == (StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(8, 9, AVAILABLE, 0))


def test_what_was_refused_is_not_taken_back() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    say(partition, "a", 0, 4, ACCEPT, "x")
    partition.next_write()
    partition.written(ErrorCode.UNKNOWN_SERVER_ERROR, 0.0)
    assert partition.next_write() is None


def test_a_leader_that_is_fenced_delivers_nothing_more_and_answers_all_who_wait() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    say(partition, "a", 0, 4, ACCEPT, "x")
    partition.next_write()
    say(partition, "a", 5, 9, ACCEPT, "y")
    outcomes = partition.written(ErrorCode.FENCED_LEADER_EPOCH, 0.0)
    assert outcomes == [Outcome(one, ErrorCode.NOT_LEADER_OR_FOLLOWER) for one in ("x", "y")]
    assert partition.phase is Phase.FENCED
    with pytest.raises(ApiError) as refused:
        partition.check()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_renewal_is_answered_at_once() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    outcome = say(partition, "a", 0, 9, AcknowledgeType.RENEW, "x")
    assert outcome == Outcome("x", ErrorCode.NONE)
    assert partition.next_write() is None


def test_an_expired_lock_holds_whether_or_not_it_can_be_written() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    assert partition.expire(30_000)
    write = partition.next_write()
    assert write is not None
    assert write.batches == (StateBatch(0, 9, AVAILABLE, 1),)
    assert [one.delivery_count for one in take(partition, "b", (0, 9))] == [2]
    assert partition.written(ErrorCode.COORDINATOR_NOT_AVAILABLE, 30_000) == []
    say(partition, "b", 0, 9, ACCEPT, "x")
    write = partition.next_write()
    assert write is not None
    assert write.batches == (StateBatch(0, 9, ACKNOWLEDGED, 2),)


def test_what_is_said_after_a_lock_has_expired_stands_in_the_same_write() -> None:
    partition = active()
    take(partition, "a", (0, 9))
    partition.expire(30_000)
    take(partition, "b", (0, 9))
    say(partition, "b", 2, 3, ACCEPT, "x")
    write = partition.next_write()
    assert write is not None
    assert write.batches == (
        StateBatch(0, 1, AVAILABLE, 1),
        StateBatch(2, 3, ACKNOWLEDGED, 2),
        StateBatch(4, 9, AVAILABLE, 1),
    )


# A history with losses


KEY = SharePartitionKey("g", Uuid(bytes([1]) * 16), 0)


class History:
    """A log of records, members, leaders that follow one another, and a share coordinator that
    restarts; answers between them may be lost.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.limits = Limits(delivery_count=10, lock_ms=100, max_record_locks=50)
        self.end = 120
        self.now = 0.0
        self.written: list[tuple[object, object]] = []
        self.coordinator = self.new_coordinator()
        self.adopt(self.coordinator.initialize(KEY, 1, 0, self.at()))
        self.leader_epoch = 0
        self.accepted: set[int] = set()
        """Those whose member was told so."""
        self.said: dict[int, tuple[str, int, int, int]] = {}
        self.deliveries: dict[int, int] = {}
        self.partition = self.new_leader()
        self.held: dict[str, list[AcquiredRange]] = {}

    def at(self) -> Timestamps:
        return Timestamps(now_ms=round(self.now), monotonic_ms=self.now)

    def new_coordinator(self) -> ShareCoordinatorShard:
        shard = ShareCoordinatorShard(
            ShareCoordinatorConfig(updates_per_snapshot=4), lambda _: True
        )
        for offset, (key, value) in enumerate(self.written):
            shard.replay(key, value, offset)  # type: ignore[arg-type]
        return shard

    def adopt(self, decision: Answered) -> Answered:
        for record in decision.records:
            self.written.append((record.key, record.value))
            self.coordinator.replay(record.key, record.value, len(self.written) - 1)
        return decision

    def new_leader(self) -> SharePartition:
        partition = SharePartition(self.leader_epoch, self.limits)
        partition.wants_state()
        answer = self.adopt(self.coordinator.read(KEY, self.leader_epoch, self.at())).answer
        assert answer is not None
        assert answer.error is ErrorCode.NONE
        partition.loaded(answer.state, 0, self.now)
        return partition

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.chance.choice([0, 1, 30])
            self.chance.choice(
                [self.fetch] * 4
                + [self.say] * 5
                + [self.write] * 5
                + [self.expire, self.lose_member, self.change_leader, self.restart_coordinator]
            )()

    def batches(self, offset: int) -> Iterator[tuple[int, int]]:
        first = offset - offset % 5
        while first < self.end:
            yield first, min(first + 4, self.end - 1)
            first += 5

    def fetch(self) -> None:
        offset = self.partition.records.next_offset()
        if offset is None or offset >= self.end:
            return
        member = self.chance.choice("abc")
        offer = Offer(offset, [*self.batches(offset)])
        for one in self.partition.acquire(member, offer, Wanted(15), self.now):
            for at in range(one.first, one.last + 1):
                assert at not in self.accepted, "what was accepted is not delivered again"
                self.deliveries[at] = self.deliveries.get(at, 0) + 1
            self.held.setdefault(member, []).append(one)

    def say(self) -> None:
        if not self.held:
            return
        member = self.chance.choice(sorted(self.held))
        one = self.held[member].pop()
        if not self.held[member]:
            del self.held[member]
        kind = self.chance.choice([ACCEPT, ACCEPT, RELEASE])
        pending_id = len(self.said)
        given = [Acknowledgement(one.first, one.last, [kind])]
        try:
            self.partition.acknowledge(member, given, self.now, pending_id)
        except ApiError:
            return  # the lock has expired, or the leader is another one
        self.said[pending_id] = (member, one.first, one.last, kind)

    def write(self) -> None:
        change = self.partition.next_write()
        if change is None:
            return
        match self.chance.randrange(6):
            case 0:  # the request is lost
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            case 1:  # the answer is lost
                self.adopt(self.coordinator.write(KEY, change, self.at()))
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            case _:
                answer = self.adopt(self.coordinator.write(KEY, change, self.at())).answer
                assert answer is not None
                error = answer.error
        for outcome in self.partition.written(error, self.now):
            assert isinstance(outcome.pending_id, int)
            _, first, last, kind = self.said[outcome.pending_id]
            if outcome.error is ErrorCode.NONE and kind == ACCEPT:
                self.accepted.update(range(first, last + 1))

    def expire(self) -> None:
        self.now += 100
        self.partition.expire(self.now)

    def lose_member(self) -> None:
        member = self.chance.choice("abc")
        self.held.pop(member, None)
        self.partition.release(member, ReturnReason.MEMBER_LOST)

    def change_leader(self) -> None:
        if self.chance.random() < 0.4:
            former, self.leader_epoch = self.partition, self.leader_epoch + 1
            change = former.next_write()
            if change is None:
                self.check_that_nobody_was_misled()
            self.partition = self.new_leader()
            self.held.clear()
            if change is not None:
                late = self.coordinator.write(KEY, change, self.at()).answer
                assert late is not None
                assert late.error is ErrorCode.FENCED_LEADER_EPOCH

    def check_that_nobody_was_misled(self) -> None:
        """A leader with nothing left to write has the share coordinator know what members know: who
        was told an error gets the record again, also from the next leader.
        """
        for run in self.coordinator.states[KEY].batches:
            if run.state == ACKNOWLEDGED:
                assert self.accepted.issuperset(range(run.first, run.last + 1)), "lost"

    def restart_coordinator(self) -> None:
        before = self.coordinator.states
        self.coordinator = self.new_coordinator()
        assert self.coordinator.states == before

    def finish(self) -> None:
        """From now on all goes well: everything that is left is accepted."""
        self.chance = random.Random(0)
        for member in [*self.held]:
            self.held.pop(member)
        for _ in range(400):
            self.now += 100
            self.partition.expire(self.now)
            offset = self.partition.records.next_offset()
            if offset is not None and offset < self.end:
                offer = Offer(offset, [*self.batches(offset)])
                for one in self.partition.acquire("z", offer, Wanted(40), self.now):
                    given = [Acknowledgement(one.first, one.last, [ACCEPT])]
                    self.partition.acknowledge("z", given, self.now, None)
            while (change := self.partition.next_write()) is not None:
                answer = self.adopt(self.coordinator.write(KEY, change, self.at())).answer
                assert answer is not None
                self.partition.written(answer.error, self.now)
            if self.partition.records.start == self.end:
                return
        raise AssertionError(f"stuck at {self.partition.records.start}")


@pytest.mark.parametrize("seed", range(25))
def test_what_was_accepted_is_never_delivered_again_and_the_rest_always(seed: int) -> None:
    history = History(seed)
    history.run(250)
    history.finish()
    available = {
        at
        for run in history.coordinator.states[KEY].batches
        for at in range(run.first, run.last + 1)
        if run.state == DeliveryState.AVAILABLE
    }
    assert not available, "nothing is left to deliver"
