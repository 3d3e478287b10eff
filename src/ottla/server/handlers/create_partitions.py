"""CreatePartitions, 0 to 3: gives topics more partitions, or says whether that would work.

They are there when the answer goes, so `timeout_ms` has nothing to wait for.
Kafka's counterparts: `ControllerApis.createPartitions`, `ReplicationControlManager` (KIP-195).
"""

from collections import Counter

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.broker.topics import TopicGrowth
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.server.call import Call


def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    call.may_take_long()
    counts = Counter(wanted.name for wanted in in_turns(request.topics))
    wanted_by_name = {wanted.name: wanted for wanted in in_turns(request.topics)}
    results = []
    for name, wanted in in_turns(wanted_by_name.items()):
        result = CreatePartitionsTopicResult(name=name)
        try:
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            call.broker.admin.grow_topic(_growth(wanted), validate_only=request.validate_only)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return CreatePartitionsResponse(results=results)


def _growth(wanted: CreatePartitionsTopic) -> TopicGrowth:
    assignments = wanted.assignments
    return TopicGrowth(
        name=wanted.name,
        partition_count=wanted.count,
        assignments=None if assignments is None else [one.broker_ids for one in assignments],
    )
