"""Error codes of transactions in the form that each client version knows.

PRODUCER_FENCED came with KIP-588, TRANSACTION_ABORTABLE with KIP-890.
"""

from ottla.base.error_codes import ErrorCode


def known_code(code: ErrorCode, api_version: int, first_fenced_version: int) -> ErrorCode:
    """The code for a request version, given the version from which PRODUCER_FENCED is known."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < first_fenced_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def refusal_of_write(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error for a write that the transaction coordinator refuses (KIP-890).

    Kafka: `AddPartitionsToTxnManager`, and the calls to it in `ReplicaManager`.
    """
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return WRITE_REFUSALS.get(code, code)


WRITE_REFUSALS = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    # The coordinator does not know a new topic yet, and so has not added the others either.
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.NOT_ENOUGH_REPLICAS,
    # It was the leader that lacked a right, not the client.
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
"""Errors about the coordinator, which writers cannot resolve: they must retry instead, if that can
help.
"""
