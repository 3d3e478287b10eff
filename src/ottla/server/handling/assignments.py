"""What members of groups have, as descriptions show it."""

from collections.abc import Iterable

from ottla.base.ids import Uuid
from ottla.base.partitions import by_topic
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.server.dispatching.request_context import RequestContext


def named_topics(
    partitions: Iterable[TopicIdPartition], context: RequestContext
) -> list[tuple[Uuid, str, list[int]]]:
    """Ids, names and partitions by topic; topics that have been deleted since are left out."""
    return [
        (topic_id, name, indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if (name := context.broker.catalog.name_by_id(topic_id)) is not None
    ]
