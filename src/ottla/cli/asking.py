"""What commands ask a running broker: its directories, settings and offsets."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import OsFileSystem, join
from ottla.client.connection import Connection
from ottla.config.broker import broker_settings
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.storage.files.filenames import META_PROPERTIES
from ottla.storage.files.meta_properties import read_meta_properties

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldDirectory:
    """A log directory as a broker describes it; sizes are -1 where it does not say."""

    path: str
    error: ErrorCode
    total_size: int
    usable_size: int
    sizes: Mapping[tuple[str, int], int]


class Questions:
    """Questions to one broker; raises `UserError` for whatever is refused."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cluster_id: str | None = None
        self._node_ids: list[int] = []

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def node_ids(self) -> list[int]:
        self.cluster_id()
        return self._node_ids

    def cluster_id(self) -> str:
        if self._cluster_id is None:
            answer = self._connection.ask(DescribeClusterRequest())
            self._cluster_id = answer.cluster_id
            self._node_ids = [one.broker_id for one in answer.brokers]
        return self._cluster_id

    def directories(self) -> list[ToldDirectory]:
        answer = self._connection.ask(DescribeLogDirsRequest(topics=None))
        return [
            ToldDirectory(
                path=one.log_dir,
                error=ErrorCode(one.error_code),
                total_size=one.total_bytes,
                usable_size=one.usable_bytes,
                sizes={
                    (topic.name, partition.partition_index): partition.partition_size
                    for topic in one.topics
                    for partition in topic.partitions
                    if not partition.is_future_key
                },
            )
            for one in answer.results
        ]

    def are_here(self, directories: list[ToldDirectory]) -> bool:
        """Whether those are directories of this machine, of the cluster that tells of them."""
        return all(self._is_here(one.path) for one in directories if one.error is ErrorCode.NONE)

    def _is_here(self, path: str) -> bool:
        try:
            properties = read_meta_properties(OsFileSystem(), join(path, META_PROPERTIES))
        except (OSError, CorruptionError):
            return False
        return properties is not None and properties.cluster_id == self.cluster_id()

    def topic_settings(self, topic: str) -> dict[str, str]:
        rows = settings_of(TopicConfig)
        told = self._settings(TOPIC_RESOURCE, topic)
        return {name: text for name, text in told.items() if name in rows}

    def broker_settings(self) -> dict[str, str]:
        told = self._settings(BROKER_RESOURCE, str(self.node_ids[0]))
        return {name: text for name, text in told.items() if name in broker_settings()}

    def _settings(self, kind: int, name: str) -> dict[str, str]:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        answer = self._connection.ask(DescribeConfigsRequest(resources=[resource]))
        (result,) = answer.results
        if result.error_code:
            reason = result.error_message or ErrorCode(result.error_code).description
            raise UserError(f"{self.address}: {name}: {reason}")
        return {one.name: one.value for one in result.configs if one.value is not None}

    def offsets(
        self,
        topic: str,
        partitions: list[int],
        timestamp: int,
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[int, tuple[int, int]]:
        """Offset and timestamp by partition; those that are refused are left out."""
        asked = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in partitions
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        )
        answer = self._connection.ask(request)
        return {
            one.partition_index: (one.offset, one.timestamp)
            for told in answer.topics
            for one in told.partitions
            if one.error_code == ErrorCode.NONE
        }
