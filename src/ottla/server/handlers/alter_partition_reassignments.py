"""AlterPartitionReassignments, 0 to 1: moves replicas of partitions to other brokers.

Kafka's counterparts: `ReplicationControlManager.alterPartitionReassignments`,
`KafkaController.alterPartitionReassignments` (KIP-455).
"""

from collections.abc import Mapping

from ottla.base.partitions import TopicPartition
from ottla.base.turns import turn_dict
from ottla.broker.controlling.outcomes import ByPartition, Outcome
from ottla.codec.schema import Message
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    wanted = turn_dict(
        (TopicPartition(topic.name, one.partition_index), _wanted(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    )

    def answer(altered: ByPartition) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=altered.error.code if altered.error else 0,
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        _result(TopicPartition(topic.name, one.partition_index), altered.outcomes)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    altered = context.broker.controller.alter_reassignments(
        wanted, may_change_count=request.allow_replication_factor_change
    )
    return respond(altered, answer)


def _result(
    place: TopicPartition, outcomes: Mapping[TopicPartition, Outcome]
) -> ReassignablePartitionResponse:
    error = outcomes.get(place)
    return ReassignablePartitionResponse(
        partition_index=place.partition,
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
    )


def _wanted(brokers: list[int] | None) -> tuple[int, ...] | None:
    """`None` cancels a move."""
    return None if brokers is None else tuple(brokers)
