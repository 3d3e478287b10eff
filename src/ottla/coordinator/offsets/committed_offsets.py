"""Committed offsets of all groups: what the records of kind 0 and 1 add up to.

Shared by the machines of both group protocols. Offsets of a transaction wait here until its marker
has come; a commit that was written later than they were wins over them. Kafka's counterpart:
`OffsetMetadataManager`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns
from ottla.base.values import dataclass
from ottla.config.setting import INT64_MAX
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue

NO_LEADER_EPOCH = -1
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """`record_offset` is where in `__consumer_offsets` it was written.

    `expire_ms` is what clients of old chose themselves; otherwise the broker's retention counts.
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
    """An offset that somebody commits; `commit_ms` is the client's time, if it sent one."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_ms: int | None = None

    def to_record(self, now_ms: int, retention_ms: int | None) -> OffsetCommitValue:
        commit_ms = now_ms if self.commit_ms is None else self.commit_ms
        # Java's sum overflows, and what was to be kept longest is gone at once.
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
    """What a group has committed; an unstable one may be overtaken by an open transaction."""

    committed: CommittedOffset | None
    is_unstable: bool = False


@dataclass(slots=True)
class _Pending:
    """What one open transaction is about to commit, by group."""

    by_group: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class CommittedOffsets:
    """Changed by `replay` and `end_transaction` alone."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, _Pending] = {}

    # Replay

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Takes in a record; one of a transaction, by its producer's id, waits for the end."""
        where = TopicPartition(key.topic, key.partition)
        if value is None:
            self._forget(key.group, where)
            return
        committed = CommittedOffset.from_record(value, record_offset)
        if producer_id is None:
            self._by_group.setdefault(key.group, {})[where] = committed
        else:
            pending = self._pending.setdefault(producer_id, _Pending())
            pending.by_group.setdefault(key.group, {})[where] = committed

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction has come."""
        pending = self._pending.pop(producer_id, None)
        if pending is None or not is_commit:
            return
        for group_id, offsets in pending.by_group.items():
            known = self._by_group.setdefault(group_id, {})
            for where, committed in offsets.items():
                earlier = known.get(where)
                if earlier is None or earlier.record_offset < committed.record_offset:
                    known[where] = committed

    def _forget(self, group_id: str, where: TopicPartition) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop(where, None)
            if not offsets:
                del self._by_group[group_id]

    def forget_some(self, count: int) -> bool:
        """Forgets some groups, whose offsets another coordinator has; whether there are more."""
        for _ in range(min(count, len(self._by_group))):
            self._by_group.popitem()
        return bool(self._by_group)

    # Questions

    def __contains__(self, group_id: str) -> bool:
        """Whether a group has committed anything, including in a transaction that is still open."""
        return group_id in self._by_group or self.has_pending(group_id)

    def has_pending(self, group_id: str) -> bool:
        """Whether a transaction that is still open is about to commit for it."""
        return any(group_id in pending.by_group for pending in self._pending.values())

    def group_ids(self) -> Iterator[str]:
        """The groups that have committed offsets."""
        return iter(self._by_group)

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, {})

    def fetch(
        self, group_id: str, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        """What a group has committed for some partitions, or for all that it has read."""
        known = self.of(group_id)
        places = list(known) if wanted is None else wanted
        return {
            where: FetchedOffset(
                committed=known.get(where), is_unstable=self._is_unstable(group_id, where)
            )
            for where in in_turns(places)
        }

    def _is_unstable(self, group_id: str, where: TopicPartition) -> bool:
        return any(
            where in pending.by_group.get(group_id, ()) for pending in self._pending.values()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Which offsets of a group are too old at `now_ms`.

    `base_ms` is when the group lost its last member; where there is none, the time of each commit
    counts (KIP-211). Kafka: `OffsetExpirationConditionImpl`.
    """

    now_ms: int
    retention_ms: int
    base_ms: int | None = None

    def has_expired(self, committed: CommittedOffset) -> bool:
        if committed.expire_ms is not None:
            return committed.expire_ms <= self.now_ms
        base_ms = committed.commit_ms if self.base_ms is None else self.base_ms
        return self.now_ms - base_ms >= self.retention_ms
