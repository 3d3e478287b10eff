"""The share coordinator: a machine that keeps what leaders of partitions write of share groups.

Operations take values and a time, and return a `Decision` without changing state. The caller
appends its records to `__share_group_state`, replays them, and only then responds. At a start it
replays the log.

The topic is not compacted: what is before the first needed offset may be deleted, and `cold` writes
again what holds it back. Kafka's counterpart: `ShareCoordinatorShard`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, NamedTuple, Self

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.timestamps import Timestamps
from ottla.base.turns import parts_of
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.coordinator.decision import Decision, Draft
from ottla.coordinator.share.persisted_state import (
    UNCHANGED,
    PersistedState,
    SharePartitionKey,
    snapshot_key,
    snapshot_record,
    state_of_snapshot,
    update_record,
    updated,
)
from ottla.coordinator.share.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch

UNINITIALIZED: Final = PersistedState(state_epoch=0, leader_epoch=0, start_offset=-1)
WRITTEN_STATES: Final = frozenset(DeliveryState) - {DeliveryState.ACQUIRED}


class ShareCoordinatorConfig(NamedTuple):
    """`share.coordinator.snapshot.update.records.per.snapshot` and
    `share.coordinator.cold.partition.snapshot.interval.ms`.
    """

    updates_per_snapshot: int = 500
    cold_snapshot_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateAnswer:
    """The result for one partition; `state` is what was read."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: PersistedState = UNINITIALIZED

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


