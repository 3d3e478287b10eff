"""A producer's requests to the coordinator of its transactions.

Transactions are those of version 1: partitions are added before they are written to, and only
`init_producer` changes the epoch. So another process than the writer can end a transaction, and
repeat the request. Kafka's counterpart: `TransactionManager`.
"""

from collections.abc import Callable, Iterable
from itertools import groupby

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.client.administration.group_offsets import NO_LONGER_MEMBER, Committed, GroupMetadata
from ottla.client.bulk.producer_identity import LAST_VERSION, ProducerIdentity
from ottla.client.connecting.cluster import Cluster, CoordinatorKind, check
from ottla.client.connecting.connection import Connection
from ottla.client.consumer.errors import CommitFailedError
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

FIRST_VERSION_WITH_MEMBER = 3
"""Version of TxnOffsetCommit (KIP-447)."""

NOBODY = "a producer of no member"
"""A member id that no group gives."""

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


def commit_offsets(
    cluster: Cluster, who: ProducerIdentity, member: GroupMetadata, offsets: Iterable[Committed]
) -> None:
    """Commits offsets of one group with the transaction: they take effect when that commits.

    Raises `CommitFailedError` if the group gave the partitions to another member, or has members
    and `member` is not one of them.
    """
    adding = AddOffsetsToTransactionRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=member.group,
    )
    _ask_coordinator(
        cluster, who, lambda broker: check(broker.ask(adding, newest=LAST_VERSION).error_code)
    )
    request = TransactionOffsetCommitRequest(
        transactional_id=who.transactional_id,
        group_id=member.group,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        topics=[
            TransactionOffsetCommitRequestTopic(name=topic, partitions=list(map(_offset, some)))
            for topic, some in groupby(sorted(offsets, key=_place), lambda one: one.topic)
        ],
    )

    def ask(broker: Connection) -> None:
        _claim_membership(request, member, broker)
        for topic in broker.ask(request, newest=LAST_VERSION).topics:
            for one in topic.partitions:
                check(one.error_code)

    try:
        cluster.ask_coordinator(CoordinatorKind.GROUP, member.group, ask)
    except ApiError as error:
        if error.code in NO_LONGER_MEMBER:
            raise _commit_failure(member, error.code) from error
        raise RefusedError(f"group {member.group}", error) from error


def _claim_membership(
    request: TransactionOffsetCommitRequest, member: GroupMetadata, broker: Connection
) -> None:
    """Brokers before 2.5 do not know who commits, and would let anyone."""
    version = broker.version_of(ApiKey.TXN_OFFSET_COMMIT, newest=LAST_VERSION)
    if version >= FIRST_VERSION_WITH_MEMBER:
        request.generation_id = member.generation
        request.group_instance_id = member.instance_id
        # A commit without a member's id is always accepted, as one of an old producer; one by an
        # unknown member only while the group has none.
        request.member_id = member.member_id or NOBODY
    elif member.is_member:
        raise UserError(
            f"group {member.group}: this broker is older than Kafka 2.5, and cannot refuse offsets "
            "of a consumer that has lost its partitions; upgrade it"
        )


def _commit_failure(member: GroupMetadata, code: ErrorCode) -> CommitFailedError:
    if member.is_member:
        reason = "the group gave the partitions to another member, which reads their records again"
    else:
        reason = (
            "it has members, and only theirs are taken; pass the consumer that read the records, "
            "or its group_metadata(), not the group's name"
        )
    return CommitFailedError(
        f"group {member.group}: offsets were not committed ({code.name}): {reason}"
    )


def _offset(one: Committed) -> TransactionOffsetCommitRequestPartition:
    return TransactionOffsetCommitRequestPartition(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        committed_metadata=one.metadata,
    )


def _place(one: Committed) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


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
