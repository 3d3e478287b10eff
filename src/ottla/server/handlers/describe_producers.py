"""DescribeProducers, 0: the producers that partitions remember, to find one that hangs (KIP-664);
or what a share group has in flight, for clients that ask for it by Ottla's own field.

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
    RecordsInFlight,
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
                partitions=[
                    _describe(topic.name, one, request.share_group_id, context)
                    for one in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(
    topic: str, index: int, group_id: str | None, context: RequestContext
) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        check_name(topic)
        partition = context.broker.topics.online_partition(topic, index)
        if group_id is not None:
            response.records_in_flight = _in_flight(topic, index, group_id, context)
            return response
    except ApiError as refused:
        error = context.broker.fetches.refusal(refused, topic, index)
        response.error_code, response.error_message = error.code, error.message
        return response
    producers = list(partition.log.producers.entries.values())
    count_elements(len(producers))
    response.active_producers = [_state(one) for one in in_turns(producers)]
    return response


def _in_flight(
    topic: str, index: int, group_id: str, context: RequestContext
) -> list[RecordsInFlight]:
    """Raises `ApiError`."""
    topic_id = context.broker.topics.get(topic).topic_id
    found = context.broker.shares.in_flight(group_id, (topic_id, index), context.at)
    count_elements(len(found))
    return [
        RecordsInFlight(
            first_offset=one.first,
            last_offset=one.last,
            delivery_state=one.state,
            member_id=one.member,
            since_ms=one.since_ms,
            locked_until_ms=-1 if one.locked_until_ms is None else one.locked_until_ms,
            delivery_count=one.delivery_count,
            reasons=list(one.reasons),
        )
        for one in in_turns(found)
    ]


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
