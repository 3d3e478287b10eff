"""ControlledShutdown, 0 to 3: the controller moves leaderships away from a broker that is to stop.

Kafka's counterpart: `KafkaApis.handleControlledShutdownRequest`.
"""

from ottla.controller.events import Answer, ControlledShutdown
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.applying import membership_of


def handle(request: ControlledShutdownRequest, context: RequestContext) -> PendingAnswer:
    event = ControlledShutdown(
        pending_id=None, broker=request.broker_id, broker_epoch=request.broker_epoch
    )
    return PendingAnswer(membership_of(context).ask([event]), _response)


def _response(answers: list[Answer]) -> ControlledShutdownResponse:
    (answer,) = answers
    return ControlledShutdownResponse(
        error_code=answer.error,
        remaining_partitions=[
            RemainingPartition(topic_name=one.topic, partition_index=one.partition)
            for one in answer.remaining
        ],
    )
