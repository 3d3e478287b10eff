"""ListPartitionReassignments, 0: what the controller is moving (KIP-455).

Kafka's counterpart: `KafkaController.listPartitionReassignments`.
"""

from ottla.base.partitions import TopicPartition
from ottla.base.turns import freed_in_turns, in_turns
from ottla.controller.events import Answer, ListReassignments
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> PendingAnswer:
    wanted = None
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, index)
            for topic in in_turns(request.topics)
            for index in in_turns(topic.partition_indexes)
        ]
    event = ListReassignments(pending_id=None, partitions=wanted)

    def answered(answers: list[Answer]) -> ListPartitionReassignmentsResponse:
        freed_in_turns(wanted or [])
        return _response(answers)

    return PendingAnswer(membership_of(context).ask([event]), answered, takes_long=True)


def _response(answers: list[Answer]) -> ListPartitionReassignmentsResponse:
    (answer,) = answers
    topics: dict[str, OngoingTopicReassignment] = freed_in_turns({})
    for place, its in in_turns(answer.reassignments.items()):
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = OngoingTopicReassignment(name=place.topic)
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=place.partition,
                replicas=list(its.replicas),
                adding_replicas=list(its.adding),
                removing_replicas=list(its.removing),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=answer.error, error_message=None, topics=[*in_turns(topics.values())]
    )
