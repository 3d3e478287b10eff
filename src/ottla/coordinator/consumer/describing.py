"""A group of the new protocol as administrators see it. Kafka: `ConsumerGroup.asDescribedGroup`."""

from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE
from ottla.coordinator.classic.requests import CONSUMER, GroupListing
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
)


def describe(group: ConsumerGroup, assignors: tuple[str, ...]) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor(assignors),
        members=tuple(
            ConsumerMemberDescription(
                member_id=one.member_id,
                instance_id=one.instance_id,
                rack_id=one.rack_id,
                epoch=one.epoch,
                client_id=one.client_id,
                client_host=one.client_host,
                topic_names=sorted(one.topic_names),
                topic_regex=one.topic_regex or None,
                assigned=one.assigned,
                target=group.target_of(one.member_id),
            )
            for one in group.members.values()
        ),
    )


def listing(group: ConsumerGroup) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=PROTOCOL_TYPE,
        group_type=CONSUMER,
    )
