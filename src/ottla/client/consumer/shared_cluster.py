"""A `Cluster` that the threads of one consumer share: one request at a time.

Long requests, a fetch or a rebalance, use the thread's own connection (`connect_to`).
"""

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import (
    Committed,
    GroupMemberId,
    commit_offsets,
    committed_by,
)
from ottla.client.bulk.reading import epoch_end_offset, list_offsets
from ottla.client.connecting.cluster import Cluster, ClusterTopic, CoordinatorKind, PartitionLeader
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import UnknownTopicError
from ottla.protocol.messages.metadata import MetadataRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """Topics as they are now: partition counts, and names by id."""

    counts: Mapping[str, int]
    ids: Mapping[bytes, str]


class SharedCluster:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.RLock()

    def close(self) -> None:
        with self._lock:
            self._cluster.close()

    def connect_to(self, node_id: int) -> Connection:
        """A connection for the calling thread alone, which closes it; raises `UnreachableError`."""
        with self._lock:
            return self._cluster.connect_to(node_id)

    def sleep(self, seconds: float) -> None:
        self._cluster.sleep(seconds)

    def coordinator_of(self, group: str) -> int:
        with self._lock:
            return self._cluster.coordinator_id(CoordinatorKind.GROUP, group)

    def ask_coordinator(self, group: str, question: Callable[[Connection], T]) -> T:
        with self._lock:
            return self._cluster.ask_coordinator(CoordinatorKind.GROUP, group, question)

    def leaders(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeader]:
        with self._lock:
            return self._cluster.leaders(partitions)

    def epoch_end_offset(self, place: TopicPartition, epoch: int) -> int | None:
        """Where the last leader epoch up to the given one ended; `None` if the leader does not
        know.
        """
        with self._lock:
            return self._cluster.ask_leader(
                *place, lambda broker: epoch_end_offset(broker, *place, epoch)
            )

    def topics(self, names: Collection[str]) -> ClusterTopics:
        """The existing ones of some topics."""
        with self._lock:
            return _topics(self._cluster.look_up(names).values()) if names else _topics(())

    def topics_like(self, pattern: re.Pattern[str]) -> ClusterTopics:
        """Topics whose names match a regular expression, without Kafka's internal ones."""
        with self._lock:
            names = [one for one in self._cluster.topic_names() if pattern.match(one)]
            found = self._cluster.look_up(names).values() if names else ()
            return _topics(one for one in found if not one.is_internal)

    def topic_names(self) -> list[str]:
        with self._lock:
            return self._cluster.topic_names()

    def topics_with_ids(self, ids: Collection[bytes]) -> ClusterTopics:
        """Topics by id, found among all topics; an id without a topic is left out."""
        with self._lock:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            answer = self._cluster.ask_any(lambda broker: broker.ask(request))
            found = {bytes(one.topic_id): one.name for one in answer.topics}
            return ClusterTopics({}, {one: found[one] for one in ids if one in found})

    def check_topic(self, name: str, partition: int = -1) -> int:
        """The topic's partition count. Raises `UnknownTopicError`, and `UserError` if it does not
        have that partition.
        """
        with self._lock:
            found = self._cluster.look_for(name)
            if found is None:
                raise UnknownTopicError(name, self._cluster.topic_names())
        count = len(found.leaders)
        if partition >= count:
            place = TopicPartition(name, partition)
            raise UserError(f"there is no partition {place}; the topic has {count}")
        return count

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, int]:
        """Offsets at times or ends; -1 if no record is that late."""

        def ask() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for leader, places in self._cluster.by_leader(wanted):
                asked = {one: wanted[one] for one in places}
                listed = list_offsets(leader, asked, isolation_level=isolation_level)
                found.update({place: one.offset for place, one in listed.items()})
            return found

        with self._lock:
            try:
                return self._cluster.again(ask)
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                for place in wanted:
                    if place.partition >= self.check_topic(place.topic):
                        raise UserError(f"there is no partition {place}") from error
                raise

    def committed(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        member: GroupMemberId,
    ) -> dict[TopicPartition, Committed]:
        """The group's committed offsets of some partitions; raises `ApiError`, also for those that
        an open transaction is about to move.
        """
        found = self.ask_coordinator(
            group,
            lambda broker: list(
                committed_by(broker, group, partitions, member=member, require_stable=True)
            ),
        )
        return {TopicPartition(one.topic, one.partition): one for one in found}

    def commit(self, offsets: Collection[Committed], member: GroupMemberId, group: str) -> None:
        self.ask_coordinator(group, lambda broker: commit_offsets(broker, list(offsets), member))


def _topics(found: Iterable[ClusterTopic]) -> ClusterTopics:
    topics = list(found)
    return ClusterTopics(
        {one.name: len(one.leaders) for one in topics},
        {bytes(one.topic_id): one.name for one in topics if one.topic_id is not None},
    )
