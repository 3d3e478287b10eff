"""A decision about a consumer group; each record is replayed into a copy of the group at once."""

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.partitions import Assignment, to_records
from ottla.coordinator.offsets.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicMetadata,
)
from ottla.coordinator.plan import Plan


class ConsumerPlan(Plan[ConsumerGroup]):
    """Writes the records of a consumer group, with one method for each kind."""

    def describe_member(self, member: Member) -> None:
        """Writes the member's metadata."""
        key = ConsumerGroupMemberMetadataKey(
            group_id=self.group.group_id, member_id=member.member_id
        )
        self.record(key, member.metadata_record())

    def move_member(self, member: Member) -> None:
        """Writes the member's epoch and current assignment."""
        key = ConsumerGroupCurrentMemberAssignmentKey(
            group_id=self.group.group_id, member_id=member.member_id
        )
        self.record(key, member.current_record())

    def remove_member(self, member_id: str) -> None:
        for kind in (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupMemberMetadataKey,
        ):
            self.record(kind(group_id=self.group.group_id, member_id=member_id), None)

    def set_target(self, member_id: str, target: Assignment) -> None:
        key = ConsumerGroupTargetAssignmentMemberKey(
            group_id=self.group.group_id, member_id=member_id
        )
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_records(target))
        self.record(key, value)

    def set_assignment_epoch(self, epoch: int) -> None:
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group.group_id)
        self.record(key, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch))

    def set_topics(self, topics: list[TopicMetadata]) -> None:
        key = ConsumerGroupPartitionMetadataKey(group_id=self.group.group_id)
        self.record(key, ConsumerGroupPartitionMetadataValue(topics=topics))

    def set_regex(self, regex: str, topics: frozenset[str], revision: int) -> None:
        key = ConsumerGroupRegularExpressionKey(
            group_id=self.group.group_id, regular_expression=regex
        )
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=revision, timestamp=self.draft.at.now_ms
        )
        self.record(key, value)

    def forget_regex(self, regex: str) -> None:
        key = ConsumerGroupRegularExpressionKey(
            group_id=self.group.group_id, regular_expression=regex
        )
        self.record(key, None)

    def raise_epoch(self) -> None:
        """Raises the group epoch, so that a new target assignment is computed."""
        key = ConsumerGroupMetadataKey(group_id=self.group.group_id)
        self.record(key, ConsumerGroupMetadataValue(epoch=self.group.epoch + 1))

    def look(self, revision: int) -> None:
        """Notes the revision of the catalog at which the topics were looked up."""
        if self.group.revision != revision:
            self.change().revision = revision

    def resolved(self, regex: str, revisions: tuple[int, int]) -> None:
        """Notes the revisions of the catalog and of the visible topics at which a regex was
        resolved.
        """
        self.change().regex_revisions[regex] = revisions
