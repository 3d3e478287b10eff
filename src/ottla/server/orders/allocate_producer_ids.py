"""AllocateProducerIds, 0: the controller gives a broker the next block of producer ids (KIP-730).

Kafka's counterpart: `KafkaController.allocateProducerIds`.
"""

from ottla.controller.events import AllocateProducerIds, Answer
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.applying import membership_of


def handle(request: AllocateProducerIdsRequest, context: RequestContext) -> PendingAnswer:
    event = AllocateProducerIds(
        pending_id=None, broker=request.broker_id, broker_epoch=request.broker_epoch
    )
    return PendingAnswer(membership_of(context).ask([event]), _response)


def _response(answers: list[Answer]) -> AllocateProducerIdsResponse:
    (answer,) = answers
    block = answer.producer_ids
    if block is None:
        return AllocateProducerIdsResponse(error_code=answer.error)
    return AllocateProducerIdsResponse(
        producer_id_start=block.start, producer_id_len=block.end - block.start + 1
    )
