"""DescribeProducers, 0: the producers that partitions remember, to find one that hangs (KIP-664).

Kafka's counterpart: `ReplicaManager.activeProducerState`.
"""

from ottla.base.errors import ApiError
from ottla.base.turns import count_elements, in_turns
from ottla.metadata.deciding.topic_rules import check_name
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.storage.log.producer_state import ProducerEntry


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    context.may_take_long()
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(topic.name, one, context) for one in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        check_name(topic)
        partition = context.broker.topics.online_partition(topic, index)
    except ApiError as refused:
        error = context.broker.fetches.refusal(refused, topic, index)
        response.error_code, response.error_message = error.code, error.message
        return response
    producers = list(partition.log.producers.entries.values())
    count_elements(len(producers))
    response.active_producers = [_state(one) for one in in_turns(producers)]
    return response


def _state(entry: ProducerEntry) -> ProducerState:
    first_offset = entry.transaction_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_transaction_start_offset=-1 if first_offset is None else first_offset,
    )
