"""What groups have in common whose coordinator assigns partitions: consumer and share groups.

Kafka's counterpart: `ModernGroup`.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.partitions import NOTHING, Assignment, from_records
from ottla.coordinator.offsets.records import TopicPartitions

MemberT = TypeVar("MemberT")


class AssignedGroup(Generic[MemberT]):
    """`targets` are by member id, of the `assignment_epoch`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, MemberT] = {}
        self.targets: dict[str, Assignment] = {}

    def _replay_target(self, member_id: str, target: Iterable[TopicPartitions] | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = from_records(target)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_vacant(self) -> bool:
        return self.epoch == 0

    def member(self, member_id: str) -> MemberT:
        """Raises `ApiError(UNKNOWN_MEMBER_ID)`."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)
