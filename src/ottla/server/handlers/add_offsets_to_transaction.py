"""AddOffsetsToTxn, 0 to 4: a producer is about to commit offsets of a group.

Kafka's counterpart: `KafkaApis.handleAddOffsetsToTxnRequest`.
"""

from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.protocol.messages.add_offsets_to_transaction import (
    AddOffsetsToTransactionRequest,
    AddOffsetsToTransactionResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.fencing import known_code

FIRST_FENCED_VERSION = 2


def handle(
    request: AddOffsetsToTransactionRequest, context: RequestContext
) -> AddOffsetsToTransactionResponse:
    claim = ProducerClaim(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
    )
    transactions = context.broker.transactions
    where = transactions.offsets_partition(request.group_id)
    outcome = transactions.add_partitions(claim, [where], context.at)
    return AddOffsetsToTransactionResponse(
        error_code=known_code(outcome.error, context.api_version, FIRST_FENCED_VERSION)
    )
