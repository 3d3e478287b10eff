"""ListPartitionReassignments, 0: the replicas that are being moved.

Kafka's counterparts: `ReplicationControlManager.listPartitionReassignments`,
`KafkaController.listPartitionReassignments` (KIP-455).
"""

from collections.abc import Mapping

from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.broker.controlling.outcomes import Reassignments
from ottla.codec.schema import Message
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.zookeeper.topics import ReplicaAssignment


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Message | PendingResponse:
    wanted = None
    if request.topics is not None:
        wanted = turn_list(
            [
                TopicPartition(topic.name, index)
                for topic in request.topics
                for index in topic.partition_indexes
            ]
        )

    def answer(found: Reassignments) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(
            error_code=found.error.code if found.error else 0,
            error_message=None,
            topics=_topics(found.moves),
        )

    return respond(context.broker.controller.list_reassignments(wanted), answer)


def _topics(
    found: Mapping[TopicPartition, ReplicaAssignment],
) -> list[OngoingTopicReassignment]:
    topics: dict[str, OngoingTopicReassignment] = turn_dict()
    for place, its in in_turns(found.items()):
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
    return [*topics.values()]
