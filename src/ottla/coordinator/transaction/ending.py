"""The end of a transaction, requested by its producer or forced by fencing.

With transactions version 2 every end gives the producer a new epoch, so that no delayed message of
the ended transaction can reach the next one (KIP-890). Kafka's counterparts:
`TransactionCoordinator.endTransaction`, `TransactionMetadata.prepareAbortOrCommit`.
"""

from collections.abc import Callable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import (
    FIRST_EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    Change,
    Transaction,
)

COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


def end_producer(
    known: Transaction,
    claim: ProducerClaim,
    is_commit: bool,
    client_version: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Change | None:
    """The change that ends the transaction; `None` if it already ended in this way.

    Raises `ApiError`.
    """
    bumps = client_version >= FIRST_EPOCH_BUMP_VERSION
    has_ended_so = known.state in (COMMITTED if is_commit else ABORTED)
    is_retry = bumps and known.has_ended and _was_before_the_end(known, claim)
    if not is_retry:
        known.check_producer(claim.producer_id, claim.epoch)
    # With version 2, a request with the current epoch is about the next transaction.
    is_about_this_end = is_retry or not bumps
    if known.has_ended and is_about_this_end and not has_ended_so:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    if known.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.has_ended and is_about_this_end:
        return None
    if not known.is_ongoing and (is_commit or not bumps):
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    changes = {"client_version": client_version}
    if bumps:
        changes["epoch"] = known.epoch + 1
        if known.is_exhausted:
            changes["next_producer_id"] = new_producer_id()
    if not known.is_ongoing:
        changes["start_ms"] = now_ms
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    return known.change(state, now_ms, **changes)


def fence(known: Transaction, now_ms: int) -> Change:
    """Aborts an open transaction with a raised epoch, which fences its producer."""
    return known.change(TransactionState.PREPARE_ABORT, now_ms, epoch=known.epoch + 1)


def _was_before_the_end(known: Transaction, claim: ProducerClaim) -> bool:
    """Whether the claim has the id and epoch that the producer had before the last end changed
    them.
    """
    if claim.producer_id == known.producer_id:
        return claim.epoch == known.epoch - 1
    is_before = claim.producer_id == known.previous_producer_id
    return is_before and claim.epoch == LAST_CLIENT_EPOCH and known.epoch == 0
