"""A producer's id and epoch, which a broker or the coordinator of its transactions gives it."""

from ottla.base.values import dataclass
from ottla.client.connecting.cluster import Cluster, CoordinatorKind, check
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import refusals
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

LAST_VERSION = 3
"""The last version of a transaction's requests for clients with transactions of version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """The identity of a producer; without a transactional id ("") it is only idempotent."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_producer(cluster: Cluster, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
    """Gets a new epoch: fences the previous producer with the id, and aborts its open transaction.

    Raises `RefusedError` and `UnreachableError`.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id or None, transaction_timeout_ms=timeout_ms
    )

    def ask(broker: Connection) -> ProducerIdentity:
        answer = broker.ask(request, newest=LAST_VERSION)
        check(answer.error_code)
        return ProducerIdentity(
            transactional_id=transactional_id,
            producer_id=answer.producer_id,
            epoch=answer.producer_epoch,
        )

    with refusals(f"producer {transactional_id or 'without a name'}"):
        if not transactional_id:
            return cluster.ask_any(ask)
        return cluster.ask_coordinator(CoordinatorKind.TRANSACTION, transactional_id, ask)
