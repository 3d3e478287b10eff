"""DeleteRecords, 0 to 2: moves the log start offset of partitions forward; readers see it at once.
The new offsets are on disk when the response is sent, whereas Kafka writes them within a minute.
Kafka's counterpart: `Partition.deleteRecordsOnLeader` (KIP-107).
"""

from collections.abc import Mapping

from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.turns import freed_in_turns, in_turns, parts_in_turns
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.server.request_context import RequestContext

PARTITIONS_AT_ONCE = 128
"""Their new starts are written down together, with those of all others of their directory."""


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    wanted = freed_in_turns(
        {
            TopicPartition(topic.name, one.partition_index): one.offset
            for topic in in_turns(request.topics)
            for one in in_turns(topic.partitions)
        }
    )
    results: dict[TopicPartition, int | ApiError] = freed_in_turns({})
    for part in parts_in_turns(wanted.items(), PARTITIONS_AT_ONCE):
        results |= context.broker.admin.delete_records(dict(part))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(TopicPartition(topic.name, one.partition_index), results, context)
                    for one in in_turns(topic.partitions)
                ],
            )
            for topic in in_turns(request.topics)
        ]
    )


def _result(
    place: TopicPartition, results: Mapping[TopicPartition, int | ApiError], context: RequestContext
) -> DeleteRecordsPartitionResult:
    low_watermark, index = results[place], place.partition
    if isinstance(low_watermark, ApiError):
        code = context.broker.refusal(low_watermark, place.topic, index).code
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
