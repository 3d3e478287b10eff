"""OffsetCommit, OffsetDelete and the expiry of offsets.

Kafka's counterpart: `OffsetMetadataManager`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import Self

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.turns import PART_SIZE
from ottla.base.values import dataclass
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.committed_offsets import CommittedOffsets, Expiry, NewOffset
from ottla.coordinator.offsets.group import Group
from ottla.coordinator.offsets.records import OffsetCommitKey
from ottla.coordinator.requests import MemberClaim

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """An OffsetCommit request.

    `retention_ms` is sent by old clients, which choose how long an offset is kept. `producer` is
    the id and epoch of the transaction in which the offsets are committed.
    """

    claim: MemberClaim
    offsets: Mapping[TopicPartition, NewOffset]
    retention_ms: int | None = None
    producer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErrors:
    """An error code for each partition, and one for the group."""

    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)

    def refused(self, code: ErrorCode) -> Self:
        """The same response, with `code` for the partitions that had no error."""
        return replace(
            self,
            partitions={
                where: known if known else code for where, known in self.partitions.items()
            },
        )


class Commits:
    """Writes records into a draft. A group of `None` has no members, only offsets."""

    def __init__(self, config: GroupCoordinatorConfig, offsets: CommittedOffsets) -> None:
        self._config = config
        self._offsets = offsets

    def commit(
        self, group: Group | None, request: CommitRequest, draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Writes offsets; returns an error code for each partition. Raises `ApiError`."""
        claim = request.claim
        if group is not None:
            group.admit_commit(claim, draft, is_transactional=request.producer is not None)
        elif claim.generation >= 0:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        errors = {}
        for where, new in request.offsets.items():
            errors[where] = ErrorCode.NONE
            if len(new.metadata) > self._config.offset_metadata_max_bytes:
                errors[where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            record = new.to_record(draft.at.now_ms, request.retention_ms)
            draft.record(_offset_key(claim.group_id, where), record)
        return errors

    def delete(
        self, group: Group | None, group_id: str, wanted: Iterable[TopicPartition], draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Deletes offsets of topics that no member reads (KIP-496); raises `ApiError`."""
        self._check_exists(group, group_id)
        if group is not None:
            group.check_offset_deletion()
        known = self._offsets.of(group_id)
        subscribed = _subscribed(group)
        errors = {}
        for where in wanted:
            errors[where] = ErrorCode.NONE
            if subscribed is None or where[0] in subscribed:
                errors[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif where in known or self._offsets.is_pending(group_id, where):
                draft.record(_offset_key(group_id, where), None)
        return errors

    def delete_group(self, group: Group | None, group_id: str, draft: Draft) -> bool:
        """Deletes a group without members and its offsets (KIP-229), at most `PART_SIZE` of them.

        Returns whether the group is deleted; otherwise it has more offsets, and the caller
        continues. Raises `ApiError`.
        """
        self._check_exists(group, group_id)
        if group is not None and not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        places = self._offsets.places(group_id)
        self.forget(group_id, islice(places, PART_SIZE), draft)
        if next(places, None) is not None:
            return False
        if group is not None:
            write_tombstones(group, draft)
        return True

    def _check_exists(self, group: Group | None, group_id: str) -> None:
        if group is None and group_id not in self._offsets:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def forget(self, group_id: str, places: Iterable[TopicPartition], draft: Draft) -> None:
        """Deletes offsets, whether or not anyone may read them."""
        for where in places:
            draft.record(_offset_key(group_id, where), None)

    def expire(
        self,
        group: Group | None,
        group_id: str,
        places: Collection[TopicPartition],
        draft: Draft,
    ) -> None:
        """Deletes those offsets of a group that have expired, and the group if it has neither
        members nor offsets then.

        An offset that an open transaction may replace stays: its tombstone would follow the
        transaction's record in the log, and delete that too.
        """
        known = self._offsets.of(group_id)
        expired = self._expired(group, group_id, places, draft.at.now_ms)
        self.forget(group_id, expired, draft)
        is_left = len(expired) < len(known) or self._offsets.has_pending(group_id)
        may_go = group is not None and group.is_empty and not is_left
        # A share group has no offsets here, and does not expire.
        if group is not None and may_go and group.expiry(draft.at.now_ms, 0) is not None:
            write_tombstones(group, draft)

    def _expired(
        self, group: Group | None, group_id: str, places: Collection[TopicPartition], now_ms: int
    ) -> list[TopicPartition]:
        if not places:
            return []
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        expiry: Expiry | None = Expiry(now_ms=now_ms, retention_ms=retention_ms)
        if group is not None:
            expiry = group.expiry(now_ms, retention_ms)
        subscribed = _subscribed(group)
        if expiry is None or subscribed is None:
            return []
        known = self._offsets.of(group_id)
        return [
            where
            for where in places
            if where[0] not in subscribed
            and (committed := known.get(where)) is not None
            and expiry.has_expired(committed)
            and not self._offsets.is_pending(group_id, where)
        ]


def write_tombstones(group: Group, draft: Draft) -> None:
    """Writes tombstones for all records of a group except its offsets."""
    for key in group.tombstones():
        draft.record(key, None)


def _subscribed(group: Group | None) -> frozenset[str] | None:
    return frozenset() if group is None else group.subscribed_topics()


def _offset_key(group_id: str, where: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=where[0], partition=where[1])
