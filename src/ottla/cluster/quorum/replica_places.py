"""Finds the replicas that are in another log directory than the metadata says (KIP-858).

Used under the broker's lock. A move is told after it, where Kafka tells it before. Kafka's
counterparts: `AssignmentsManager`, `ReplicaAlterLogDirsThread.PromotionState`.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topics
from ottla.cluster.quorum.directory_reports import Replica
from ottla.metadata.directories import LOST, directory_of, is_online
from ottla.metadata.image import FIRST_WITH_DIRECTORIES, TopicImage

LOOKED_AT_ONCE: Final = 500
"""Replicas that are looked at under the lock: about a millisecond."""


class PlacedBroker(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def image_store(self) -> ImageStore: ...


class ReplicaPlaces:
    """Is told of what images change, and of moves between the broker's directories.

    A replica without a log that can be used is told as lost, so that another one leads: Kafka takes
    the whole directory of a damaged log offline. `why_not_here` returns the reason if there is one.
    """

    def __init__(
        self, broker: PlacedBroker, why_not_here: Callable[[TopicPartition, Uuid], str | None]
    ) -> None:
        self._broker = broker
        self._why_not_here = why_not_here
        self._to_look_at: dict[TopicPartition, None] = {}

    def __bool__(self) -> bool:
        return self.tells_lost() and bool(self._to_look_at)

    def tells_lost(self) -> bool:
        """Whether the cluster's level has directories, among them that of what is lost."""
        return self._broker.image_store.image.level >= FIRST_WITH_DIRECTORIES

    def followed(self, partitions: Iterable[TopicPartition]) -> None:
        """The image has changed them. Also what is led by nobody here is looked at: a directory may
        fail once a log was made in it, and the controller only learns so where the replica is.
        """
        self._to_look_at.update(dict.fromkeys(partitions))

    def moved(self, partition: Partition) -> None:
        self._to_look_at[TopicPartition(partition.topic, partition.index)] = None

    def take_places(self) -> dict[Replica, Uuid | None]:
        """Where replicas are that the metadata has elsewhere, and `None` for those that are where
        it has them; to be asked again while there are some to look at.
        """
        found: dict[Replica, Uuid | None] = {}
        image, topics = self._broker.image_store.image, self._broker.topics
        for place in list(self._to_look_at)[:LOOKED_AT_ONCE]:
            del self._to_look_at[place]
            known, topic = image.topics.get(place.topic), topics.find(place.topic)
            if known is None or place.partition not in known.partitions:
                continue
            replica = known.topic_id, place.partition
            if self._is_lost(place, known):
                found[replica] = LOST
                continue
            if topic is None:
                continue
            if known.topic_id != topic.topic_id:
                # An earlier one, which is deleted next unless its directory has failed: then no
                # log of that name can be made before the next start.
                if topic.leaderless_indexes:
                    found[replica] = LOST
                continue
            here = topic.partitions.get(place.partition)
            if here is None:
                continue
            # Also in one that has failed meanwhile: only so the controller knows what has failed.
            directory_id = here.directory.directory_id
            assigned = directory_of(known.partitions[place.partition], self._broker.node_id)
            has_reason = self._why_not_here(place, known.topic_id) is not None
            found[replica] = None if has_reason or directory_id == assigned else directory_id
        return found

    def _is_lost(self, place: TopicPartition, known: TopicImage) -> bool:
        """Whether the metadata takes a replica for one that can be led, and it cannot."""
        own_id, partition = self._broker.node_id, known.partitions[place.partition]
        if own_id not in partition.replicas:
            return False
        registered = self._broker.image_store.image.brokers.get(own_id)
        is_taken_for_sound = registered is not None and is_online(
            registered, directory_of(partition, own_id)
        )
        return is_taken_for_sound and self._why_not_here(place, known.topic_id) is not None
