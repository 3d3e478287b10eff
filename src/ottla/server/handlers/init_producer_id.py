"""InitProducerId, 0 to 6: an id for an idempotent producer, never given to another.

Left out: transactional ids, which need a transaction coordinator; they are refused.
Kafka's counterpart: `TransactionCoordinator.handleInitProducerId`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.call import Call


def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        is_empty = not request.transactional_id
        code = ErrorCode.INVALID_REQUEST if is_empty else ErrorCode.UNSUPPORTED_VERSION
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        return InitProducerIdResponse(producer_id=call.broker.allocate_producer_id())
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
