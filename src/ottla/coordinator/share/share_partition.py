"""A partition in a share group, as its leader has it: the records in flight, and their state at the
share coordinator.

The leader reads the state first, then delivers; what members say counts once it is written. The
caller carries requests to the share coordinator: `wants_state`, then `loaded` or `failed`;
`next_write`, then `written` with the answer. One write is under way at a time; what comes meanwhile
goes into the next one together. Kafka's counterpart: `SharePartition`.
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.share.coordinator import StateWrite
from ottla.coordinator.share.persisted_state import PersistedState, merge
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    AcquiredRange,
    Limits,
    Offer,
    Offsets,
    RecordsInFlight,
    ReturnReason,
    StateBatch,
    Transition,
    Wanted,
)


class Phase(Enum):
    UNKNOWN = "its state was not read yet"
    READING = "its state is being read"
    ACTIVE = "it delivers"
    FENCED = "another leader has taken over, or its state was begun anew"


FENCING: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})

UNSURE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""With these it is not known whether the write was written, now or when it was tried first."""

COORDINATOR_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a member is told instead of what the share coordinator said."""


class Said(NamedTuple):
    """What members, or their absence, say of records; `pending_id` awaits the outcome."""

    transition: Transition
    pending_id: Hashable | None
    is_in_effect: bool = False
    """A lock that has expired, which holds whether or not it can be written."""


class Outcome(NamedTuple):
    pending_id: Hashable
    error: ErrorCode


class SharePartition:
    """`records` is for reading only; `is_fetching` belongs to the caller: one fetch at a time."""

    def __init__(self, leader_epoch: int, limits: Limits) -> None:
        self.phase = Phase.UNKNOWN
        self.leader_epoch = leader_epoch
        self.records = RecordsInFlight(0, limits)
        self.is_fetching = False
        self._state_epoch = -1
        """-1 before it was read."""
        self._said: list[Said] = []
        self._under_way: list[Said] = []

    # Its state

    def wants_state(self) -> bool:
        """Whether the caller is to read the state now; it is not asked for twice."""
        if self.phase is not Phase.UNKNOWN:
            return False
        self.phase = Phase.READING
        return True

    def doubt(self) -> None:
        """Has the state read again before more is delivered: it may have been begun anew while
        nobody was there.
        """
        if self.phase is Phase.ACTIVE and not self._said and not self._under_way:
            self.phase = Phase.UNKNOWN

    def loaded(self, state: PersistedState, start_offset: int, now_ms: float) -> None:
        """The state was read; `start_offset` is used if nothing was ever delivered."""
        start = start_offset if state.start_offset < 0 else state.start_offset
        if state.state_epoch == self._state_epoch and start <= self.records.start:
            self.phase = Phase.ACTIVE  # It was in doubt, and is as this leader has written it.
            return
        self._state_epoch = state.state_epoch
        self.records = RecordsInFlight(start, self.records.limits, state.batches, now_ms)
        self.phase = Phase.ACTIVE

    def failed(self) -> None:
        """The state could not be read; the next request may try again."""
        self.phase = Phase.UNKNOWN

    def check(self) -> None:
        """Raises `ApiError` unless records are delivered."""
        if self.phase is Phase.FENCED:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.phase is not Phase.ACTIVE:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Its state is not read yet.")

    def configure(self, limits: Limits) -> None:
        self.records.limits = limits

    # Members

    def acquire(
        self,
        member: str,
        offer: Offer,
        wanted: Wanted,
        now_ms: float,
        deferred: Sequence[Offsets] = (),
    ) -> list[AcquiredRange]:
        """Gives available records to a member, but for those that are `deferred`; raises
        `ApiError`.
        """
        self.check()
        if deferred:
            return self.records.acquire_but(deferred, member, offer, wanted, now_ms)
        return self.records.acquire(member, offer, wanted, now_ms)

    def acknowledge(
        self, member: str, given: Sequence[Acknowledgement], now_ms: float, pending_id: Hashable
    ) -> Outcome | None:
        """What a member says of its records: the outcome, or `None` if it comes once it is written,
        with the pending id. Raises `ApiError`.
        """
        self.check()
        transition = self.records.acknowledge(member, given, now_ms)
        if not transition:
            return Outcome(pending_id, ErrorCode.NONE)
        self._said.append(Said(transition, pending_id))
        return None

    def release(
        self, member: str, reason: ReturnReason, pending_id: Hashable | None = None
    ) -> bool:
        """Takes back what a member has; returns whether that is to be written."""
        if self.phase is not Phase.ACTIVE:
            return False
        transition = self.records.release(member, reason)
        if transition:
            self._said.append(Said(transition, pending_id))
        return bool(transition)

    def expire(self, now_ms: float) -> bool:
        """Takes back what was locked for too long; returns whether there was any."""
        if self.phase is not Phase.ACTIVE:
            return False
        transition = self.records.expire(now_ms)
        if transition:
            self._said.append(Said(transition, None, is_in_effect=True))
        return bool(transition)

    def archived_as_dead_letters(self, first: int, last: int) -> None:
        """The copies of records are in the dead letter topic, or cannot be."""
        if self.phase is Phase.ACTIVE:
            transition = self.records.archived_as_dead_letters(first, last)
            if transition:
                self._said.append(Said(transition, None))

    # Writing

    def next_write(self) -> StateWrite | None:
        """What is to be written now: nothing while a write is under way."""
        if self._under_way or not self._said or self.phase is not Phase.ACTIVE:
            return None
        self._under_way, self._said = self._said, []
        batches: tuple[StateBatch, ...] = ()
        complete_count = self.records.complete_count
        for said in self._under_way:
            batches = merge(batches, said.transition.batches, 0)
            complete_count += said.transition.final_count
        return StateWrite(
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.records.start,
            batches=batches,
            complete_count=complete_count,
        )

    def written(self, error: ErrorCode, now_ms: float) -> list[Outcome]:
        """The answer to the write: its states hold now, or are as before."""
        under_way, self._under_way = self._under_way, []
        told = COORDINATOR_ERRORS.get(error, error)
        outcomes = self._settle(under_way, told, now_ms, is_written=error is ErrorCode.NONE)
        if error in FENCING:
            outcomes += self.fence(now_ms)
        elif error in UNSURE and under_way:
            self._said.insert(0, _taken_back(under_way))
        return outcomes

    def fence(self, now_ms: float) -> list[Outcome]:
        """This broker leads no more, or not with this state: nothing is written any more."""
        if self.phase is Phase.ACTIVE:
            self.phase = Phase.FENCED
        said, self._said = self._said, []
        return self._settle(said, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms, is_written=False)

    def _settle(
        self, some: Sequence[Said], error: ErrorCode, now_ms: float, *, is_written: bool
    ) -> list[Outcome]:
        for said in some:
            if said.is_in_effect:
                continue
            if is_written:
                self.records.commit(said.transition, now_ms)
            else:
                self.records.roll_back(said.transition)
        return [Outcome(said.pending_id, error) for said in some if said.pending_id is not None]


def _taken_back(some: Sequence[Said]) -> Said:
    """What is written next where a write may have been written whose members were told an error:
    otherwise the next leader would take for final what they were not told is final. Differs from
    Kafka, which writes nothing.
    """
    batches: tuple[StateBatch, ...] = ()
    for said in some:
        known = said.transition.batches if said.is_in_effect else said.transition.undone()
        batches = merge(batches, known, 0)
    transition = Transition([])
    transition.batches += batches
    return Said(transition, None, is_in_effect=True)
