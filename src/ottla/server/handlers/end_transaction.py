"""EndTxn, 0 to 5: commits or aborts a transaction.

Answered once the decision is written, in a cluster once it is committed. The markers of a broker by
itself are in all partitions by then, unless a log directory has failed. From version 5 on the
producer continues with another epoch (KIP-890). Kafka's counterpart:
`KafkaApis.handleEndTxnRequest`.
"""

from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.coordinator.transaction.transaction import FIRST_EPOCH_BUMP_VERSION
from ottla.protocol.messages.end_transaction import EndTransactionRequest, EndTransactionResponse
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.fencing import known_code

FIRST_FENCED_VERSION = 2
FIRST_BUMP_VERSION = 5


def handle(request: EndTransactionRequest, context: RequestContext) -> EndTransactionResponse:
    claim = ProducerClaim(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
    )
    bumps = context.api_version >= FIRST_BUMP_VERSION
    answer = context.broker.transactions.end(
        claim,
        context.at,
        is_commit=request.committed,
        client_version=FIRST_EPOCH_BUMP_VERSION if bumps else 0,
    )
    return EndTransactionResponse(
        error_code=known_code(answer.error, context.api_version, FIRST_FENCED_VERSION),
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
    )