class StateWrite(NamedTuple):
    """What a leader writes of a partition; a start offset of -1 is unchanged."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]
    complete_count: int = UNCHANGED


Answered = Decision[ShareStateAnswer]


class ShareCoordinatorShard:
    """`states` is read-only for callers. `exists` tells whether a partition is in the metadata."""

    def __init__(
        self, config: ShareCoordinatorConfig, exists: Callable[[SharePartitionKey], bool]
    ) -> None:
        self.states: dict[SharePartitionKey, PersistedState] = {}
        self._config = config
        self._exists = exists

    # Records

    def replay(self, key: Message, value: Message | None, record_offset: int) -> None:
        """Applies a record of `__share_group_state`; an update without its snapshot is ignored, as
        one whose beginning was deleted.
        """
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
        its = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        known = self.states.get(its)
        if value is None:
            self.states.pop(its, None)
        elif isinstance(value, ShareSnapshotValue):
            self.states[its] = state_of_snapshot(value, record_offset)
        elif known is not None and isinstance(value, ShareUpdateValue):
            self.states[its] = updated(known, value)

    def loaded_in_steps(self, _: Callable[[], Timestamps]) -> Iterator[None]:
        """Nothing follows from what was replayed: no deadline begins, and nobody is told."""
        return iter(())

    def first_needed_in_steps(self, end: int) -> Generator[None, None, int]:
        """The offset before which records may be deleted; `end` is that of the log as the states
        are now.
        """
        first = end
        for part in parts_of(list(self.states.values())):
            first = min(first, *(one.snapshot_offset for one in part))
            yield
        return first

    # Operations

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, at: Timestamps
    ) -> Answered:
        """Begins the state anew; a start of -1 leaves it to the leader of the partition."""
        known = self.states.get(key)
        refusal = self._refusal(key) or _invalid_if(
            state_epoch < 0 or start_offset < -1, "An epoch or an offset is negative."
        )
        if refusal is None and known is not None and state_epoch < known.state_epoch:
            refusal = ShareStateAnswer(error=ErrorCode.FENCED_STATE_EPOCH)
        draft = Draft(key.coordinator_key, at)
        if refusal is not None:
            return draft.decide(refusal)
        state = PersistedState(state_epoch, 0, start_offset, create_ms=at.now_ms)
        if known is not None:
            state = state._replace(
                leader_epoch=known.leader_epoch, snapshot_epoch=known.snapshot_epoch
            )
        draft.record(*snapshot_record(key, state, at.now_ms))
        return draft.decide(ShareStateAnswer())

    def read(self, key: SharePartitionKey, leader_epoch: int, at: Timestamps) -> Answered:
        """The state, for a leader, which fences those before it: a higher epoch is written."""
        draft = Draft(key.coordinator_key, at)
        refusal = self._refusal(key) or self._refusal_of_leader(key, leader_epoch)
        if refusal is not None:
            return draft.decide(refusal)
        known = self.states[key]
        if leader_epoch > known.leader_epoch:
            change = StateWrite(
                known.state_epoch, leader_epoch, UNCHANGED, (), known.complete_count
            )
            self._write(key, change, draft)
        return draft.decide(ShareStateAnswer(state=known))

    def write(self, key: SharePartitionKey, change: StateWrite, at: Timestamps) -> Answered:
        """Merges what a leader says into the state."""
        draft = Draft(key.coordinator_key, at)
        refusal = (
            self._refusal(key)
            or _invalid_if(not is_valid(change), "The states of the batches are not valid.")
            or self._refusal_of_leader(key, change.leader_epoch)
        )
        if refusal is None and change.state_epoch < self.states[key].state_epoch:
            refusal = ShareStateAnswer(error=ErrorCode.FENCED_STATE_EPOCH)
        if refusal is None:
            self._write(key, change, draft)
        return draft.decide(refusal or ShareStateAnswer())

    def _write(self, key: SharePartitionKey, change: StateWrite, draft: Draft) -> None:
        known = self.states[key]
        arguments = (
            change.leader_epoch,
            change.start_offset,
            change.complete_count,
            change.batches,
        )
        is_new = change.state_epoch > known.state_epoch
        if is_new or known.update_count >= self._config.updates_per_snapshot:
            state = known.merged(*arguments)._replace(state_epoch=change.state_epoch)
            draft.record(*snapshot_record(key, state, draft.at.now_ms))
        else:
            draft.record(*update_record(key, known.snapshot_epoch, arguments))

    def summary(self, key: SharePartitionKey) -> ShareStateAnswer:
        """The state for a group coordinator, which leads nothing; without one its start is -1."""
        state = self.states.get(key, UNINITIALIZED)
        return self._refusal(key) or ShareStateAnswer(state=state.summary())

    def delete(self, key: SharePartitionKey, at: Timestamps) -> Answered:
        """Deletes a state; there may be none."""
        draft = Draft(key.coordinator_key, at)
        refusal = None if key in self.states else self._refusal(key)
        if key in self.states:
            draft.record(snapshot_key(key), None)
        return draft.decide(refusal or ShareStateAnswer())

    def cold(self, at: Timestamps) -> Iterator[Answered | None]:
        """Snapshots of what has not had one for long, so that older records can be deleted; and the
        end of states of partitions that are gone. `None` where only some were looked at.
        """
        for part in parts_of(list(self.states.items())):
            for key, state in part:
                if self.states.get(key) is not state:
                    continue
                draft = Draft(key.coordinator_key, at)
                if not self._exists(key):
                    draft.record(snapshot_key(key), None)
                elif at.now_ms - state.snapshot_ms >= self._config.cold_snapshot_ms:
                    draft.record(*snapshot_record(key, state, at.now_ms))
                else:
                    continue
                yield draft.decide(ShareStateAnswer())
            yield None

    # Refusals

    def _refusal(self, key: SharePartitionKey) -> ShareStateAnswer | None:
        if key.topic_id == ZERO_UUID or key.partition < 0 or not key.group_id:
            return _invalid_if(True, "A group, the id of a topic and a partition are needed.")
        if not self._exists(key):
            return ShareStateAnswer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _refusal_of_leader(
        self, key: SharePartitionKey, leader_epoch: int
    ) -> ShareStateAnswer | None:
        known = self.states.get(key)
        if known is None:
            return _invalid_if(True, "The state of the partition was not initialized.")
        if leader_epoch < known.leader_epoch:
            return ShareStateAnswer(error=ErrorCode.FENCED_LEADER_EPOCH)
        return None


def is_valid(change: StateWrite) -> bool:
    """Whether the batches are in order, in states that are written."""
    end = 0
    for batch in change.batches:
        if not end <= batch.first <= batch.last or batch.delivery_count < 0:
            return False
        if batch.state not in WRITTEN_STATES:
            return False
        end = batch.last + 1
    return change.state_epoch >= 0 and change.leader_epoch >= 0 and change.start_offset >= -1


def _invalid_if(is_invalid: bool, message: str) -> ShareStateAnswer | None:
    if not is_invalid:
        return None
    return ShareStateAnswer(error=ErrorCode.INVALID_REQUEST, message=message)
