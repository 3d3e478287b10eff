"""A member of a consumer group: its metadata and its current assignment.

Kafka's counterparts: `ConsumerGroupMember`, `MemberState`.
"""

from dataclasses import replace
from enum import IntEnum
from typing import Final

from ottla.base.values import dataclass
from ottla.coordinator.consumer.partitions import (
    NOTHING,
    Assignment,
    from_records,
    to_records,
)
from ottla.coordinator.offsets.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

JOIN_EPOCH: Final = 0
"""The epoch of a member that joins, or rejoins without partitions."""

LEAVE_EPOCH: Final = -1

LEAVE_STATIC_EPOCH: Final = -2
"""The epoch of a static member that left and is expected to return."""


class MemberState(IntEnum):
    """A member's reconciliation state; the numbers are stored in its record."""

    STABLE = 0
    """The member has its target assignment of its epoch."""

    UNREVOKED_PARTITIONS = 1
    """The member was asked to revoke partitions and has not confirmed it."""

    UNRELEASED_PARTITIONS = 2
    """Other members still hold partitions of the member's target assignment."""

    UNKNOWN = 127
    """A state written by a newer Kafka."""


STATES: Final = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`assigned` are the partitions the member may read; `pending_revocation` are those to be
    revoked.

    `topic_regex` is empty, not null, after a member has removed its expression.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    pending_revocation: Assignment = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its whole target assignment of the epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def holds(self) -> Assignment:
        """The partitions that no other member may have yet."""
        return self.assigned | self.pending_revocation

    def at_epoch(self, epoch: int) -> "Member":
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    # Records

    def take_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "Member":
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
        )

    def metadata_record(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=None,
        )

    def take_current(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> "Member":
        """The member with the state of a record; a tombstone resets it to that of a new member."""
        if value is None:
            return replace(
                self,
                epoch=0,
                previous_epoch=0,
                state=MemberState.STABLE,
                assigned=NOTHING,
                pending_revocation=NOTHING,
            )
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=STATES.get(value.state, MemberState.UNKNOWN),
            assigned=from_records(value.assigned_partitions),
            pending_revocation=from_records(value.partitions_pending_revocation),
        )

    def current_record(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=to_records(self.assigned),
            partitions_pending_revocation=to_records(self.pending_revocation),
        )
