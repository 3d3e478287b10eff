"""The disks of brokers: directories, their sizes, and moves between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import groupby

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.asking import Asking, check_all, refused
from ottla.client.connecting.cluster import KNOWS_NOBODY
from ottla.client.connecting.connection import Connection
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)

FIRST_WITH_FENCED = 2
"""Version of DescribeCluster that tells of fenced brokers too (KIP-1073)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingReplica:
    """A replica that is being copied into a directory: its size, and its lag in offsets."""

    size: int
    offset_lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryDescription:
    """A log directory as described by a broker; sizes are -1 if the broker does not report them."""

    broker: int
    path: str
    error: ErrorCode
    total_size: int
    usable_size: int
    sizes: Mapping[TopicPartition, int]
    moving: Mapping[TopicPartition, MovingReplica]
    """Partitions that are being moved into the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster: its id, and its brokers' addresses and racks by their ids."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, tuple[str, int]]
    racks: Mapping[int, str] = field(default_factory=dict)
    fenced: frozenset[int] = frozenset()
    """Brokers of a KRaft cluster that are registered and not up; they are not in `brokers`."""


class LogDirectoryAdmin(Asking):
    """Questions about brokers and their disks."""

    def describe_cluster(self, *, broker: int | None = None) -> ClusterDescription:
        """The cluster and its brokers. Raises `RefusedError`. `broker` is the id of the broker to
        ask, which may not know all others yet.

        >>> cluster = admin.describe_cluster()
        >>> list(cluster.brokers)
        [1]
        """
        cluster = self._cluster
        if broker is None:
            answer = cluster.ask_any(_describe)
        else:
            answer = cluster.again(lambda: _describe(cluster.broker(broker)))
        if answer.error_code:
            raise refused("cluster", answer.error_code, answer.error_message)
        up = [one for one in answer.brokers if not one.is_fenced]
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers={one.broker_id: (one.host, one.port) for one in up},
            racks={one.broker_id: one.rack for one in up if one.rack},
            fenced=frozenset(one.broker_id for one in answer.brokers if one.is_fenced),
        )

    def cluster_id(self) -> str:
        """The cluster's id. Raises `RefusedError`.

        >>> cluster_id = admin.cluster_id()
        >>> len(cluster_id)
        22
        """
        return self.describe_cluster().cluster_id

    def log_directories(
        self,
        partitions: Mapping[str, Sequence[int]] | None = None,
        *,
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[LogDirectoryDescription]:
        """The log directories of all brokers, with the sizes of some topics' partitions, or all.
        Raises `UnreachableError` if a broker does not answer; with `on_unreachable` that is called
        instead, and the broker's directories are left out.

        >>> directory, = admin.log_directories()
        >>> directory.sizes[ottla.TopicPartition("orders", 0)]
        238
        """
        wanted = None
        if partitions is not None:
            wanted = [
                DescribableLogDirTopic(topic=topic, partitions=list(indexes))
                for topic, indexes in partitions.items()
            ]
        request = DescribeLogDirsRequest(topics=wanted)

        def ask(node_id: int, broker: Connection) -> list[LogDirectoryDescription]:
            return [_described(node_id, one) for one in broker.ask(request).results]

        return [one for each in self._of_brokers(ask, on_unreachable) for one in each]

    def move_partitions(self, broker: int, places: Mapping[TopicPartition, str]) -> None:
        """Moves partitions of a broker to other directories of the same broker. Raises
        `RefusedError`. The broker copies in the background, and switches over when the copy has
        caught up.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> directory, = admin.log_directories()
        >>> admin.move_partitions(directory.broker, {place: directory.path})
        """
        by_path = sorted(places, key=lambda one: (places[one], one))
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(
                            name=topic, partitions=[one.partition for one in same]
                        )
                        for topic, same in groupby(several, lambda one: one.topic)
                    ],
                )
                for path, several in groupby(by_path, lambda one: places[one])
            ]
        )
        answer = self._cluster.broker(broker).ask(request)
        check_all(
            {
                f"{topic.topic_name}-{one.partition_index}": one
                for topic in answer.results
                for one in topic.partitions
            }
        )


def _describe(broker: Connection) -> DescribeClusterResponse:
    request = DescribeClusterRequest()
    if broker.version_of(ApiKey.DESCRIBE_CLUSTER) >= FIRST_WITH_FENCED:
        request.include_fenced_brokers = True
    answer: DescribeClusterResponse = broker.ask(request)
    if not answer.error_code and all(one.is_fenced for one in answer.brokers):
        raise UnreachableError(f"{broker.address}: {KNOWS_NOBODY}")
    return answer


def _described(node_id: int, one: DescribeLogDirsResult) -> LogDirectoryDescription:
    return LogDirectoryDescription(
        broker=node_id,
        path=one.log_dir,
        error=ErrorCode(one.error_code),
        total_size=one.total_bytes,
        usable_size=one.usable_bytes,
        sizes={
            TopicPartition(topic.name, partition.partition_index): partition.partition_size
            for topic in one.topics
            for partition in topic.partitions
            if not partition.is_future_key
        },
        moving={
            TopicPartition(topic.name, partition.partition_index): MovingReplica(
                size=partition.partition_size, offset_lag=partition.offset_lag
            )
            for topic in one.topics
            for partition in topic.partitions
            if partition.is_future_key
        },
    )
