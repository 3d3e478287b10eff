"""Permanent errors of a broker, in one line: the subject, the reason and the fix."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, RefusalError, UnknownNameError

_TAKEN_OVER = (
    "another attempt has taken over, or the transaction took longer than transaction.timeout.ms"
)

_DENIED = "ottla acls add grants a user what it needs"

DENIALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
"""The answers to a user who lacks a right."""

FIXES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.NOT_CONTROLLER: "the cluster has no controller: see the brokers' logs for whether "
    "they reach a majority of the controllers, or ZooKeeper",
    ErrorCode.SECURITY_DISABLED: "start the broker with authorizer.class.name="
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer, and with super.users",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "start the broker with delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "connect to a running broker, with a password "
    "or a certificate",
    ErrorCode.MESSAGE_TOO_LARGE: "lower batch.size, or raise the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "lower batch.size, or raise the topic's segment.bytes",
    ErrorCode.INVALID_PRODUCER_EPOCH: _TAKEN_OVER,
    ErrorCode.PRODUCER_FENCED: _TAKEN_OVER,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "set transaction.timeout.ms to at most the broker's "
    "transaction.max.timeout.ms",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "raise the broker's offset.metadata.max.bytes to 4096",
}


class RefusedError(RefusalError):
    """The broker refuses permanently: retries do not help. `code` is Kafka's error code.

    >>> with ottla.Admin(log) as admin:
    ...     try:
    ...         admin.create_topic("orders")
    ...     except ottla.RefusedError as error:
    ...         print(error.code.name)
    TOPIC_ALREADY_EXISTS
    """

    def __init__(self, what: str, error: ApiError) -> None:
        fix = FIXES.get(error.code)
        # Some messages begin with what they are about.
        reason = f"{error.code.name}: {error.message.removeprefix(f'{what}: ')}"
        if fix:
            reason = f"{reason.removesuffix('.')}; {fix}"
        super().__init__(f"{what}: {reason}")
        self.code = error.code


class UnknownTopicError(UnknownNameError):
    """The topic does not exist; the text names the one that was perhaps meant.

    >>> try:
    ...     producer.send("order", b"tea")
    ... except ottla.UnknownTopicError as error:
    ...     print(error.topic, error.nearest)
    order ['orders']
    """

    def __init__(self, topic: str, names: Iterable[str]) -> None:
        super().__init__("topic", topic, names)
        self.topic = topic


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turns an `ApiError` in the block into a `RefusedError` about `what`."""
    try:
        yield
    except ApiError as error:
        raise RefusedError(what, error) from error
