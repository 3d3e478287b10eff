"""What commands ask a running broker about transactions, and what they tell it to end.

Kafka's counterparts: `Admin.describeProducers`, `listTransactions`, `describeTransactions` and
`abortTransaction` (KIP-664).
"""

import time
from collections.abc import Iterable, Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.cli.open_transactions import (
    NO_COORDINATOR,
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
)
from ottla.client.connection import Connection
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.list_transactions import TransactionState as Listed
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)

FENCE_TRIES = 100
FENCE_PAUSE_S = 0.1


class TransactionQuestions:
    """Questions to one broker; raises `UserError` for whatever is refused."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        return self._connection.address

    def partitions(self, topics: Sequence[str] | None) -> dict[str, list[int]]:
        """The partitions of some topics, or of all."""
        names = None if topics is None else [MetadataRequestTopic(name=one) for one in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        found = {}
        for topic in self._connection.ask(request).topics:
            if topic.error_code:
                raise self._refused(f"topic {topic.name}", topic.error_code)
            indexes = (one.partition_index for one in topic.partitions)
            found[topic.name] = sorted(indexes)
        return found

    # Producers in partitions

    def producers(
        self, partitions: Mapping[str, Iterable[int]]
    ) -> dict[tuple[str, int], list[ProducerState]]:
        """What each partition remembers of its producers."""
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
                found[topic.name, one.partition_index] = one.active_producers
        return found

    def holdings(self, partitions: Mapping[str, Iterable[int]]) -> list[Holding]:
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
            for (topic, index), producers in self.producers(partitions).items()
            for one in producers
            if one.current_transaction_start_offset >= 0
        ]

    def write_abort_marker(self, topic: str, partition: int, producer: ProducerState) -> None:
        """Ends a transaction in one partition, whatever its coordinator thinks."""
        where = WritableTransactionMarkerTopic(name=topic, partition_indexes=[partition])
        marker = WritableTransactionMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[where],
            # No coordinator has ended one there before: any epoch will do.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        answer = self._connection.ask(WriteTransactionMarkersRequest(markers=[marker]))
        for told in answer.markers:
            for one in (one for each in told.topics for one in each.partitions):
                if one.error_code:
                    raise self._refused(f"{topic}-{partition}", one.error_code)

    # Transactions at their coordinator

    def fence(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Aborts what is open and shuts the producer out; the new producer id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        for _ in range(FENCE_TRIES):
            answer = self._connection.ask(request)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            # What was open is being aborted, and the new epoch comes behind that.
            time.sleep(FENCE_PAUSE_S)
        if answer.error_code:
            raise self._refused(f"transactional id {transactional_id}", answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def coordinator_view(self) -> CoordinatorView:
        """All that this broker coordinates; nothing is known if it does not answer that."""
        if not self._connection.answers(ApiKey.LIST_TRANSACTIONS):
            return NO_COORDINATOR
        names = [one.transactional_id for one in self.listed(ListTransactionsRequest())]
        described = [coordinated(one) for one in self.described(names) if not one.error_code]
        return CoordinatorView(transactions=described, is_complete=True)

    def listed(self, request: ListTransactionsRequest) -> list[Listed]:
        """The transactions that a filter lets pass."""
        answer = self._connection.ask(request)
        if answer.error_code:
            raise self._refused("transactions", answer.error_code)
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise UserError(f"{self.address} knows no state {unknown}; one is Ongoing")
        found: list[Listed] = answer.transaction_states
        return sorted(found, key=lambda one: one.transactional_id)

    def described(self, transactional_ids: Sequence[str]) -> list[Described]:
        """One answer for each id, which may be an error."""
        if not transactional_ids:
            return []
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        found: list[Described] = self._connection.ask(request).transaction_states
        return found

    def _refused(self, what: str, code: int, message: str | None = None) -> UserError:
        return UserError(f"{self.address}: {what}: {message or ErrorCode(code).description}")


def coordinated(one: Described) -> CoordinatedTransaction:
    """A transactional id as a broker described it."""
    return CoordinatedTransaction(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        state=one.transaction_state,
        timeout_ms=one.transaction_timeout_ms,
        start_ms=one.transaction_start_time_ms,
        partitions=frozenset(
            (topic.topic, index) for topic in one.topics for index in topic.partitions
        ),
    )
