"""FindCoordinator, 0 to 6: the leader of the partition that a group or a transaction belongs to.

The first request creates the internal topic; the client retries until the topic has leaders.
Kafka's counterpart: `KafkaApis.getCoordinator`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.broker.topics.topic_rules import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.coordinator.placement import partition_for
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.cluster.applying import membership_of, replicas_of
from ottla.server.handlers.find_coordinator import (
    GROUP,
    TRANSACTION,
    answer,
    none_found,
    none_of_type,
)
from ottla.server.request_context import RequestContext

TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    return answer(request, context, _find)


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    topic = TOPICS.get(key_type)
    if topic is None:
        return none_of_type(key, key_type)
    cache = replicas_of(context).metadata
    partitions = cache.topics.get(topic)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if partitions is None:
        membership_of(context).create_topics([topic])
        return none_found(key, code, f"The topic {topic} is being made.")
    index = partition_for(key, len(partitions))
    known = partitions.get(index)
    leader = -1 if known is None else known.state.leader
    endpoint = cache.endpoint(leader, context.client.listener)
    if endpoint is None:
        return none_found(key, code, f"{topic}-{index} has no leader that can be reached.")
    return Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message=None
    )
