"""ListTransactions, 0 to 2: the transactional ids, by state, producer, duration (KIP-994) and, with
an expression, by name (KIP-1152).

Kafka's counterpart: `TransactionStateManager.listTransactionStates`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns, turn_list
from ottla.coordinator.consumer.topic_regex import RegexError, TopicRegex
from ottla.coordinator.transaction.requests import TransactionDescription
from ottla.coordinator.transaction.state import TITLES
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.server.dispatching.request_context import RequestContext

STATES = frozenset(TITLES.values())


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    context.may_take_long()
    unknown = [state for state in request.state_filters if state not in STATES]
    regex = None
    if request.transactional_id_pattern:
        try:
            regex = TopicRegex(request.transactional_id_pattern)
        except RegexError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    transactions = context.broker.transactions
    if transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    known = turn_list(
        [
            one
            for machine in transactions.machines(context.at)
            for one in in_turns(machine.list_transactions())
        ]
    )
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in known
            if (not states or one.state in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and _lasts(one, request.duration_filter, context)
            and (regex is None or regex.matches(one.transactional_id))
        ],
    )


def _lasts(one: TransactionDescription, duration_ms: int, context: RequestContext) -> bool:
    return duration_ms < 0 or context.at.now_ms - one.start_ms > duration_ms
