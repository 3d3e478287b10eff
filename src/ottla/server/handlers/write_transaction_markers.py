"""WriteTxnMarkers, 0 to 2: an administrator ends a transaction that hangs (KIP-664), or in a
cluster a transaction's coordinator one that is decided.

For the partitions of its own broker a coordinator writes the markers itself. Kafka's counterpart:
`KafkaApis.handleWriteTxnMarkersRequest`.
"""

from collections.abc import Hashable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.membership.marker_requests import Marker
from ottla.broker.transactions.markers import Commit
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerPartitionResult,
    WritableTransactionMarkerResult,
    WritableTransactionMarkerTopicResult,
    WriteTransactionMarkersRequest,
    WriteTransactionMarkersResponse,
)
from ottla.server.dispatching.request_context import PendingAnswer, PendingResponse, RequestContext

Partitions = Commit[WritableTransactionMarkerPartitionResult]


def handle(
    request: WriteTransactionMarkersRequest, context: RequestContext
) -> WriteTransactionMarkersResponse | PendingResponse:
    commit = Partitions(context.at.monotonic_ms)
    response = WriteTransactionMarkersResponse(
        markers=[_write(one, context, commit) for one in request.markers]
    )
    if not commit.begin():
        return response

    def amend(_: Mapping[Hashable, ErrorCode]) -> WriteTransactionMarkersResponse:
        for result, error in commit.results():
            result.error_code = error
        return response

    return PendingAnswer(commit.pending, amend)


def _write(
    wanted: WritableTransactionMarker, context: RequestContext, commit: Partitions
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
                    _append(marker, topic.name, index, context, commit)
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted.topics
        ],
    )


def _append(
    marker: Marker, topic: str, index: int, context: RequestContext, commit: Partitions
) -> WritableTransactionMarkerPartitionResult:
    result = WritableTransactionMarkerPartitionResult(partition_index=index)
    broker = context.broker
    try:
        written = broker.transactions.markers.write(marker, topic, index, now_ms=context.at.now_ms)
    except ApiError as error:
        result.error_code = broker.fetches.refusal(error, topic, index).code
    else:
        commit.wait(written, result)
    return result
