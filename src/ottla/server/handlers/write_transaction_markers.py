"""WriteTxnMarkers, 0 to 2: an administrator ends a transaction that hangs (KIP-664).

The coordinator of this broker writes its markers by itself.
Kafka's counterpart: `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.broker.transactions.markers import Marker
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerPartitionResult,
    WritableTransactionMarkerResult,
    WritableTransactionMarkerTopicResult,
    WriteTransactionMarkersRequest,
    WriteTransactionMarkersResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: WriteTransactionMarkersRequest, context: RequestContext
) -> WriteTransactionMarkersResponse:
    return WriteTransactionMarkersResponse(
        markers=[_write(one, context) for one in in_turns(request.markers)]
    )


def _write(
    wanted: WritableTransactionMarker, context: RequestContext
) -> WritableTransactionMarkerResult:
    marker = Marker(
        producer_id=wanted.producer_id,
        epoch=wanted.producer_epoch,
        is_commit=wanted.transaction_result,
        coordinator_epoch=wanted.coordinator_epoch,
        client_version=wanted.transaction_version,
    )
    return WritableTransactionMarkerResult(
        producer_id=wanted.producer_id,
        topics=[
            WritableTransactionMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTransactionMarkerPartitionResult(
                        partition_index=index,
                        error_code=_append(marker, topic.name, index, context),
                    )
                    for index in in_turns(topic.partition_indexes)
                ],
            )
            for topic in in_turns(wanted.topics)
        ],
    )


def _append(marker: Marker, topic: str, index: int, context: RequestContext) -> ErrorCode:
    try:
        context.broker.transactions.markers.write(marker, topic, index, now_ms=context.at.now_ms)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
