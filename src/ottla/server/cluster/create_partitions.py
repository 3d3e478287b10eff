"""CreatePartitions, 0 to 3: the controller places the replicas of more partitions of topics.

Kafka's counterparts: `ZkAdminManager.createPartitions`, `AdminZkClient.addPartitions` (KIP-195).
"""

from collections import Counter
from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.broker.replication.metadata_cache import MetadataCache
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.broker.topics.topics import check_grown_count
from ottla.controller.events import CreatePartitions
from ottla.controller.placement import Start, place
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.server.cluster.applying import ask_controller, membership_of, replicas_of
from ottla.server.cluster.create_topics import check_assignment
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse | PendingAnswer:
    context.may_take_long()
    cache, membership = replicas_of(context).metadata, membership_of(context)
    counts = Counter(one.name for one in in_turns(request.topics))
    results: dict[str, CreatePartitionsTopicResult] = {}
    events: list[CreatePartitions] = []
    for wanted in in_turns(request.topics):
        result = results[wanted.name] = CreatePartitionsTopicResult(name=wanted.name)
        try:
            if not membership.is_controller:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            if counts[wanted.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            assignment = _assignment(wanted, cache)
            events.append(
                CreatePartitions(pending_id=None, topic=wanted.name, assignment=assignment)
            )
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    response = CreatePartitionsResponse(results=[*in_turns(results.values())])
    if request.validate_only or not events:
        return response
    asked = [(one, results[one.topic]) for one in in_turns(events)]
    return ask_controller(asked, response, context, request.timeout_ms)


def _assignment(
    wanted: CreatePartitionsTopic, cache: MetadataCache
) -> Mapping[int, tuple[int, ...]]:
    """The replicas of the added partitions; raises `ApiError`."""
    known = cache.topics.get(wanted.name)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{wanted.name}' is internal.")
    count = len(known)
    check_grown_count(wanted.name, count, wanted.count)
    first = known[0].replicas
    if wanted.assignments is not None:
        lists = [tuple(one.broker_ids) for one in wanted.assignments]
        assigned = dict(enumerate(lists, count))
        check_assignment(assigned, count, wanted.count - count, cache.brokers)
        if any(len(replicas) != len(first) for replicas in lists):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The partitions of {wanted.name} have {len(first)} replicas each.",
            )
        return assigned
    racks = {broker: one.rack for broker, one in sorted(cache.brokers.items())}
    index = next((at for at, one in enumerate(racks) if one >= first[0]), 0)
    start = Start(index=index, shift=index, partition=count)
    return place(racks, wanted.count - count, len(first), start)
