"""AllocateProducerIds, 0: the controller gives a broker the next block of producer ids (KIP-730).

Kafka's counterparts: `ControllerApis.handleAllocateProducerIdsRequest`,
`KafkaController.allocateProducerIds`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.deciding.producer_ids import ProducerIds
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import cluster_controller_of


def handle(
    request: AllocateProducerIdsRequest, context: RequestContext
) -> Message | PendingResponse:
    controller = cluster_controller_of(context)
    block = controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return respond(block, _response)


def _response(block: ProducerIds | ApiError) -> AllocateProducerIdsResponse:
    if isinstance(block, ApiError):
        return AllocateProducerIdsResponse(error_code=block.code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.length)
