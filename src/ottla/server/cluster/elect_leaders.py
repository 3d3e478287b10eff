"""ElectLeaders, 0 to 2: the controller gives partitions to their preferred brokers, or to any.

Kafka's counterpart: `KafkaController.processReplicaLeaderElection` (KIP-183, KIP-460).
"""

from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import freed_in_turns, in_turns
from ottla.controller.events import Answer, ElectLeaders
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.request_context import PendingAnswer, RequestContext

PREFERRED, UNCLEAN = 0, 1
FIRST_ERROR_VERSION = 1


def handle(
    request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | PendingAnswer:
    context.may_take_long()
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index)
            for topic in in_turns(request.topic_partitions)
            for index in in_turns(topic.partitions)
        ]

    def answered(answers: list[Answer]) -> ElectLeadersResponse:
        (answer,) = answers
        if answer.error is ErrorCode.NONE:
            errors = answer.errors
        else:
            errors = freed_in_turns(dict.fromkeys(in_turns(wanted or ()), answer.error))
        freed_in_turns(wanted or [])
        response = ElectLeadersResponse(replica_election_results=_results(errors))
        if context.api_version >= FIRST_ERROR_VERSION:
            response.error_code = answer.error
        return response

    event = ElectLeaders(
        pending_id=None, partitions=wanted, is_unclean=request.election_type == UNCLEAN
    )
    return PendingAnswer(membership_of(context).ask([event]), answered, takes_long=True)


def _results(errors: Mapping[TopicPartition, ErrorCode]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = freed_in_turns({})
    for place, code in in_turns(errors.items()):
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = ReplicaElectionResult(topic=place.topic)
        message = None if code is ErrorCode.NONE else code.description
        topic.partition_result.append(
            PartitionResult(partition_id=place.partition, error_code=code, error_message=message)
        )
    return [*in_turns(topics.values())]
