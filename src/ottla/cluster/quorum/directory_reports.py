"""Which log directory each replica is in, for the controller (KIP-858).

A machine without I/O. Kafka's counterpart: `AssignmentsManager`.
"""

from collections.abc import Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

MAX_REPLICAS: Final = 2250
"""In one request (`AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST`)."""

NOT_HERE: Final = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""The broker has no such replica any more."""

Replica = tuple[Uuid, int]
"""A topic's id, and the number of a partition."""


class DirectoryReports:
    """What the controller was not told yet; a later place of a replica replaces an earlier one."""

    def __init__(self) -> None:
        self._unsent: dict[Replica, Uuid] = {}
        self._sent: dict[Replica, Uuid] = {}

    def __bool__(self) -> bool:
        return bool(self._unsent)

    def add(self, places: Mapping[Replica, Uuid | None]) -> None:
        """`None` is of a replica of which there is nothing to tell any more."""
        for replica, directory in places.items():
            if directory is None:
                self._unsent.pop(replica, None)
            else:
                self._unsent[replica] = directory

    def next_request(self, broker_id: int, broker_epoch: int) -> AssignReplicasToDirsRequest | None:
        """The oldest reports, as many as one request may have; `None` if there is nothing to
        report. It must be answered before the next one.
        """
        if not self._unsent:
            return None
        sent = dict(list(self._unsent.items())[:MAX_REPLICAS])
        for one in sent:
            del self._unsent[one]
        self._sent = sent
        directories: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, partition), directory in sent.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(partition)
        return AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=[
                AssignedDirectory(
                    id=directory,
                    topics=[
                        AssignedTopic(
                            topic_id=topic_id,
                            partitions=[AssignedPartition(partition_index=one) for one in numbers],
                        )
                        for topic_id, numbers in topics.items()
                    ],
                )
                for directory, topics in directories.items()
            ],
        )

    def answered(self, response: AssignReplicasToDirsResponse | None) -> bool:
        """Keeps what must be reported again; returns whether all was taken. `None` is no answer."""
        sent, self._sent = self._sent, {}
        if response is not None and not response.error_code:
            for directory in response.directories:
                for topic in directory.topics:
                    for one in topic.partitions:
                        if one.error_code in (ErrorCode.NONE, *NOT_HERE):
                            sent.pop((topic.topic_id, one.partition_index), None)
        for replica, place in sent.items():
            self._unsent.setdefault(replica, place)
        return not sent
