"""Error codes of transactions, as clients of every age know them.

PRODUCER_FENCED came with KIP-588, TRANSACTION_ABORTABLE with KIP-890.
"""

from ottla.base.error_codes import ErrorCode


def known_code(code: ErrorCode, api_version: int, first_fenced_version: int) -> ErrorCode:
    """The code as a version of a request knows it, which knows PRODUCER_FENCED from another on."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < first_fenced_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def refusal_of_write(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error for a write that the transaction coordinator does not let pass (KIP-890).

    Kafka: `AddPartitionsToTxnManager`, and `ReplicaManager` where it asks that.
    """
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return WRITE_REFUSALS.get(code, code)


WRITE_REFUSALS = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Writers look for another coordinator no more: they are to try again."""
