"""The follower's logic: its next request to the leader, and the handling of responses.

Kafka's counterparts: `AbstractFetcherThread`, `ReplicaFetcherThread`, `PartitionFetchState`.
"""

from collections.abc import Callable
from enum import Enum, auto

from ottla.base.error_codes import ErrorCode
from ottla.base.fetching_session import NOT_NAMED
from ottla.broker.replication.effects import (
    AppendAsFollower,
    BuildFromTier,
    Effect,
    RaiseLogStart,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.broker.replication.fetches import (
    NO_EPOCH,
    NO_OFFSET,
    AskEpochEnd,
    AskLocalStart,
    AskOffsets,
    EpochEnded,
    Fetch,
    Fetched,
    FollowerRequest,
    LeaderAnswer,
    LocalStart,
    Offsets,
)
from ottla.broker.replication.local_replica import LocalReplica
from ottla.broker.replication.replica_log import EpochEnd


class Phase(Enum):
    TRUNCATING = auto()
    """Asks the leader where the latest epoch ended, before anything is fetched."""
    FETCHING = auto()
    OUT_OF_RANGE = auto()
    """The leader's log does not contain the offset: asks where its log begins and ends."""
    IN_TIER = auto()
    """The leader has the offset only in the tier: asks where its local segments begin, and perhaps
    where the tier ends.
    """
    BEFORE_LOCAL_START = auto()
    """Asks where the epoch before that of the local start ended."""
    BUILDING = auto()
    """The log is being begun with what the tier has: nothing is requested meanwhile."""
    FENCED = auto()
    """The leader has a later epoch: waits for the controller's next order."""


class Following:
    """`truncates_on_fetch`: responses to fetches report where the logs diverge (2.7).
    `starts_after_tier`: see `ReplicaOptions`.
    """

    def __init__(
        self,
        local: LocalReplica,
        leader: int,
        leader_epoch: int,
        *,
        truncates_on_fetch: bool,
        starts_after_tier: Callable[[], bool],
    ) -> None:
        self.local = local
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCHING
        self._truncates_on_fetch = truncates_on_fetch
        self._starts_after_tier = starts_after_tier
        self._has_failed_to_build = False
        self._is_out_of_range = False
        """Whether the leader's log does not have the offset where this one could begin, nor the
        tier.
        """
        self._leaders_start = NO_OFFSET
        self._local_start: LocalStart | None = None

    def begin(self) -> list[Effect]:
        """A log without leader epochs cannot be compared with the leader's: it is truncated to the
        high watermark.
        """
        log = self.local.log
        is_empty = log.log_end_offset == log.local_start_offset
        if log.latest_epoch is None and is_empty and log.log_start_offset < log.log_end_offset:
            # A crash has interrupted the building from the tier before its last step.
            return self._start_again_at(log.log_start_offset)
        if log.latest_epoch is None:
            return self._truncate_to(self.local.high_watermark)
        if not self._truncates_on_fetch:
            self.phase = Phase.TRUNCATING
        return []

    def next_request(
        self, broker_epoch: int, *, names_high_watermark: bool = False
    ) -> FollowerRequest | None:
        local, log = self.local, self.local.log
        match self.phase:
            case Phase.FENCED | Phase.BUILDING:
                return None
            case Phase.IN_TIER:
                return AskLocalStart(
                    partition=local.partition,
                    leader_epoch=self.leader_epoch,
                    log_start_offset=self._leaders_start,
                    with_tier_end=self._may_start_after_tier,
                )
            case Phase.BEFORE_LOCAL_START:
                assert self._local_start is not None
                return AskEpochEnd(
                    partition=local.partition,
                    leader_epoch=self.leader_epoch,
                    epoch=self._local_start.epoch - 1,
                )
            case Phase.OUT_OF_RANGE:
                return AskOffsets(partition=local.partition, leader_epoch=self.leader_epoch)
            case Phase.TRUNCATING if log.latest_epoch is not None:
                return AskEpochEnd(
                    partition=local.partition,
                    leader_epoch=self.leader_epoch,
                    epoch=log.latest_epoch,
                )
            case _:
                self.phase = Phase.FETCHING
                has_epoch = self._truncates_on_fetch and log.latest_epoch is not None
                return Fetch(
                    partition=local.partition,
                    follower=local.broker_id,
                    leader_epoch=self.leader_epoch,
                    fetch_offset=log.log_end_offset,
                    last_fetched_epoch=log.latest_epoch or 0 if has_epoch else NO_EPOCH,
                    log_start_offset=log.log_start_offset,
                    broker_epoch=broker_epoch,
                    high_watermark=local.high_watermark if names_high_watermark else NOT_NAMED,
                )

    def take(self, answer: LeaderAnswer) -> list[Effect]:
        """Ignores late responses: those to a request of another epoch or phase."""
        if answer.leader_epoch != self.leader_epoch:
            return []
        match answer:
            case Fetched() if self.phase is Phase.FETCHING:
                return self._take_fetched(answer)
            case EpochEnded() if self.phase is Phase.TRUNCATING:
                return self._take_epoch_end(answer)
            case Offsets() if self.phase is Phase.OUT_OF_RANGE:
                return self._take_offsets(answer)
            case LocalStart() if self.phase is Phase.IN_TIER:
                return self._take_local_start(answer)
            case EpochEnded() if self.phase is Phase.BEFORE_LOCAL_START:
                return self._take_epoch_before(answer)
            case _:
                return []

    def _take_fetched(self, fetched: Fetched) -> list[Effect]:
        if fetched.fetch_offset != self.local.log.log_end_offset:
            return []
        match fetched.error:
            case ErrorCode.NONE if fetched.diverging is not None:
                return self._diverge(fetched.diverging)
            case ErrorCode.NONE:
                return [AppendAsFollower(self.local.partition, fetched)]
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                self._leaders_start = NO_OFFSET
                self._is_out_of_range = self._may_start_after_tier
                self.phase = Phase.IN_TIER if self._is_out_of_range else Phase.OUT_OF_RANGE
            case ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                self._leaders_start, self._is_out_of_range = fetched.log_start_offset, False
                self.phase = Phase.IN_TIER
            case error:
                self._failed(error)
        return []

    def appended(self, fetched: Fetched) -> list[Effect]:
        """Called after the append. Records are committed up to the leader's high watermark, as far
        as the log reaches.
        """
        local = self.local
        effects = local.raise_high_watermark(min(fetched.high_watermark, local.log.log_end_offset))
        # Uncommitted records stay, even if the leader has deleted them.
        log_start = min(fetched.log_start_offset, local.high_watermark)
        if log_start > local.log.log_start_offset:
            effects.append(RaiseLogStart(local.partition, log_start))
        return effects

    def _take_epoch_end(self, answer: EpochEnded) -> list[Effect]:
        if answer.error is not ErrorCode.NONE:
            self._failed(answer.error)
            return []
        if answer.epoch != self.local.log.latest_epoch:
            return []
        if answer.end is None:
            # The leader knows no epochs: up to the high watermark the logs are equal.
            self.phase = Phase.FETCHING
            return self._truncate_to(self.local.high_watermark)
        return self._diverge(answer.end)

    def _diverge(self, leaders: EpochEnd) -> list[Effect]:
        """Truncates to where the logs diverge. If this log does not have the leader's epoch,
        truncates to the end of an earlier epoch and asks again (KIP-279).
        """
        mine = self.local.log.end_offset_for(leaders.epoch)
        if mine is None:
            end, is_done = leaders.end_offset, True
        elif mine.epoch != leaders.epoch:
            end, is_done = mine.end_offset, False
        else:
            end, is_done = min(mine.end_offset, leaders.end_offset), True
        start = self.local.log.log_start_offset
        if end < start:
            # No record here is in the leader's log, which began later until the leader crashed.
            # Deleted records stay deleted and committed ones committed; Kafka truncates to `end`.
            return self._start_again_at(start)
        if is_done:
            self.phase = Phase.FETCHING
        return self._truncate_to(end)

    def _take_offsets(self, answer: Offsets) -> list[Effect]:
        """Handles an offset outside the leader's log. Either that log ends earlier, after an
        unclean election, or it begins later, after deleting old records (KIP-107).
        """
        if answer.error is not ErrorCode.NONE:
            self._failed(answer.error)
            return []
        local, end = self.local, self.local.log.log_end_offset
        self.phase = Phase.FETCHING
        if answer.log_end_offset < end:
            return self._truncate_to(answer.log_end_offset)
        if answer.log_start_offset > end:
            local.high_watermark = answer.log_start_offset
            return [TruncateFullyAndStartAt(local.partition, answer.log_start_offset)]
        return []

    # From the tier (KIP-405). Kafka: `TierStateMachine.buildRemoteLogAuxState`

    @property
    def _may_start_after_tier(self) -> bool:
        """Kafka: `ReplicaFetcherThread.shouldFetchFromLastTieredOffset`."""
        log = self.local.log
        is_empty = log.log_end_offset == 0
        return (
            is_empty and log.has_tier and not self._has_failed_to_build
        ) and self._starts_after_tier()

    def _take_local_start(self, answer: LocalStart) -> list[Effect]:
        """The offset before the local start is in the tier, with the same leader epoch or the one
        before: the first leader epoch has none before it.

        Of the end of the tier the leader knows the epoch. While it does not know the end, the log
        begins at the local start; Kafka asks until it does, also where nothing is copied any more.
        """
        if answer.error is not ErrorCode.NONE:
            self.phase = Phase.FETCHING
            self._failed(answer.error)
            return []
        tier_end = answer.tier_end
        if tier_end is not None and tier_end.end_offset > answer.offset:
            return self._build(tier_end.end_offset, tier_end.epoch, answer.log_start_offset)
        if self._is_out_of_range:
            if answer.log_start_offset > self.local.log.log_end_offset:
                return self._start_again_at(answer.log_start_offset)
            self.phase = Phase.FETCHING
            return []
        if answer.offset <= max(answer.log_start_offset, self.local.log.log_end_offset):
            self.phase = Phase.FETCHING  # local segments have come back to the leader meanwhile
            return []
        self._local_start = answer
        if answer.epoch > 0:
            self.phase = Phase.BEFORE_LOCAL_START
            return []
        return self._build(answer.offset, answer.epoch, answer.log_start_offset)

    def _take_epoch_before(self, answer: EpochEnded) -> list[Effect]:
        start = self._local_start
        assert start is not None
        if answer.error is not ErrorCode.NONE:
            self.phase = Phase.FETCHING
            self._failed(answer.error)
            return []
        end = answer.end
        is_before = end is not None and end.end_offset > start.offset - 1
        epoch = end.epoch if is_before and end is not None else start.epoch
        return self._build(start.offset, epoch, start.log_start_offset)

    def _build(self, start_offset: int, epoch: int, log_start_offset: int) -> list[Effect]:
        self.phase = Phase.BUILDING
        return [
            BuildFromTier(
                partition=self.local.partition,
                leader_epoch=self.leader_epoch,
                start_offset=start_offset,
                epoch=epoch,
                log_start_offset=log_start_offset,
            )
        ]

    def built(self) -> None:
        """Fetches again, from where the log ends now: if it was not built, the leader answers as
        before.
        """
        if self.phase is Phase.BUILDING:
            self.phase = Phase.FETCHING
            # The next time as without KIP-1023: the leader's end may be of uploads that are gone.
            self._has_failed_to_build = self.local.log.log_end_offset == 0
            self.local.high_watermark = min(
                max(self.local.high_watermark, self.local.log.local_start_offset),
                self.local.log.log_end_offset,
            )

    def _start_again_at(self, offset: int) -> list[Effect]:
        self.phase = Phase.FETCHING
        self.local.high_watermark = offset
        return [TruncateFullyAndStartAt(self.local.partition, offset)]

    def _truncate_to(self, offset: int) -> list[Effect]:
        """Truncates even if no record is removed. An epoch without records at the log end, left by
        a leader that appended nothing, would diverge from the leader's log forever.
        """
        local = self.local
        offset = min(offset, local.log.log_end_offset)
        local.high_watermark = min(local.high_watermark, offset)
        return [TruncateTo(local.partition, offset)]

    def _failed(self, error: ErrorCode) -> None:
        """Handles an error of the leader. Except for a fenced epoch, the request is repeated: the
        error ends once the leader has received its order too.
        """
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.phase = Phase.FENCED
