"""What share groups have in flight: which record is where, since when, and why again.

The leader of each partition knows, in memory; it is asked by DescribeProducers with a field of
Ottla's own, since Kafka has no request for it. Another broker ignores the field.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition, by_topic
from ottla.client.administration.asking import refused
from ottla.client.administration.topics import TopicAdmin
from ottla.client.bulk.reading import by_partition
from ottla.client.connecting.connection import Connection
from ottla.coordinator.share.in_flight import InFlight
from ottla.coordinator.share.records_in_flight import DeliveryState, ReturnReason
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)


class InFlightAdmin(TopicAdmin):
    """Questions to the leaders of partitions about share groups."""

    def records_in_flight(self, group_id: str, places: Iterable[TopicPartition]) -> list[InFlight]:
        """What a share group has in flight in partitions, in their order; their topic ids are not
        set. Raises `RefusedError`.

        >>> admin.records_in_flight("jobs", [ottla.TopicPartition("orders", 0)])
        []
        """
        wanted = sorted(places)
        found = self._ask_leaders(wanted, partial(_asked, group_id))
        return [one for place in wanted for one in _in_flight(place, found[place])]


def _asked(
    group_id: str, leader: Connection, places: list[TopicPartition]
) -> dict[TopicPartition, PartitionResponse]:
    topics = [
        TopicRequest(name=topic, partition_indexes=numbers)
        for topic, numbers in by_topic(places).items()
    ]
    request = DescribeProducersRequest(topics=topics, share_group_id=group_id)
    return by_partition(leader.ask(request).topics)


def _in_flight(place: TopicPartition, answer: PartitionResponse) -> Iterator[InFlight]:
    if answer.error_code:
        raise refused(f"{place.topic}-{place.partition}", answer.error_code)
    for one in answer.records_in_flight:
        yield InFlight(
            topic=place.topic,
            topic_id=ZERO_UUID,
            partition=place.partition,
            first=one.first_offset,
            last=one.last_offset,
            state=DeliveryState(one.delivery_state),
            member=one.member_id,
            since_ms=one.since_ms,
            locked_until_ms=one.locked_until_ms if one.locked_until_ms >= 0 else None,
            delivery_count=one.delivery_count,
            reasons=tuple(map(ReturnReason, one.reasons)),
        )
