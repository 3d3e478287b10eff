"""Requests about transactions."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    add_offsets_to_transaction,
    describe_transactions,
    end_transaction,
    list_transactions,
    transaction_offset_commit,
    write_transaction_markers,
)
from ottla.protocol.messages import add_partitions_to_transaction as add_partitions
from tests.unit.server.authorization.row import GROUP, TOPIC, TXN, C, G, Op, Row, T, X, offsets

ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        Row(
            lambda: add_partitions.AddPartitionsToTransactionRequest(
                v3_and_below_transactional_id=TXN,
                v3_and_below_topics=[add_partitions.AddPartitionsTopic(name=TOPIC, partitions=[0])],
            ),
            3,
            ((Op.WRITE, X), (Op.WRITE, T)),
        ),
        Row(
            lambda: add_partitions.AddPartitionsToTransactionRequest(transactions=[]),
            4,
            ((Op.CLUSTER_ACTION, C),),
        ),
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [
        Row(
            lambda: add_offsets_to_transaction.AddOffsetsToTransactionRequest(
                transactional_id=TXN, group_id=GROUP
            ),
            3,
            ((Op.WRITE, X), (Op.READ, G)),
        )
    ],
    ApiKey.END_TXN: [
        Row(
            lambda: end_transaction.EndTransactionRequest(transactional_id=TXN),
            3,
            ((Op.WRITE, X),),
        )
    ],
    ApiKey.WRITE_TXN_MARKERS: [
        Row(
            lambda: write_transaction_markers.WriteTransactionMarkersRequest(
                markers=[
                    write_transaction_markers.WritableTransactionMarker(
                        topics=[
                            write_transaction_markers.WritableTransactionMarkerTopic(
                                name=TOPIC, partition_indexes=[0]
                            )
                        ]
                    )
                ]
            ),
            1,
            ((Op.CLUSTER_ACTION, C),),
        )
    ],
    ApiKey.TXN_OFFSET_COMMIT: [
        Row(
            lambda: transaction_offset_commit.TransactionOffsetCommitRequest(
                transactional_id=TXN,
                group_id=GROUP,
                topics=[offsets(transaction_offset_commit, "TransactionOffsetCommit")],
            ),
            3,
            ((Op.WRITE, X), (Op.READ, G), (Op.READ, T)),
        )
    ],
    ApiKey.DESCRIBE_TRANSACTIONS: [
        Row(
            lambda: describe_transactions.DescribeTransactionsRequest(transactional_ids=[TXN]),
            0,
            ((Op.DESCRIBE, X),),
        )
    ],
    ApiKey.LIST_TRANSACTIONS: [
        Row(
            list_transactions.ListTransactionsRequest,
            0,
            ((Op.DESCRIBE, X),),
            shows=lambda answer: answer.transaction_states,
        )
    ],
}
