"""Topics from their files: partitions, offsets, sizes, settings, and producers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from ottla.base.partitions import TopicPartition
from ottla.broker.topics.offered_ends import replicated_end
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.client.administration.descriptions import (
    ActiveProducer,
    PartitionActivity,
    PartitionDescription,
    TopicActivity,
    TopicDescription,
    count_from,
)
from ottla.client.at_rest.known import warn_of_unknown
from ottla.config.broker import BrokerConfig
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.diagnosis.directories import read_directories
from ottla.storage.reading.locating import locate
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.time_search import first_offset_at

Answer = TypeVar("Answer")


class TopicList(Protocol):
    """Lists and describes topics: an `Admin`, or the files of a directory."""

    def describe_topics(self, *, internal: bool = False) -> list[TopicDescription]: ...

    def topic_activity(
        self, topics: Iterable[TopicDescription], since_ms: int
    ) -> list[TopicActivity]: ...

    def topics_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]: ...

    def topic_settings(self, topic: str) -> dict[str, str]: ...

    def topic_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]: ...

    def producers_of(
        self, topic: TopicDescription
    ) -> dict[TopicPartition, list[ActiveProducer]]: ...


class TopicsAtRest:
    """The topics of log directories, by their files; the methods are those of `Admin`.

    Nothing is repaired: damage that prevents an answer is raised, with the commands that help.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` if a path is not a log directory."""
        self._directories = read_directories(paths)
        self._located = locate(self._directories.opened)

    @property
    def node_id(self) -> int:
        """Id of the broker that wrote the directories; 0 if it is not stored."""
        return self._directories.opened[0].node_id

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
        """Returns `None` for a deleted topic of which files are left."""
        known = self._directories.found.known
        entry = known.entries.get(name)
        first = min(held)
        topic_id = held[first].partition(name, first).topic_id
        if topic_id in known.gone and entry is None:
            return None
        node = held[first].node_id
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
        if place not in self:
            return PartitionActivity(
                place=place, start_offset=0, end_offset=0, recent_count=0, size=None
            )
        return self.ask(place, partial(_activity_of, place, since_ms))

    def topics_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        warn_of_unknown(self._directories, topics)
        return {name: self._settings_of(name) for name in topics}

    def topic_settings(self, topic: str) -> dict[str, str]:
        return self.topics_settings([topic])[topic]

    def _settings_of(self, topic: str) -> dict[str, str]:
        config = self._directories.config(topic)
        rows = settings_of(TopicConfig).values()
        return {row.name: row.format(getattr(config, row.attribute)) for row in rows}

    def topic_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        entries = self._directories.entries
        own = {name: entries[name].overrides if name in entries else {} for name in topics}
        return {
            name: {key: value for key, value in self._settings_of(name).items() if key in own[name]}
            for name in topics
        }

    def producers_of(self, topic: TopicDescription) -> dict[TopicPartition, list[ActiveProducer]]:
        from ottla.storage.reading.producers import producers_of  # A list of topics needs none.

        return {
            place: [
                ActiveProducer(
                    producer_id=each.producer_id,
                    producer_epoch=each.epoch,
                    last_timestamp_ms=each.last_timestamp_ms,
                    transaction_start_offset=each.transaction_first_offset,
                )
                for each in self.ask(place, producers_of)
            ]
            for one in topic.partitions
            if (place := TopicPartition(topic.name, one.partition)) in self
        }

    @property
    def broker(self) -> BrokerConfig:
        """The broker's settings, as far as the directories have them."""
        return self._directories.broker

    def places_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic in these directories."""
        return [TopicPartition(topic, one) for one in sorted(self._located.get(topic, ()))]

    def directory_of(self, place: TopicPartition) -> str:
        """The log directory that has a partition of these directories, or had it."""
        return self._located[place.topic][place.partition].path

    def __contains__(self, place: TopicPartition) -> bool:
        return place.partition in self._located.get(place.topic, ())

    def ask(self, place: TopicPartition, question: Callable[[ReadOnlyLog], Answer]) -> Answer:
        """Calls a function with a partition's log, which must be in these directories."""
        directory = self._located[place.topic][place.partition]
        return ask_log(partial(directory.partition, *place), question)


def bounds_of(log: ReadOnlyLog) -> tuple[int, int]:
    """The first offset, and the high watermark."""
    start = log.log_start_offset
    return start, max(start, replicated_end(log))


def _activity_of(place: TopicPartition, since_ms: int, log: ReadOnlyLog) -> PartitionActivity:
    start, end = bounds_of(log)
    recent = first_offset_at(log, since_ms)
    return PartitionActivity(
        place=place,
        start_offset=start,
        end_offset=end,
        recent_count=count_from(-1 if recent is None else recent, start, end),
        size=sum(one.size for one in log.segments),
    )
