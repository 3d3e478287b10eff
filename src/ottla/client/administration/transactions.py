"""Producers of partitions, and transactions of coordinators.

Kafka's counterparts: `describeProducers`, `listTransactions`, `describeTransactions` and
`abortTransaction` of KIP-664.
"""

from collections.abc import Callable, Iterable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnknownNameError, UnreachableError, UserError
from ottla.base.partitions import TRANSACTION_STATE, TopicPartition, by_topic
from ottla.client.administration.asking import refused
from ottla.client.administration.descriptions import ActiveProducer, ListedTransaction
from ottla.client.administration.topics import TopicAdmin
from ottla.client.bulk.reading import READ_COMMITTED, by_partition
from ottla.client.connecting.cluster import CoordinatorKind
from ottla.client.connecting.connection import Connection
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
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

FENCE_TRIES = 100
FENCE_PAUSE_S = 0.1


class TransactionAdmin(TopicAdmin):
    """Questions about transactions, and their end."""

    # Producers in partitions

    def describe_producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers with producer ids of partitions. Raises `RefusedError`.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> producers = admin.describe_producers([place])
        >>> producers[place]
        []
        """
        return {
            place: [
                ActiveProducer(
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    last_timestamp_ms=one.last_timestamp,
                    transaction_start_offset=one.current_transaction_start_offset
                    if one.current_transaction_start_offset >= 0
                    else None,
                )
                for one in producers
            ]
            for place, producers in self._producers(places).items()
        }

    def open_transactions(
        self,
        places: Iterable[TopicPartition],
        *,
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[Holding]:
        """The transactions that are open in partitions. Raises `UnreachableError` if a leader does
        not answer; with `on_unreachable` that is called instead, and its partitions are left out.

        >>> admin.open_transactions([ottla.TopicPartition("orders", 0)])
        []
        """
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
            for (topic, index), producers in self._of_leaders(
                list(places), self._producers, on_unreachable
            ).items()
            for one in producers
            if one.current_transaction_start_offset >= 0
        ]

    def held_partitions(self, topic: str) -> list[PartitionHeld]:
        """The last stable offset of each partition of a topic, and what is open after it.

        >>> held = admin.held_partitions("orders")
        >>> [(one.last_stable_offset, one.end_offset) for one in held]
        [(3, 3), (1, 1)]
        """
        places = self.places([topic])
        holdings = self.open_transactions(places)
        stable = self.list_offsets(places, isolation_level=READ_COMMITTED)
        ends = self.list_offsets(places)
        return [
            PartitionHeld(
                topic=topic,
                partition=place.partition,
                where=f"{topic}-{place.partition}",
                last_stable_offset=stable[place].offset,
                end_offset=ends[place].offset,
                holdings=sorted(
                    (one for one in holdings if one.partition == place.partition),
                    key=lambda one: one.first_offset,
                ),
            )
            for place in places
        ]

    def abort_at(self, topic: str, partition: int, start_offset: int) -> int:
        """Aborts a transaction in one partition, regardless of its coordinator; returns its
        producer id.

        >>> admin.abort_at("orders", 0, start_offset=2)
        Traceback (most recent call last):
        ottla.base.errors.UserError: orders-0: no transaction is open from offset 2; ...
        """
        place = TopicPartition(topic, partition)
        producers = self._producers([place])[place]
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
            # No coordinator has ended a transaction there before, so any epoch is valid.
            coordinator_epoch=max(found.coordinator_epoch, 0),
        )
        ((leader, _),) = self._by_leader([place])
        answer = leader.ask(WriteTransactionMarkersRequest(markers=[marker]))
        for answered in answer.markers:
            for one in (one for each in answered.topics for one in each.partitions):
                if one.error_code:
                    raise refused(f"{topic}-{partition}", one.error_code)
        return found.producer_id

    def _producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        found = self._ask_leaders(places, _described)
        return {place: one.active_producers for place, one in found.items()}

    # Transactions at their coordinators

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of all coordinators; empty filters match all. Raises
        `UnreachableError` if a broker does not answer; with `on_unreachable` that is called
        instead, also for partitions of transactions that no broker leads, and what is not known is
        left out.

        >>> producer_id, epoch = admin.fence("billing-1", timeout_ms=60_000)
        >>> listed = admin.list_transactions(producer_ids=[producer_id])
        >>> [(one.transactional_id, one.state) for one in listed]
        [('billing-1', 'Empty')]
        """

        def ask(_: int, broker: Connection) -> list[ListedTransaction]:
            return _listed(broker, states, producer_ids)

        found = [one for each in self._of_brokers(ask, on_unreachable) for one in each]
        if on_unreachable is not None and (error := self._leaderless(TRANSACTION_STATE)):
            on_unreachable(error)
        return sorted(found, key=lambda one: one.transactional_id)

    def describe_transactions(
        self,
        transactional_ids: Sequence[str],
        *,
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[CoordinatedTransaction]:
        """Describes some transactional ids; raises `UnknownNameError` for one that no coordinator
        knows, and `UnreachableError` if a coordinator does not answer; with `on_unreachable` that
        is called instead, and the id is left out.

        >>> producer_id, epoch = admin.fence("billing-1", timeout_ms=60_000)
        >>> described, = admin.describe_transactions(["billing-1"])
        >>> described.state, described.timeout_ms
        ('Empty', 60000)
        """
        found = []
        for name in transactional_ids:
            try:
                one = self._describe_transaction(name)
            except UnreachableError as error:
                if on_unreachable is None:
                    raise
                on_unreachable(error)
                continue
            if one.error_code:
                # The coordinator does not know it: other brokers only have names like it.
                listed = self.list_transactions(on_unreachable=lambda _: None)
                known = [each.transactional_id for each in listed]
                raise UnknownNameError("transactional id", name, known)
            found.append(_coordinated(one))
        return found

    def coordinator_view(
        self, *, on_unreachable: Callable[[UnreachableError], object] | None = None
    ) -> CoordinatorView:
        """All transactions that the brokers coordinate; incomplete if they do not report them, if
        no broker leads some of their partitions, and of files if some are damaged or a cluster's
        other brokers have more. Raises `UnreachableError` if a broker does not answer; with
        `on_unreachable` that is called instead, and the view is incomplete.

        >>> view = admin.coordinator_view()
        >>> view.is_complete
        True
        """

        def ask(_: int, broker: Connection) -> tuple[Connection, list[TransactionState]] | None:
            if not broker.answers(ApiKey.LIST_TRANSACTIONS):
                return None
            listed = [one.transactional_id for one in _listed(broker, (), ())]
            return broker, list(map(self._describe_transaction, listed))

        answers = self._of_brokers(ask, on_unreachable)
        if None in answers:
            return NO_COORDINATOR
        leaderless = self._leaderless(TRANSACTION_STATE)
        if leaderless is not None and on_unreachable is not None:
            on_unreachable(leaderless)
        found = [one for one in answers if one is not None]
        # An id may expire between the two requests.
        known = [_coordinated(one) for _, all_ in found for one in all_ if not one.error_code]
        return CoordinatorView(
            transactions=sorted(known, key=lambda one: one.transactional_id),
            is_complete=leaderless is None
            and len(found) == len(self._cluster.node_ids())
            and all(broker.has_all_transactions for broker, _ in found),
        )

    def fence(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Aborts an open transaction and fences the producer; returns the new producer id and
        epoch.

        >>> producer_id, epoch = admin.fence("billing-1", timeout_ms=60_000)
        """
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        for _ in range(FENCE_TRIES):
            answer = self._cluster.ask_coordinator(
                CoordinatorKind.TRANSACTION, transactional_id, lambda broker: broker.ask(request)
            )
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            # The open transaction is being aborted, and the new epoch comes after that.
            self._cluster.sleep(FENCE_PAUSE_S)
        if answer.error_code:
            raise refused(f"transactional id {transactional_id}", answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _describe_transaction(self, transactional_id: str) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = self._cluster.ask_coordinator(
            CoordinatorKind.TRANSACTION, transactional_id, lambda broker: broker.ask(request)
        )
        (found,) = answer.transaction_states
        assert isinstance(found, TransactionState)
        return found


def _listed(
    broker: Connection, states: Sequence[str], producer_ids: Sequence[int]
) -> list[ListedTransaction]:
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids)
    )
    answer = broker.ask(request)
    if answer.error_code:
        raise refused("transactions", answer.error_code)
    if answer.unknown_state_filters:
        unknown = ", ".join(answer.unknown_state_filters)
        raise UserError(f"{broker.address} knows no state {unknown}; one is Ongoing")
    return [
        ListedTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            state=one.transaction_state,
        )
        for one in answer.transaction_states
    ]


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


def _described(
    leader: Connection, places: list[TopicPartition]
) -> dict[TopicPartition, PartitionResponse]:
    topics = [
        TopicRequest(name=topic, partition_indexes=numbers)
        for topic, numbers in by_topic(places).items()
    ]
    return by_partition(leader.ask(DescribeProducersRequest(topics=topics)).topics)
