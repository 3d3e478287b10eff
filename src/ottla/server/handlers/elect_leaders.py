"""ElectLeaders, 0 to 2: has partitions led by their preferred replicas, or by any.

Asked for all partitions, it names only those whose leader changed or cannot, as Kafka does. Kafka's
counterparts: `ReplicationControlManager.electLeaders`,
`KafkaController.processReplicaLeaderElection` (KIP-183, KIP-460).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import turn_dict, turn_list
from ottla.broker.controlling.outcomes import ByPartition, Outcome
from ottla.codec.schema import Message
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

PREFERRED: Final = 0
UNCLEAN: Final = 1
FIRST_ERROR_VERSION: Final = 1


def handle(request: ElectLeadersRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    wanted = None
    if request.topic_partitions is not None:
        wanted = turn_list(
            [
                TopicPartition(topic.topic, index)
                for topic in request.topic_partitions
                for index in topic.partitions
            ]
        )
    is_unclean = request.election_type == UNCLEAN
    elected = context.broker.controller.elect_leaders(wanted, is_unclean=is_unclean)
    return respond(elected, partial(_answer, context.api_version))


def _answer(api_version: int, elected: ByPartition) -> ElectLeadersResponse:
    response = ElectLeadersResponse(replica_election_results=_results(elected.outcomes))
    if elected.error is not None and api_version >= FIRST_ERROR_VERSION:
        response.error_code = elected.error.code
    return response


def _results(outcomes: Mapping[TopicPartition, Outcome]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = turn_dict()
    for place, error in outcomes.items():
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = ReplicaElectionResult(topic=place.topic)
        topic.partition_result.append(
            PartitionResult(
                partition_id=place.partition,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
        )
    return [*topics.values()]
