"""Writes topics into the metadata log: created, extended, configured and deleted ones.

A topic that exists on the disks without a record is not written until a user has confirmed its
settings (`Unconfirmed`); the image shows it nevertheless, since it is served.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import in_a_turn, parts_in_turns
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.topics.topics import Topic
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.metadata.cluster_view import NO_EPOCH, NO_LEADER
from ottla.metadata.image import FIRST_WITH_DIRECTORIES, Configs, PartitionImage, TopicImage
from ottla.storage.files.known_topics import TopicEntry

if TYPE_CHECKING:
    from ottla.metadata.image_changes import VersionedRecord


class Log(Protocol):
    """The part of `MetadataLog` that topics need."""

    @property
    def level(self) -> int: ...

    def check(self) -> None: ...

    def commit(self, records: "Iterable[VersionedRecord]") -> None: ...


class TopicChanges:
    """The records and images of topics, whose partitions have this broker as their only replica."""

    def __init__(self, node_id: int, directory_id: Uuid | None) -> None:
        """`directory_id` is that of the only log directory; of several, Kafka's broker reports
        to its controller where each partition is.
        """
        self._node_id = node_id
        self._directory_id = directory_id or ZERO_UUID
        self._images: dict[int, PartitionImage] = {}
        """The partitions with the same leader epoch have the same image."""

    def image_of(self, topic: Topic) -> TopicImage:
        """This broker leads what is at hand, in the epoch of its log."""
        partitions = {}
        for index in topic.known_indexes:
            found = topic.partitions.get(index)
            epoch = NO_EPOCH if found is None else found.leader_epoch
            partitions[index] = self._images.get(epoch) or self._image_in(epoch)
        return TopicImage(topic.name, topic.topic_id, partitions, topic.overrides)

    def _image_in(self, epoch: int) -> PartitionImage:
        is_here, replicas = epoch != NO_EPOCH, (self._node_id,)
        image = self._images[epoch] = PartitionImage(
            replicas=replicas,
            isr=replicas,
            leader=self._node_id if is_here else NO_LEADER,
            leader_epoch=epoch,
            partition_epoch=0,
            offline=() if is_here else replicas,
        )
        return image

    def created(
        self, entry: TopicEntry, level: int, epochs: Mapping[int, int] | None = None
    ) -> "Iterator[VersionedRecord]":
        """`epochs` are the leader epochs of partitions that exist already."""
        from ottla.metadata.records import TopicRecord  # Lazy, as in `MetadataLog`.

        yield TopicRecord(name=entry.name, topic_id=entry.topic_id), 0
        yield from self.grown(entry, range(entry.partition_count), level, epochs)
        yield from configured(entry.name, {}, entry.overrides)

    def grown(
        self,
        entry: TopicEntry,
        indexes: Iterable[int],
        level: int,
        epochs: Mapping[int, int] | None = None,
    ) -> "Iterator[VersionedRecord]":
        from ottla.metadata.records import PartitionRecord

        version = 1 if level >= FIRST_WITH_DIRECTORIES else 0
        for index in indexes:
            yield (
                PartitionRecord(
                    partition_id=index,
                    topic_id=entry.topic_id,
                    replicas=[self._node_id],
                    isr=[self._node_id],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=self._node_id,
                    leader_epoch=(epochs or {}).get(index, 0),
                    partition_epoch=0,
                    directories=[self._directory_id] if version else [],
                ),
                version,
            )


def configured(topic: str, before: Configs, after: Configs) -> "Iterator[VersionedRecord]":
    from ottla.metadata.image_changes import config_records

    return config_records(ResourceKind.TOPIC, topic, before, after)


def deleted(entry: TopicEntry) -> "Iterator[VersionedRecord]":
    from ottla.metadata.records import RemoveTopicRecord

    # Apache Kafka 3.9 gives the settings of a deleted topic to a later topic of the same name if it
    # replays both in one delta.
    yield from configured(entry.name, entry.overrides, {})
    yield RemoveTopicRecord(topic_id=entry.topic_id), 0


class TopicRecords:
    """Each method but `show` makes its change durable, and raises `ApiError` and `StorageError`."""

    def __init__(
        self, log: Log, image: ImageStore, changes: TopicChanges, unconfirmed: Unconfirmed
    ) -> None:
        self._log = log
        self._image = image
        self._changes = changes
        self.unconfirmed = unconfirmed

    def show(self, names: Iterable[str], find: Callable[[str], Topic | None]) -> None:
        """Has the image show topics as `find` returns them; `None` is one that is gone."""
        for part in parts_in_turns(names) if in_a_turn() else [list(names)]:
            found = ((name, find(name)) for name in part)
            self._image.show_topics(
                (name, None if topic is None else self._changes.image_of(topic))
                for name, topic in found
            )

    def check(self) -> None:
        """Raises `ApiError` or `StorageError` if nothing can be changed."""
        self._log.check()

    def create(self, topics: Sequence[Topic]) -> None:
        """Records new topics, but for those whose settings are not known."""
        is_unknown = self.unconfirmed.is_unknown
        self._log.commit(self._creating([one for one in topics if not is_unknown(one.name)]))

    def confirm(self, topics: Sequence[Topic]) -> None:
        """Records topics that are on the disks, with the leader epochs of their logs."""
        new = [one for one in topics if self.unconfirmed.is_unknown(one.name)]
        self._log.commit(self._creating(new))
        for topic in new:
            self.unconfirmed.forget(topic.name)

    def _creating(self, topics: Sequence[Topic]) -> "Iterator[VersionedRecord]":
        for topic in topics:
            epochs = {
                index: one.log.epochs.latest_epoch or 0 for index, one in topic.partitions.items()
            }
            yield from self._changes.created(topic.entry(), self._log.level, epochs)

    def grow(self, growing: Sequence[tuple[Topic, int]]) -> None:
        """Records the partitions of topics above their old counts."""
        self._log.commit(
            record
            for topic, old_count in growing
            if not self.unconfirmed.is_unknown(topic.name)
            for record in self._changes.grown(
                topic.entry(), range(old_count, topic.partition_count), self._log.level
            )
        )

    def configure(self, topic: Topic, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self.unconfirmed.check_known(topic.name)
        self._log.commit(configured(topic.name, before, after))

    def replace(self, entry: TopicEntry) -> None:
        """Removes the record of a topic of which the disks have another one of the same name."""
        self._log.commit(deleted(entry))

    def delete(self, entries: Sequence[TopicEntry]) -> None:
        self._log.commit(
            record
            for entry in entries
            if not self.unconfirmed.is_unknown(entry.name)
            for record in deleted(entry)
        )
        for entry in entries:
            self.unconfirmed.forget(entry.name)
