"""What a data directory's files say of its topics, without a broker and without a lock.

So `ottla topics list` is quick, changes nothing in a directory of another Kafka, and works while
another process has the directory open.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ottla.base.partitions import TopicPartition
from ottla.broker.topics.offered_ends import replicated_end
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.client.administration.descriptions import (
    PartitionActivity,
    PartitionDescription,
    TopicActivity,
    TopicDescription,
    count_from,
)
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.diagnosis.directories import read_directories
from ottla.storage.reading.locating import locate
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.time_search import first_offset_at


class TopicList(Protocol):
    """What lists topics: an `Admin`, or the files of a directory."""

    def describe_topics(self, *, internal: bool = False) -> list[TopicDescription]: ...

    def topic_activity(
        self, topics: Iterable[TopicDescription], since_ms: int
    ) -> list[TopicActivity]: ...

    def topics_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]: ...


class TopicsAtRest:
    """The topics of log directories, by their files; the methods are those of `Admin`.

    Nothing is repaired: damage that is in the way is raised, with the commands that help.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` where a path is no log directory."""
        self._directories = read_directories(paths)
        self._located = locate(self._directories.opened)

    def describe_topics(self, *, internal: bool = False) -> list[TopicDescription]:
        return [
            topic
            for name, held in sorted(self._located.items())
            if internal or name not in INTERNAL_TOPICS
            if (topic := self._described(name, held)) is not None
        ]

    def _described(
        self, name: str, held: Mapping[int, ReadOnlyLogDirectory]
    ) -> TopicDescription | None:
        """`None` of a topic that was deleted, of which files are left."""
        known = self._directories.found.known
        entry = known.entries.get(name)
        first = min(held)
        topic_id = held[first].partition(name, first).topic_id
        if topic_id in known.gone or (entry is not None and entry.is_deleted):
            return None
        properties = held[first].properties
        node = 0 if properties is None else properties.node_id or 0
        count = max(max(held) + 1, 0 if entry is None else entry.partition_count)
        return TopicDescription(
            name=name,
            topic_id=topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=tuple(
                PartitionDescription(
                    partition=index,
                    leader=node if index in held else -1,
                    leader_epoch=-1,
                    replicas=(node,),
                    in_sync=(node,),
                    offline=() if index in held else (node,),
                )
                for index in range(count)
            ),
        )

    def topic_activity(
        self, topics: Iterable[TopicDescription], since_ms: int
    ) -> list[TopicActivity]:
        return [
            TopicActivity(
                topic=topic,
                partitions=tuple(
                    self._activity(TopicPartition(topic.name, one.partition), since_ms)
                    for one in topic.partitions
                ),
            )
            for topic in topics
        ]

    def _activity(self, place: TopicPartition, since_ms: int) -> PartitionActivity:
        directory = self._located[place.topic].get(place.partition)
        if directory is None:
            return PartitionActivity(
                place=place, start_offset=0, end_offset=0, recent_count=0, size=None
            )
        return ask_log(partial(directory.partition, *place), partial(_activity_of, place, since_ms))

    def topics_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        rows = settings_of(TopicConfig).values()
        found = {}
        for name in topics:
            config = self._directories.config(name)
            found[name] = {row.name: row.format(getattr(config, row.attribute)) for row in rows}
        return found


def _activity_of(place: TopicPartition, since_ms: int, log: ReadOnlyLog) -> PartitionActivity:
    start = log.log_start_offset
    end = max(start, replicated_end(log))
    recent = first_offset_at(log, since_ms)
    return PartitionActivity(
        place=place,
        start_offset=start,
        end_offset=end,
        recent_count=count_from(-1 if recent is None else recent, start, end),
        size=sum(one.size for one in log.segments),
    )
