"""Replicas of partitions on several brokers: their log ends, and moves between brokers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.asking import TIMEOUT_MS, Asking, check_all, refused
from ottla.client.bulk.reading import LATEST, by_partition, offsets_request
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)

DEBUGGING_REPLICA: Final = -2
"""With this replica id any replica reports its log end offset, not only the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is being moved: all its replicas, and those that are added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaAdmin(Asking):
    """Questions about replicas, and moves of them."""

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions that are being moved to other brokers. Raises `RefusedError`.

        >>> admin.list_partition_reassignments()
        {}
        """
        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS)
        # Each broker of a KRaft cluster asks the controller; others that are none say so.
        answer = self._cluster.ask_any(
            lambda broker: self._cluster.ask_through(broker, lambda one: one.ask(request))
        )
        if answer.error_code:
            raise refused("reassignments", answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                replicas=tuple(one.replicas),
                adding=tuple(one.adding_replicas),
                removing=tuple(one.removing_replicas),
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        """Moves partitions to brokers, the preferred leader first; `None` cancels a move.

        Returns once the moves have begun: brokers copy in the background. Raises `RefusedError`.

        >>> cluster = admin.describe_cluster()
        >>> broker, = cluster.brokers
        >>> admin.alter_partition_reassignments({ottla.TopicPartition("orders", 0): [broker]})
        """
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=one.partition, replicas=_listed(replicas[one])
                        )
                        for one in same
                    ],
                )
                for topic, same in groupby(sorted(replicas), lambda one: one.topic)
            ],
            timeout_ms=TIMEOUT_MS,
        )
        answer = self._cluster.ask_controller(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("reassignments", answer.error_code, answer.error_message)
        check_all({str(place): one for place, one in by_partition(answer.responses).items()})

    def replica_end_offsets(
        self, broker: int, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The log end offsets of one broker's replicas, leaders and followers.

        A replica that the broker cannot read is left out.

        >>> cluster = admin.describe_cluster()
        >>> broker, = cluster.brokers
        >>> admin.replica_end_offsets(broker, [ottla.TopicPartition("orders", 0)])
        {TopicPartition(topic='orders', partition=0): 3}
        """
        request = offsets_request(dict.fromkeys(places, LATEST), replica_id=DEBUGGING_REPLICA)
        answer = self._cluster.broker(broker).ask(request)
        return {
            place: one.offset
            for place, one in by_partition(answer.topics).items()
            if one.error_code == ErrorCode.NONE
        }

    def eligible_leader_replicas(
        self, topics: Sequence[str]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas of partitions that are not in sync, and may lead without losing records
        (ELR, KIP-966); partitions without any are left out, and all where there is no ELR.

        >>> admin.eligible_leader_replicas(["orders"])
        {}
        """
        found: dict[TopicPartition, tuple[int, ...]] = {}
        if not self._cluster.ask_any(lambda one: one.answers(ApiKey.DESCRIBE_TOPIC_PARTITIONS)):
            return found
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=one) for one in topics])
        while True:
            answer = self._cluster.ask_any(lambda broker: broker.ask(request))
            found |= {
                TopicPartition(topic.name or "", one.partition_index): tuple(
                    one.eligible_leader_replicas
                )
                for topic in answer.topics
                for one in topic.partitions
                if one.eligible_leader_replicas
            }
            if answer.next_cursor is None:
                return found
            request.cursor = answer.next_cursor


def _listed(brokers: Sequence[int] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)
