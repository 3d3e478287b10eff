"""AlterPartitionReassignments, 0 to 1: the controller moves replicas to other brokers (KIP-455).

Kafka's counterpart: `KafkaController.alterPartitionReassignments`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import freed_in_turns, in_turns
from ottla.controller.events import AlterReassignments, Answer
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    wanted = {
        TopicPartition(topic.name, one.partition_index): None
        if one.replicas is None
        else tuple(one.replicas)
        for topic in in_turns(request.topics)
        for one in in_turns(topic.partitions)
    }

    def answered(answers: list[Answer]) -> AlterPartitionReassignmentsResponse:
        (answer,) = answers
        freed_in_turns(wanted)
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=answer.error,
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        _result(answer, topic.name, one.partition_index)
                        for one in in_turns(topic.partitions)
                    ],
                )
                for topic in in_turns(request.topics)
            ],
        )

    event = AlterReassignments(pending_id=None, wanted=wanted)
    return PendingAnswer(membership_of(context).ask([event]), answered, takes_long=True)


def _result(answer: Answer, topic: str, index: int) -> ReassignablePartitionResponse:
    code = answer.errors.get(TopicPartition(topic, index), answer.error)
    message = None if code is ErrorCode.NONE else code.description
    return ReassignablePartitionResponse(
        partition_index=index, error_code=code, error_message=message
    )
