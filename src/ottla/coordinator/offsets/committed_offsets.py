"""The committed offsets of all groups, from the record kinds 0 and 1.

Shared by classic and consumer groups. Offsets committed in a transaction are pending until its
marker; an offset that was written after them is kept, and a tombstone that was written after them
removes them. So the records of a partition give the same offsets when they are appended, and when
they are read again. Kafka's counterpart: `OffsetMetadataManager`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns
from ottla.base.values import dataclass
from ottla.config.setting import INT64_MAX
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue

NO_LEADER_EPOCH = -1
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """`record_offset` is the offset of the commit's record in `__consumer_offsets`.

    `expire_ms` is set for old clients that choose a retention time; otherwise the broker's
    retention applies.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_ms: int
    expire_ms: int | None = None
    record_offset: int

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> "CommittedOffset":
        expire_ms = value.expire_timestamp_ms
        return cls(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_ms=value.commit_timestamp_ms,
            expire_ms=None if expire_ms == -1 else expire_ms,
            record_offset=record_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOffset:
    """An offset to be committed; `commit_ms` is the client's timestamp, if it sent one."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_ms: int | None = None

    def to_record(self, now_ms: int, retention_ms: int | None) -> OffsetCommitValue:
        commit_ms = now_ms if self.commit_ms is None else self.commit_ms
        # Clamped: in Java the sum overflows, and an offset with the longest retention expires at
        # once.
        expire_ms = max(-INT64_MAX, min(INT64_MAX, commit_ms + (retention_ms or 0)))
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp_ms=commit_ms,
            expire_timestamp_ms=-1 if retention_ms is None else expire_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """The committed offset; `is_unstable` while an open transaction may replace it."""

    committed: CommittedOffset | None
    is_unstable: bool = False


Offsets = dict[TopicPartition, CommittedOffset]


class CommittedOffsets:
    """Only `replay`, `end_transaction` and `forget_some` change the offsets."""

    def __init__(self) -> None:
        self._by_group: dict[str, Offsets] = {}
        self._pending: dict[str, dict[int, Offsets]] = {}
        """By group and the producer id of the open transaction; never empty."""
        self._groups_of: dict[int, set[str]] = {}

    # Replay

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Applies a record; with `producer_id` the offset is pending until the transaction ends."""
        where = TopicPartition(key.topic, key.partition)
        if value is None:
            self._forget(key.group, where)
            return
        committed = CommittedOffset.from_record(value, record_offset)
        if producer_id is None:
            self._by_group.setdefault(key.group, {})[where] = committed
        else:
            of_group = self._pending.setdefault(key.group, {})
            of_group.setdefault(producer_id, {})[where] = committed
            self._groups_of.setdefault(producer_id, set()).add(key.group)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Applies or drops the pending offsets of a producer's transaction."""
        for group_id in self._groups_of.pop(producer_id, ()):
            offsets = self._pop_pending(group_id, producer_id)
            if not is_commit:
                continue
            known = self._by_group.setdefault(group_id, {})
            for where, committed in offsets.items():
                earlier = known.get(where)
                if earlier is None or earlier.record_offset < committed.record_offset:
                    known[where] = committed

    def _pop_pending(self, group_id: str, producer_id: int) -> Offsets:
        of_group = self._pending[group_id]
        offsets = of_group.pop(producer_id)
        if not of_group:
            del self._pending[group_id]
        return offsets

    def _forget(self, group_id: str, where: TopicPartition) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop(where, None)
            if not offsets:
                del self._by_group[group_id]
        for producer_id, pending in list(self._pending.get(group_id, {}).items()):
            pending.pop(where, None)
            if not pending:
                self._pop_pending(group_id, producer_id)
                self._groups_of[producer_id].discard(group_id)

    def forget_some(self, count: int) -> bool:
        """Drops `count` groups, which another coordinator has taken over; returns whether more
        remain.
        """
        for _ in range(min(count, len(self._by_group))):
            self._by_group.popitem()
        return bool(self._by_group)

    # Questions

    def __contains__(self, group_id: str) -> bool:
        """Whether the group has committed offsets, including those of open transactions."""
        return group_id in self._by_group or group_id in self._pending

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has committed offsets for the group."""
        return group_id in self._pending

    def group_ids(self) -> Iterator[str]:
        """The groups with committed offsets, including those of open transactions."""
        return iter(dict.fromkeys((*self._by_group, *self._pending)))

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, {})

    def places(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions with an offset of the group now, also one of an open transaction."""
        known = list(self.of(group_id))
        pending = dict.fromkeys(chain.from_iterable(self._pending.get(group_id, {}).values()))
        return chain(known, [one for one in pending if one not in self.of(group_id)])

    def fetch(
        self, group_id: str, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        """The committed offsets of the wanted partitions, or of all partitions if `None`."""
        known = self.of(group_id)
        places = list(known) if wanted is None else wanted
        return {
            where: FetchedOffset(
                committed=known.get(where), is_unstable=self.is_pending(group_id, where)
            )
            for where in in_turns(places)
        }

    def is_pending(self, group_id: str, where: TopicPartition) -> bool:
        """Whether an open transaction has committed an offset for the partition."""
        pending = self._pending.get(group_id)
        return pending is not None and any(where in one for one in pending.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The rule by which offsets of a group expire at `now_ms`.

    Retention starts at `base_ms`, when the group lost its last member, or else at the time of each
    commit (KIP-211). Kafka: `OffsetExpirationConditionImpl`.
    """

    now_ms: int
    retention_ms: int
    base_ms: int | None = None

    def has_expired(self, committed: CommittedOffset) -> bool:
        if committed.expire_ms is not None:
            return committed.expire_ms <= self.now_ms
        base_ms = committed.commit_ms if self.base_ms is None else self.base_ms
        return self.now_ms - base_ms >= self.retention_ms
