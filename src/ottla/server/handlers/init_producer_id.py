"""InitProducerId, 0 to 6: an id for an idempotent producer, never given to another; for a
transactional one its id and next epoch.

Left out: two-phase commit (KIP-939), which is refused as by a Kafka that does not allow it.
Kafka's counterpart: `TransactionCoordinator.handleInitProducerId`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.transaction.requests import InitRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.fencing import known_code

FIRST_FENCED_VERSION = 4
NONE_GIVEN = (-1, -1)


def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    expected = (request.producer_id, request.producer_epoch)
    if (-1 in expected) != (expected == NONE_GIVEN):
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _init_idempotent(context)
    if request.keep_prepared_transaction:
        return _refusal(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable_2pc:
        return _refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    wanted = InitRequest(
        transactional_id=request.transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        expected=None if expected == NONE_GIVEN else expected,
    )
    transactions = context.broker.transactions
    transactions.prepare(context.may_take_long)
    answer = transactions.init_producer(wanted, context.at)
    return InitProducerIdResponse(
        error_code=known_code(answer.error, context.api_version, FIRST_FENCED_VERSION),
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
    )


def _init_idempotent(context: RequestContext) -> InitProducerIdResponse:
    """Ignores the producer's old id: a new id has no sequence numbers yet."""
    try:
        return InitProducerIdResponse(producer_id=context.broker.producer_ids.allocate())
    except ApiError as error:
        return _refusal(error.code)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
