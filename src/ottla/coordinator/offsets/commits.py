"""OffsetCommit, OffsetDelete, and what becomes of offsets nobody needs: all that ends in records.

Kafka's counterparts: `OffsetMetadataManager`, `ClassicGroup.validateOffsetCommit`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE
from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.rebalance import Rebalances
from ottla.coordinator.classic.requests import UNKNOWN_MEMBER, MemberClaim
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.committed_offsets import (
    CommittedOffsets,
    Expiry,
    NewOffset,
    TopicPartition,
)
from ottla.coordinator.offsets.records import GroupMetadataKey, OffsetCommitKey

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """`retention_ms` is from clients that chose themselves how long an offset is kept.

    `producer` is the id and epoch in whose transaction the offsets are committed.
    """

    claim: MemberClaim
    offsets: Mapping[TopicPartition, NewOffset]
    retention_ms: int | None = None
    producer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErrors:
    """An error code for each partition, and one for the group as a whole."""

    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)

    def refused(self, code: ErrorCode) -> Self:
        """The partitions that were in order are now in this error."""
        return replace(
            self,
            partitions={
                where: known if known else code for where, known in self.partitions.items()
            },
        )


class Commits:
    def __init__(
        self, config: GroupCoordinatorConfig, offsets: CommittedOffsets, rebalances: Rebalances
    ) -> None:
        self._config = config
        self._offsets = offsets
        self._rebalances = rebalances

    def commit(
        self, group: Group | None, request: CommitRequest, draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Writes down offsets, one error code for each; raises `ApiError` when none may be."""
        self._check(group, request, draft)
        return write_offsets(request, self._config.offset_metadata_max_bytes, draft)

    def _check(self, group: Group | None, request: CommitRequest, draft: Draft) -> None:
        """A simple consumer, without a member id, may commit while the group has no members.

        In a transaction it always may: producers of old do not say for which member (KIP-447).
        """
        claim = request.claim
        is_simple = (
            claim.generation < 0 and claim.member_id == UNKNOWN_MEMBER and claim.instance_id is None
        )
        if group is None:
            if claim.generation >= 0:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.state is GroupState.EMPTY and claim.generation < 0:
            return
        if is_simple:
            if request.producer is not None:
                return
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_claim(claim)
        if request.producer is not None:
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member knows of the generation; its partitions are about to change.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalances.extend_session(group, member, draft.at.monotonic_ms)

    def delete(
        self, group: Group | None, group_id: str, wanted: Iterable[TopicPartition], draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Forgets offsets of topics that nobody in the group reads (KIP-496)."""
        if group is None and group_id not in self._offsets:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group is not None and group.members and group.protocol_type != PROTOCOL_TYPE:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        known = self._offsets.of(group_id)
        errors = {}
        for where in wanted:
            errors[where] = ErrorCode.NONE
            if group is not None and group.is_subscribed_to(where[0]):
                errors[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif where in known:
                draft.record(offset_key(group_id, where), None)
        return errors

    def delete_all(self, group: Group | None, group_id: str, draft: Draft) -> None:
        """Removes a group without members (KIP-229); raises `ApiError`."""
        if group is None and group_id not in self._offsets:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group is not None and group.state is not GroupState.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        for where in self._offsets.of(group_id):
            draft.record(offset_key(group_id, where), None)
        if group is not None and group.stored is not None:
            draft.record(GroupMetadataKey(group=group_id), None)

    def forget_topics(self, group_id: str, topics: Iterable[str], draft: Draft) -> None:
        """Topics are gone, and offsets in them mean nothing."""
        gone = frozenset(topics)
        for where in self._offsets.of(group_id):
            if where[0] in gone:
                draft.record(offset_key(group_id, where), None)

    def expire(self, group: Group | None, group_id: str, draft: Draft) -> None:
        """Forgets what is too old, and a group without members when nothing is left of it."""
        known = self._offsets.of(group_id)
        expiry = self._expiry(group, draft.at.now_ms)
        expired = [
            where
            for where, committed in known.items()
            if expiry is not None
            and expiry.has_expired(committed)
            and (group is None or not group.is_subscribed_to(where[0]))
        ]
        for where in expired:
            draft.record(offset_key(group_id, where), None)
        is_left = len(expired) < len(known) or self._offsets.has_pending(group_id)
        if group is not None and group.state is GroupState.EMPTY and not is_left and group.stored:
            draft.record(GroupMetadataKey(group=group_id), None)

    def _expiry(self, group: Group | None, now_ms: int) -> Expiry | None:
        """What counts as too old; `None` while members may need everything (KIP-211)."""
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        if group is None or group.protocol_type is None:
            return Expiry(now_ms=now_ms, retention_ms=retention_ms)
        if group.state is GroupState.EMPTY:
            since_ms = group.stored.current_state_timestamp_ms if group.stored else -1
            base_ms = None if since_ms == -1 else since_ms
            return Expiry(now_ms=now_ms, retention_ms=retention_ms, base_ms=base_ms)
        if group.state is GroupState.STABLE and group.protocol_type == PROTOCOL_TYPE:
            return Expiry(now_ms=now_ms, retention_ms=retention_ms)
        return None


def write_offsets(
    request: CommitRequest, max_metadata_size: int, draft: Draft
) -> dict[TopicPartition, ErrorCode]:
    """Records what somebody may commit, one error code for each."""
    errors = {}
    for where, new in request.offsets.items():
        errors[where] = ErrorCode.NONE
        if len(new.metadata) > max_metadata_size:
            errors[where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        record = new.to_record(draft.at.now_ms, request.retention_ms)
        draft.record(offset_key(request.claim.group_id, where), record)
    return errors


def offset_key(group_id: str, where: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=where[0], partition=where[1])
