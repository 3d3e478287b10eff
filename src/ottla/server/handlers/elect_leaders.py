"""ElectLeaders, 0 to 2: this broker leads all it has, so no election is ever needed.

Asked for all partitions, it names none, as Kafka names only those whose leader changed or cannot.
Kafka's counterpart: `ReplicationControlManager.electLeaders` (KIP-183, KIP-460).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ottla.server.request_context import RequestContext

PREFERRED, UNCLEAN = 0, 1
FIRST_ERROR_VERSION = 1

LEADERLESS = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""The error code for a partition on an offline disk."""


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    context.may_take_long()
    response = ElectLeadersResponse()
    if request.election_type not in LEADERLESS and context.api_version >= FIRST_ERROR_VERSION:
        response.error_code = ErrorCode.INVALID_REQUEST
    wanted = request.topic_partitions
    for topic in in_turns(_leaderless(context) if wanted is None else wanted):
        response.replica_election_results.append(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    _elect(topic.topic, index, request, context)
                    for index in in_turns(topic.partitions)
                ],
            )
        )
    return response


def _leaderless(context: RequestContext) -> list[TopicPartitions]:
    found = []
    for topic in in_turns(list(context.broker.topics)):
        indexes = topic.leaderless_indexes
        if indexes:
            found.append(TopicPartitions(topic=topic.name, partitions=indexes))
    return found


def _elect(
    topic: str, index: int, request: ElectLeadersRequest, context: RequestContext
) -> PartitionResult:
    refusal = _refusal(topic, index, request.election_type, context)
    return PartitionResult(
        partition_id=index, error_code=refusal.code, error_message=refusal.message
    )


def _refusal(topic: str, index: int, election_type: int, context: RequestContext) -> ApiError:
    if election_type not in LEADERLESS:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    try:
        context.broker.topics.online_partition(topic, index)
    except ApiError as error:
        is_offline = error.code is ErrorCode.KAFKA_STORAGE_ERROR
        return ApiError(LEADERLESS[election_type]) if is_offline else error.without_traceback()
    return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The leader is elected already.")
