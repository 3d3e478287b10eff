"""Sizes and rates of topics."""

from collections.abc import Callable, Iterable

from ottla.base.errors import UnreachableError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.client.administration.descriptions import (
    PartitionActivity,
    TopicActivity,
    TopicDescription,
    count_from,
    led_partitions,
)
from ottla.client.administration.log_directories import LogDirectoryAdmin
from ottla.client.administration.topics import TopicAdmin

NO_RECORDS = (0, 0)
"""The bounds of a partition without a leader."""


class TopicActivityAdmin(TopicAdmin, LogDirectoryAdmin):
    """What a list of topics shows, without an import of all that an `Admin` can."""

    def topic_activity(
        self,
        topics: Iterable[TopicDescription],
        since_ms: int,
        *,
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[TopicActivity]:
        """The size of topics, and how many records came after `since_ms`. Raises `RefusedError`.
        A partition without a leader counts as empty.

        Raises `UnreachableError` if a broker does not answer; with `on_unreachable` that is called
        instead, and what the broker leads counts as empty.

        >>> topics = admin.describe_topics(["orders"])
        >>> activity, = admin.topic_activity(topics, since_ms=1_767_225_602_000)
        >>> activity.count, activity.recent_count
        (4, 2)
        """
        wanted = list(topics)
        places = [place for topic in wanted for place in led_partitions(topic)]
        bounds = self.bounds(places, on_unreachable=on_unreachable)
        recent = self.list_offsets(list(bounds), since_ms)
        sizes: dict[TopicPartition, int] = {}
        for directory in self.log_directories(by_topic(places), on_unreachable=on_unreachable):
            for place, size in directory.sizes.items():
                # Each replica has the log; the largest one is nearest to the leader.
                sizes[place] = max(size, sizes.get(place, 0))

        def activity(place: TopicPartition) -> PartitionActivity:
            start, end = bounds.get(place, NO_RECORDS)
            return PartitionActivity(
                place=place,
                start_offset=start,
                end_offset=end,
                recent_count=count_from(recent[place].offset, start, end) if place in recent else 0,
                size=sizes.get(place),
            )

        return [
            TopicActivity(
                topic=topic,
                partitions=tuple(
                    activity(TopicPartition(topic.name, one.partition)) for one in topic.partitions
                ),
            )
            for topic in wanted
        ]
