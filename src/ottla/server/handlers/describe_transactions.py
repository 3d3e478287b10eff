"""DescribeTransactions, 0: the state of transactional ids, and their partitions (KIP-664).

Kafka's counterpart: `TransactionCoordinator.handleDescribeTransactions`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    context.may_take_long()
    return DescribeTransactionsResponse(
        transaction_states=[_describe(one, context) for one in request.transactional_ids]
    )


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    transactions = context.broker.transactions
    if not transactional_id:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    if not transactions.is_available(transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    machine = transactions.machine_of(transactional_id, context.at)
    if isinstance(machine, ErrorCode):
        return TransactionState(transactional_id=transactional_id, error_code=machine)
    known = machine.describe(transactional_id)
    if known is None:
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes) for topic, indexes in known.topics.items()
        ],
    )
