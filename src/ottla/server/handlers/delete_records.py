"""DeleteRecords, 0 to 2: moves the log start offset of partitions forward; readers see it at once.
The new offsets are on disk when the response is sent, whereas Kafka writes them within a minute.
Kafka's counterpart: `Partition.deleteRecordsOnLeader` (KIP-107).
"""

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
                    _result(
                        one.partition_index,
                        results[TopicPartition(topic.name, one.partition_index)],
                    )
                    for one in in_turns(topic.partitions)
                ],
            )
            for topic in in_turns(request.topics)
        ]
    )


def _result(index: int, low_watermark: int | ApiError) -> DeleteRecordsPartitionResult:
    if isinstance(low_watermark, ApiError):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=low_watermark.code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
