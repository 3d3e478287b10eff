"""CreatePartitions, 0 to 3: adds partitions to topics, or validates that.

They exist and have leaders when the response is sent. Kafka's counterparts:
`ReplicationControlManager`, `ZkAdminManager.createPartitions` (KIP-195).
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import counted, turn_list
from ottla.codec.schema import Message
from ottla.metadata.deciding.topics import TopicGrowth
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

DUPLICATE = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def handle(request: CreatePartitionsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    counts = counted(wanted.name for wanted in request.topics)
    growths = turn_list([_growth(one) for one in request.topics if counts[one.name] == 1])

    def answer(outcomes: Sequence[ApiError | None]) -> CreatePartitionsResponse:
        left = iter(outcomes)
        return CreatePartitionsResponse(
            results=[
                _result(name, next(left) if count == 1 else DUPLICATE)
                for name, count in counts.items()
            ]
        )

    return respond(
        context.broker.controller.create_partitions(
            growths,
            validate_only=request.validate_only,
            deadline_ms=context.at.monotonic_ms + request.timeout_ms,
        ),
        answer,
    )


def _result(name: str, error: ApiError | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name,
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
    )


def _growth(wanted: CreatePartitionsTopic) -> TopicGrowth:
    assignments = wanted.assignments
    return TopicGrowth(
        name=wanted.name,
        partition_count=wanted.count,
        assignments=None if assignments is None else [one.broker_ids for one in assignments],
    )
