"""Offsets of groups of the new protocol: who may write and see them, and what becomes of old ones.

Kafka's counterparts: `ConsumerGroup.validateOffsetCommit`, `OffsetMetadataManager`.
"""

from collections.abc import Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.plan import Plan
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.commits import MINUTE_MS, CommitRequest, offset_key, write_offsets
from ottla.coordinator.offsets.committed_offsets import CommittedOffsets, Expiry, TopicPartition


class ConsumerCommits:
    def __init__(self, config: GroupCoordinatorConfig, offsets: CommittedOffsets) -> None:
        self._config = config
        self._offsets = offsets

    def commit(
        self, group: ConsumerGroup, request: CommitRequest, draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Writes down offsets, one error code for each; raises `ApiError` when none may be."""
        group.check_commit(request.claim, is_transactional=request.producer is not None)
        return write_offsets(request, self._config.offset_metadata_max_bytes, draft)

    def delete(
        self, group: ConsumerGroup, wanted: Iterable[TopicPartition], draft: Draft
    ) -> dict[TopicPartition, ErrorCode]:
        """Forgets offsets of topics that nobody in the group reads (KIP-496)."""
        known = self._offsets.of(group.group_id)
        subscribed = group.subscribed_topics()
        errors = {}
        for where in wanted:
            errors[where] = ErrorCode.NONE
            if where[0] in subscribed:
                errors[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif where in known:
                draft.record(offset_key(group.group_id, where), None)
        return errors

    def delete_all(self, group: ConsumerGroup, draft: Draft) -> None:
        """Removes a group without members; raises `ApiError`."""
        if group.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        for where in self._offsets.of(group.group_id):
            draft.record(offset_key(group.group_id, where), None)
        Plan(group, draft).remove_group()

    def expire(self, group: ConsumerGroup, draft: Draft) -> None:
        """Forgets what is too old, and a group without members when nothing is left of it."""
        known = self._offsets.of(group.group_id)
        subscribed = group.subscribed_topics()
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        expiry = Expiry(now_ms=draft.at.now_ms, retention_ms=retention_ms)
        expired = [
            where
            for where, committed in known.items()
            if expiry.has_expired(committed) and where[0] not in subscribed
        ]
        for where in expired:
            draft.record(offset_key(group.group_id, where), None)
        is_left = len(expired) < len(known) or self._offsets.has_pending(group.group_id)
        if not group.members and not is_left:
            Plan(group, draft).remove_group()
