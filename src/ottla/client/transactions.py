"""A producer's requests to the coordinator of its transactions.

Transactions are those of version 1: partitions are added before they are written to, and only
`init_producer` changes the epoch. So another process than the writer can end a transaction, and
repeat the request. Kafka's counterpart: `TransactionManager`.
"""

from collections.abc import Callable, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.client.cluster import Cluster, CoordinatorKind, check
from ottla.client.connection import Connection
from ottla.client.groups import Committed
from ottla.client.producer_identity import LAST_VERSION, ProducerIdentity
from ottla.client.refusals import RefusedError, refusals
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.add_offsets_to_transaction import AddOffsetsToTransactionRequest
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_transaction import EndTransactionRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.transaction_offset_commit import (
    TransactionOffsetCommitRequest,
    TransactionOffsetCommitRequestPartition,
    TransactionOffsetCommitRequestTopic,
)

_HAS_ENDED_OTHERWISE = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


def add_partitions(
    cluster: Cluster, who: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    """Adds partitions to the transaction, which begins with the first of them.

    This and the following functions raise `RefusedError` and `UnreachableError`.
    """
    topics = [
        AddPartitionsTopic(name=name, partitions=numbers)
        for name, numbers in by_topic(partitions).items()
    ]
    request = AddPartitionsToTransactionRequest(
        v3_and_below_transactional_id=who.transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=topics,
    )

    def ask(broker: Connection) -> None:
        answer = broker.ask(request, newest=LAST_VERSION)
        codes = [
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        # One error refuses all; the others only report that they were not attempted.
        for code in sorted(codes, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
            check(code)

    _ask_coordinator(cluster, who, ask)


def commit_offset(cluster: Cluster, who: ProducerIdentity, what: Committed) -> None:
    """Commits an offset with the transaction: it takes effect when that commits."""
    adding = AddOffsetsToTransactionRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=what.group,
    )
    _ask_coordinator(
        cluster, who, lambda broker: check(broker.ask(adding, newest=LAST_VERSION).error_code)
    )
    partition = TransactionOffsetCommitRequestPartition(
        partition_index=what.partition,
        committed_offset=what.offset,
        committed_leader_epoch=what.leader_epoch,
        committed_metadata=what.metadata,
    )
    request = TransactionOffsetCommitRequest(
        transactional_id=who.transactional_id,
        group_id=what.group,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        topics=[TransactionOffsetCommitRequestTopic(name=what.topic, partitions=[partition])],
    )

    def ask(broker: Connection) -> None:
        answer = broker.ask(request, newest=LAST_VERSION)
        check(answer.topics[0].partitions[0].error_code)

    with refusals(f"group {what.group}"):
        cluster.ask_coordinator(CoordinatorKind.GROUP, what.group, ask)


def end_transaction(cluster: Cluster, who: ProducerIdentity, *, is_commit: bool) -> bool:
    """Returns whether the transaction ended as requested; false if it ended otherwise, or is
    unknown.

    Any process may ask, and may ask again, until the producer is initialized again.
    """
    request = EndTransactionRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        committed=is_commit,
    )
    try:
        _ask_coordinator(
            cluster, who, lambda broker: check(broker.ask(request, newest=LAST_VERSION).error_code)
        )
    except RefusedError as error:
        if error.code in _HAS_ENDED_OTHERWISE:
            return False
        raise
    return True


def is_initialized(cluster: Cluster, transactional_id: str) -> bool:
    """Whether the coordinator knows the id; false for brokers without KIP-664."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask(broker: Connection) -> bool:
        if not broker.answers(ApiKey.DESCRIBE_TRANSACTIONS):
            return False
        code = broker.ask(request).transaction_states[0].error_code
        if code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            check(code)
        return bool(code == ErrorCode.NONE)

    with refusals(f"transaction {transactional_id}"):
        return cluster.ask_coordinator(CoordinatorKind.TRANSACTION, transactional_id, ask)


def ongoing_ids(cluster: Cluster) -> list[str]:
    """The transactional ids with an open transaction, from brokers with KIP-664."""
    request = ListTransactionsRequest(state_filters=["Ongoing"])

    def ask() -> list[str]:
        answers = [
            broker.ask(request)
            for broker in cluster.brokers()
            if broker.answers(ApiKey.LIST_TRANSACTIONS)
        ]
        for answer in answers:
            check(answer.error_code)
        return [one.transactional_id for answer in answers for one in answer.transaction_states]

    with refusals("transactions"):
        return cluster.again(ask)


def _ask_coordinator(
    cluster: Cluster, who: ProducerIdentity, ask: Callable[[Connection], None]
) -> None:
    assert who.transactional_id, "the producer has no transactional id"
    with refusals(f"transaction {who.transactional_id}"):
        cluster.ask_coordinator(CoordinatorKind.TRANSACTION, who.transactional_id, ask)
