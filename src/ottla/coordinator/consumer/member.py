"""One member of a group of the new protocol: what it said of itself, and how far it has come.

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
"""The epoch of a member that joins, or joins again with nothing."""

LEAVE_EPOCH: Final = -1

LEAVE_STATIC_EPOCH: Final = -2
"""Of a static member that has gone and is expected back."""


class MemberState(IntEnum):
    """Where a member stands on its way to the target; the numbers are in its record."""

    STABLE = 0
    """It has what it is to have, as far as it has been assigned."""

    UNREVOKED_PARTITIONS = 1
    """It has been asked to give up partitions, and has not said yet that it did."""

    UNRELEASED_PARTITIONS = 2
    """Partitions that it is to have are still with others."""

    UNKNOWN = 127
    """Written by a Kafka that is newer than this code."""


STATES: Final = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`assigned` is what it may read; `pending_revocation` is what it has yet to give up.

    `topic_regex` is empty, not null, once a member has given its expression up.
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
        """Whether it has all that the target of an epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def holds(self) -> Assignment:
        """What nobody else may have yet."""
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
        """Without a record, the member is as one that has just come."""
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
