"""ListTransactions, 0 to 2: the transactional ids, by state, producer, duration (KIP-994) and, with
an expression, by name (KIP-1152).

Kafka's counterpart: `TransactionStateManager.listTransactionStates`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.coordinator.consumer.topic_regex import RegexError, TopicRegex
from ottla.coordinator.transaction.requests import TransactionDescription
from ottla.coordinator.transaction.state import TITLES
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.server.request_context import RequestContext

STATES = frozenset(TITLES.values())


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    context.may_take_long()
    unknown = [state for state in in_turns(request.state_filters) if state not in STATES]
    regex = None
    if request.transactional_id_pattern:
        try:
            regex = TopicRegex(request.transactional_id_pattern)
        except RegexError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in in_turns(context.broker.transactions.list_transactions(context.at))
            if _passes(one, request, context)
            and (regex is None or regex.matches(one.transactional_id))
        ],
    )


def _passes(
    one: TransactionDescription, request: ListTransactionsRequest, context: RequestContext
) -> bool:
    if request.state_filters and one.state not in request.state_filters:
        return False
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return context.at.now_ms - one.start_ms > request.duration_filter
