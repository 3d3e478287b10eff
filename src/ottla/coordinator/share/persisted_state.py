"""What is written of a partition in a share group, and how changes are merged into it.

Kafka's counterparts: `ShareGroupOffset`, `PersisterStateBatchCombiner`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from ottla.base.ids import Uuid
from ottla.coordinator.share.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    WrittenBatch,
)
from ottla.coordinator.share.records_in_flight import FIRST, DeliveryState, StateBatch

UUID_SIZE: Final = 16

UNCHANGED: Final = -1
"""A start offset of an update, or a number of complete deliveries that is not known."""

LAST: Final = attrgetter("last")

FINAL: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text by which its share coordinator is found: `group:topic id:partition`, with the id
        in base64 as Kafka prints it.
        """
        topic = urlsafe_b64encode(self.topic_id).rstrip(b"=").decode()
        return f"{self.group_id}:{topic}:{self.partition}"


def parse_key(text: str) -> SharePartitionKey:
    """Reads what `coordinator_key` writes; raises `ValueError`."""
    group_id, topic, partition = text.rsplit(":", 2)
    topic_id = urlsafe_b64decode(topic + "==")
    key = SharePartitionKey(group_id, Uuid(topic_id), int(partition))
    if len(topic_id) != UUID_SIZE or key.partition < 0 or not group_id:
        raise ValueError(text)
    return key


class PersistedState(NamedTuple):
    """The written state of a partition. `update_count` is the number of updates since the last
    snapshot, which was written at `snapshot_ms` and stands at `snapshot_offset` of the partition of
    `__share_group_state`.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()
    complete_count: int = UNCHANGED
    snapshot_epoch: int = 0
    create_ms: int = 0
    snapshot_ms: int = 0
    snapshot_offset: int = 0
    update_count: int = 0

    def summary(self) -> "PersistedState":
        """The state with its start moved over the final records there, as its leader will move it:
        a start is written with the next change.
        """
        start = self.start_offset
        for batch in self.batches:
            is_final = batch.state in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
            if batch.first > start or not is_final or start < 0:
                break
            start = max(start, batch.last + 1)
        moved_count = start - self.start_offset
        if not moved_count:
            return self
        count = max(0, self.complete_count - moved_count)
        return self._replace(start_offset=start, complete_count=count)

    def merged(
        self,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
    ) -> "PersistedState":
        """The state after an update.

        Leaders count what was final before it. What it makes final is counted here, or a group that
        has accepted its last record would seem to be behind until its next.
        """
        start = self.start_offset if start_offset == UNCHANGED else start_offset
        merged = merge(self.batches, batches, start)
        final = sum(one.last + 1 - one.first for one in merged if one.state in FINAL)
        return self._replace(
            leader_epoch=max(self.leader_epoch, leader_epoch),
            start_offset=start,
            complete_count=max(complete_count, final or UNCHANGED),
            batches=merged,
            update_count=self.update_count + 1,
        )


def merge(
    known: Sequence[StateBatch], changed: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """The states of offsets from the start on: the changed ones in place of those known, and
    neighbours in the same state as one. Both are in order of offsets.
    """
    merged = list(known)
    for batch in changed:
        begin = bisect_left(merged, batch.first, key=LAST)
        end = bisect_right(merged, batch.last, key=FIRST)
        over = merged[begin:end]
        left = [one._replace(last=batch.first - 1) for one in over[:1] if one.first < batch.first]
        right = [one._replace(first=batch.last + 1) for one in over[-1:] if one.last > batch.last]
        merged[begin:end] = [*left, batch, *right]
    found: list[StateBatch] = []
    for batch in merged:
        if batch.last < start_offset:
            continue
        first = max(batch.first, start_offset)
        before = found[-1] if found else None
        if before is not None and before[1:] == (first - 1, *batch[2:]):
            found[-1] = before._replace(last=batch.last)
        else:
            found.append(batch._replace(first=first))
    return tuple(found)


# Records


def snapshot_record(
    key: SharePartitionKey, state: PersistedState, now_ms: int
) -> tuple[ShareSnapshotKey, ShareSnapshotValue]:
    """A snapshot of the state, with the next epoch of snapshots."""
    return snapshot_key(key), ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        create_timestamp_ms=state.create_ms or now_ms,
        write_timestamp_ms=now_ms,
        state_batches=list(map(_written, state.batches)),
        delivery_complete_count=state.complete_count,
    )


def snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def update_record(
    key: SharePartitionKey,
    snapshot_epoch: int,
    change: tuple[int, int, int, Sequence[StateBatch]],
) -> tuple[ShareUpdateKey, ShareUpdateValue]:
    """An update; `change` are the arguments of `PersistedState.merged`."""
    leader_epoch, start_offset, complete_count, batches = change
    return ShareUpdateKey(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    ), ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        state_batches=list(map(_written, batches)),
        delivery_complete_count=complete_count,
    )


def state_of_snapshot(value: ShareSnapshotValue, record_offset: int) -> PersistedState:
    return PersistedState(
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        batches=tuple(map(_read, value.state_batches)),
        complete_count=value.delivery_complete_count,
        snapshot_epoch=value.snapshot_epoch,
        create_ms=value.create_timestamp_ms,
        snapshot_ms=value.write_timestamp_ms,
        snapshot_offset=record_offset,
    )


def updated(state: PersistedState, value: ShareUpdateValue) -> PersistedState:
    batches = list(map(_read, value.state_batches))
    return state.merged(
        value.leader_epoch, value.start_offset, value.delivery_complete_count, batches
    )


def _written(batch: StateBatch) -> WrittenBatch:
    return WrittenBatch(
        first_offset=batch.first,
        last_offset=batch.last,
        delivery_state=batch.state,
        delivery_count=batch.delivery_count,
    )


def _read(batch: WrittenBatch) -> StateBatch:
    return StateBatch(
        batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
    )
