"""InitProducerId: the producer id and epoch for a transactional id.

Kafka's counterparts: `TransactionCoordinator.prepareInitProducerIdTransit`,
`TransactionMetadata.prepareIncrementProducerEpoch` (KIP-98, KIP-360).
"""

from collections.abc import Callable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.transaction.ending import fence
from ottla.coordinator.transaction.requests import InitRequest
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import (
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    Change,
    Transaction,
)


def init_producer(
    known: Transaction, request: InitRequest, new_producer_id: Callable[[], int], now_ms: int
) -> Change:
    """The change that initializes the producer; PrepareAbort if a transaction is open.

    Raises `ApiError`.
    """
    if known.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    expected = None if known.epoch == NO_PRODUCER_EPOCH else request.expected
    current = (known.producer_id, known.epoch)
    if expected is not None and known.recovery == (expected, current) and not known.is_ongoing:
        # The response to the previous request was lost.
        return _begin(known, request, now_ms)
    if expected is not None and expected != current:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if known.is_ongoing:
        change = fence(known, now_ms)
    else:
        change = _next_producer(known, request, new_producer_id, now_ms)
    known.recovery = None if expected is None else (expected, change.client_identity)
    return change


def _next_producer(
    known: Transaction, request: InitRequest, new_producer_id: Callable[[], int], now_ms: int
) -> Change:
    if known.epoch == NO_PRODUCER_EPOCH:
        return _begin(known, request, now_ms, producer_id=new_producer_id(), epoch=0)
    if known.is_exhausted:
        return _begin(
            known,
            request,
            now_ms,
            producer_id=new_producer_id(),
            epoch=0,
            previous_producer_id=known.producer_id,
        )
    return _begin(known, request, now_ms, epoch=known.epoch + 1)


def _begin(known: Transaction, request: InitRequest, now_ms: int, **changes: int) -> Change:
    return known.change(
        TransactionState.EMPTY,
        now_ms,
        timeout_ms=request.timeout_ms,
        start_ms=NO_TIMESTAMP,
        **changes,
    )
