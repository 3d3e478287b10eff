"""A classic group as administrators see it. Kafka's counterpart: `ClassicGroup.describe`."""

from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.requests import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from ottla.coordinator.classic.state import GroupState


def describe(group: Group) -> GroupDescription:
    """What members read is only shown while it is settled."""
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return GroupDescription(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=protocol or "",
        members=tuple(
            MemberDescription(
                member_id=one.member_id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                metadata=b"" if protocol is None else one.protocols[protocol],
                assignment=b"" if protocol is None else one.assignment,
            )
            for one in group.members.values()
        ),
    )


def listing(group: Group) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
    )
