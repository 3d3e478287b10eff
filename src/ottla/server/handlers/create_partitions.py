"""CreatePartitions, 0 to 3: adds partitions to topics, or validates that. They exist when the
response is sent, so `timeout_ms` has no effect. Kafka's counterparts:
`ControllerApis.createPartitions`, `ReplicationControlManager` (KIP-195).
"""

from collections import Counter

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.topics.topics import TopicGrowth
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.server.request_context import RequestContext

DUPLICATE = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    context.may_take_long()
    counts = freed_in_turns(Counter(wanted.name for wanted in in_turns(request.topics)))
    growths = freed_in_turns(
        [_growth(one) for one in in_turns(request.topics) if counts[one.name] == 1]
    )
    admin = context.broker.admin
    refusals = admin.grow_topics(growths, validate_only=request.validate_only)
    errors = iter(freed_in_turns(refusals))
    results = []
    for name, count in in_turns(counts.items()):
        error = next(errors) if count == 1 else DUPLICATE
        results.append(
            CreatePartitionsTopicResult(
                name=name,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
        )
    return CreatePartitionsResponse(results=results)


def _growth(wanted: CreatePartitionsTopic) -> TopicGrowth:
    assignments = wanted.assignments
    return TopicGrowth(
        name=wanted.name,
        partition_count=wanted.count,
        assignments=None
        if assignments is None
        else [one.broker_ids for one in in_turns(assignments)],
    )
