"""A decision about a share group; each record is replayed into a copy of the group at once."""

from collections.abc import Mapping

from ottla.base.ids import Uuid
from ottla.coordinator.consumer.partitions import Assignment, to_records
from ottla.coordinator.offsets.records import (
    DeletedShareTopic,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.plan import Plan
from ottla.coordinator.share.group import SharedTopics, ShareGroup, ShareMember, topic_records


class SharePlan(Plan[ShareGroup]):
    """Writes the records of a share group, with one method for each kind."""

    def describe_member(self, member: ShareMember) -> None:
        key = ShareGroupMemberMetadataKey(group_id=self.group.group_id, member_id=member.member_id)
        self.record(key, member.metadata_record())

    def move_member(self, member: ShareMember) -> None:
        """Writes the member's epoch and current assignment."""
        key = ShareGroupCurrentMemberAssignmentKey(
            group_id=self.group.group_id, member_id=member.member_id
        )
        self.record(key, member.current_record())

    def remove_member(self, member_id: str) -> None:
        for kind in (
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupTargetAssignmentMemberKey,
            ShareGroupMemberMetadataKey,
        ):
            self.record(kind(group_id=self.group.group_id, member_id=member_id), None)

    def set_target(self, member_id: str, target: Assignment) -> None:
        key = ShareGroupTargetAssignmentMemberKey(group_id=self.group.group_id, member_id=member_id)
        value = ShareGroupTargetAssignmentMemberValue(topic_partitions=to_records(target))
        self.record(key, value)

    def set_assignment_epoch(self, epoch: int, now_ms: int) -> None:
        key = ShareGroupTargetAssignmentMetadataKey(group_id=self.group.group_id)
        value = ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp_ms=now_ms
        )
        self.record(key, value)

    def set_topics(
        self,
        initializing: SharedTopics,
        initialized: SharedTopics,
        deleting: Mapping[Uuid, str],
    ) -> None:
        key = ShareGroupStatePartitionMetadataKey(group_id=self.group.group_id)
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=topic_records(initializing),
            initialized_topics=topic_records(initialized),
            deleting_topics=[
                DeletedShareTopic(topic_id=topic_id, topic_name=name)
                for topic_id, name in deleting.items()
            ],
        )
        self.record(key, value)

    def raise_epoch(self, metadata_hash: int) -> None:
        """Raises the group epoch, so that a new target assignment is computed."""
        key = ShareGroupMetadataKey(group_id=self.group.group_id)
        value = ShareGroupMetadataValue(epoch=self.group.epoch + 1, metadata_hash=metadata_hash)
        self.record(key, value)

    def asked(self) -> None:
        """Notes that the share coordinators are asked to begin states."""
        self.change().asked_ms = self.draft.at.monotonic_ms

    def look(self, revision: int) -> None:
        """Notes the revision of the catalog at which the topics were looked up."""
        if self.group.revision != revision:
            self.change().revision = revision
