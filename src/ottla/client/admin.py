"""A synchronous admin client: typed questions about directories, settings, offsets, transactions.

Commands ask through it, and hold no request or response themselves. Kafka's counterparts: `Admin`,
with `describeProducers`, `listTransactions`, `describeTransactions` and `abortTransaction` of
KIP-664.
"""

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.cluster import check
from ottla.client.connection import Connection
from ottla.client.reading import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.config.broker import broker_settings
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)
from ottla.storage.diagnosis.open_transactions import (
    NO_COORDINATOR,
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
    PartitionHeld,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
OF_THE_TOPIC = 1

MAX_TIMESTAMP = -3

FENCE_TRIES = 100
FENCE_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryDescription:
    """A log directory as a broker describes it; sizes are -1 where the broker does not say."""

    path: str
    error: ErrorCode
    total_size: int
    usable_size: int
    sizes: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


class AdminClient:
    """Asks one broker; raises `UserError` for whatever the broker refuses."""

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

    def log_directories(self) -> list[LogDirectoryDescription]:
        answer = self._connection.ask(DescribeLogDirsRequest(topics=None))
        return [
            LogDirectoryDescription(
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
            )
            for one in answer.results
        ]

    def partitions(self, topics: Sequence[str] | None) -> dict[str, list[int]]:
        """The partitions of some topics, or of all."""
        names = None if topics is None else [MetadataRequestTopic(name=one) for one in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        found = {}
        for topic in self._connection.ask(request).topics:
            if topic.error_code:
                raise self._refused(f"topic {topic.name}", topic.error_code)
            found[topic.name] = sorted(one.partition_index for one in topic.partitions)
        return found

    def offsets(
        self,
        topic: str,
        partitions: list[int],
        timestamp: int,
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[int, tuple[int, int]]:
        """Offset and timestamp by partition; partitions that are refused are left out."""
        asked = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in partitions
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        )
        return {
            one.partition_index: (one.offset, one.timestamp)
            for answered in self._connection.ask(request).topics
            for one in answered.partitions
            if one.error_code == ErrorCode.NONE
        }

    # Settings

    def topic_settings(self, topic: str) -> dict[str, str]:
        """All settings of a topic that are known here, defaults included."""
        return self._settings(TOPIC_RESOURCE, topic, settings_of(TopicConfig))

    def topic_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """For each topic the settings that are its own, not a default; raises `ApiError`."""
        found = {}
        for result in self._configs(TOPIC_RESOURCE, topics) if topics else ():
            check(result.error_code, result.error_message)
            found[result.resource_name] = {
                one.name: one.value
                for one in result.configs
                if one.config_source == OF_THE_TOPIC and one.value is not None
            }
        return found

    def broker_settings(self) -> dict[str, str]:
        """All settings of the broker that are known here, defaults included."""
        return self._settings(BROKER_RESOURCE, str(self.node_ids[0]), broker_settings())

    def _settings(self, kind: int, name: str, known: Container[str]) -> dict[str, str]:
        (result,) = self._configs(kind, [name])
        if result.error_code:
            raise self._refused(name, result.error_code, result.error_message)
        return {
            one.name: one.value
            for one in result.configs
            if one.name in known and one.value is not None
        }

    def _configs(self, kind: int, names: Sequence[str]) -> list[DescribeConfigsResult]:
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in names
        ]
        answer = self._connection.ask(DescribeConfigsRequest(resources=resources))
        results: list[DescribeConfigsResult] = answer.results
        return results

    # Producers in partitions

    def open_transactions(self, partitions: Mapping[str, Iterable[int]]) -> list[Holding]:
        """The transactions that are open in partitions."""
        return [
            Holding(
                topic=topic,
                partition=index,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                first_offset=one.current_transaction_start_offset,
                began_ms=None,
                last_timestamp_ms=one.last_timestamp,
            )
            for (topic, index), producers in self._producers(partitions).items()
            for one in producers
            if one.current_transaction_start_offset >= 0
        ]

    def held_partitions(self, topic: str) -> list[PartitionHeld]:
        """How far each partition of a topic is stable, and what is open after that."""
        partitions = self.partitions([topic])[topic]
        holdings = self.open_transactions({topic: partitions})
        stable = self.offsets(topic, partitions, LATEST, isolation_level=READ_COMMITTED)
        ends = self.offsets(topic, partitions, LATEST, isolation_level=READ_UNCOMMITTED)
        for index in partitions:
            if index not in stable or index not in ends:
                reason = ErrorCode.NOT_LEADER_OR_FOLLOWER.description
                raise UserError(
                    f"{self.address}: {topic}-{index}: {reason} Ask the broker that leads it."
                )
        return [
            PartitionHeld(
                topic=topic,
                partition=index,
                where=f"{topic}-{index}",
                last_stable_offset=stable[index][0],
                end_offset=ends[index][0],
                holdings=sorted(
                    (one for one in holdings if one.partition == index),
                    key=lambda one: one.first_offset,
                ),
            )
            for index in partitions
        ]

    def abort_at(self, topic: str, partition: int, start_offset: int) -> int:
        """Ends a transaction in one partition, whatever its coordinator knows; its producer id."""
        producers = self._producers({topic: [partition]})[TopicPartition(topic, partition)]
        starts = {one.current_transaction_start_offset: one for one in producers}
        found = starts.get(start_offset) if start_offset >= 0 else None
        if found is None:
            known = ", ".join(str(one) for one in sorted(starts) if one >= 0)
            raise UserError(
                f"{topic}-{partition}: no transaction is open from offset {start_offset}; open "
                f"ones begin at {known or 'none'}"
            )
        marker = WritableTransactionMarker(
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_result=False,
            topics=[WritableTransactionMarkerTopic(name=topic, partition_indexes=[partition])],
            # No coordinator has ended a transaction there before: any epoch will do.
            coordinator_epoch=max(found.coordinator_epoch, 0),
        )
        answer = self._connection.ask(WriteTransactionMarkersRequest(markers=[marker]))
        for answered in answer.markers:
            for one in (one for each in answered.topics for one in each.partitions):
                if one.error_code:
                    raise self._refused(f"{topic}-{partition}", one.error_code)
        return found.producer_id

    def _producers(
        self, partitions: Mapping[str, Iterable[int]]
    ) -> dict[TopicPartition, list[ProducerState]]:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=list(indexes))
                for topic, indexes in partitions.items()
            ]
        )
        found = {}
        for topic in self._connection.ask(request).topics:
            for one in topic.partitions:
                if one.error_code:
                    where = f"{topic.name}-{one.partition_index}"
                    raise self._refused(where, one.error_code, one.error_message)
                found[TopicPartition(topic.name, one.partition_index)] = one.active_producers
        return found

    # Transactions at their coordinator

    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> list[ListedTransaction]:
        """The transactional ids that the broker coordinates; empty filters pass all."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids)
        )
        answer = self._connection.ask(request)
        if answer.error_code:
            raise self._refused("transactions", answer.error_code)
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise UserError(f"{self.address} knows no state {unknown}; one is Ongoing")
        found = [
            ListedTransaction(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                state=one.transaction_state,
            )
            for one in answer.transaction_states
        ]
        return sorted(found, key=lambda one: one.transactional_id)

    def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> list[CoordinatedTransaction]:
        """Each of some ids."""
        for one in (described := self._described(transactional_ids)):
            if one.error_code:
                reason = ErrorCode(one.error_code).description
                raise UserError(
                    f"transactional id {one.transactional_id}: {reason} See ottla transactions list"
                )
        return [_coordinated(one) for one in described]

    def coordinator_view(self) -> CoordinatorView:
        """All that this broker coordinates; nothing is known if it does not answer that."""
        if not self._connection.answers(ApiKey.LIST_TRANSACTIONS):
            return NO_COORDINATOR
        described = self._described([one.transactional_id for one in self.list_transactions()])
        # An id may expire between the two requests.
        known = [_coordinated(one) for one in described if not one.error_code]
        return CoordinatorView(transactions=known, is_complete=True)

    def fence(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Aborts what is open and shuts the producer out; the new producer id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        for _ in range(FENCE_TRIES):
            answer = self._connection.ask(request)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            # The open transaction is being aborted, and the new epoch comes after that.
            time.sleep(FENCE_PAUSE_S)
        if answer.error_code:
            raise self._refused(f"transactional id {transactional_id}", answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _described(self, transactional_ids: Sequence[str]) -> list[TransactionState]:
        if not transactional_ids:
            return []
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        found: list[TransactionState] = self._connection.ask(request).transaction_states
        return found

    def _refused(self, what: str, code: int, message: str | None = None) -> UserError:
        return UserError(f"{self.address}: {what}: {message or ErrorCode(code).description}")


def _coordinated(one: TransactionState) -> CoordinatedTransaction:
    return CoordinatedTransaction(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        state=one.transaction_state,
        timeout_ms=one.transaction_timeout_ms,
        start_ms=one.transaction_start_time_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions
        ),
    )
