"""WriteTxnMarkers, 0 to 2: an administrator ends a transaction that hangs (KIP-664), or in a
cluster a transaction's coordinator one that is decided.

The coordinator of a broker without a cluster writes its markers itself. Kafka's counterpart:
`KafkaApis.handleWriteTxnMarkersRequest`.
"""

from collections.abc import Hashable, Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.marker_requests import Marker
from ottla.broker.transactions.markers import Written
from ottla.broker.waiting import DelayedOperation
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerPartitionResult,
    WritableTransactionMarkerResult,
    WritableTransactionMarkerTopicResult,
    WriteTransactionMarkersRequest,
    WriteTransactionMarkersResponse,
)
from ottla.server.dispatching.request_context import PendingAnswer, PendingResponse, RequestContext

TIMEOUT_MS: Final = 30_000.0
"""Kafka's default of request.timeout.ms, after which a coordinator sends its markers again."""


def handle(
    request: WriteTransactionMarkersRequest, context: RequestContext
) -> WriteTransactionMarkersResponse | PendingResponse:
    commit = Commit(context)
    response = WriteTransactionMarkersResponse(
        markers=[_write(one, context, commit) for one in request.markers]
    )
    return commit.answer(response)


class Commit:
    """The records that other replicas must have, in a cluster, before the markers are
    acknowledged.
    """

    def __init__(self, context: RequestContext) -> None:
        self._pending = DelayedOperation(context.at.monotonic_ms + TIMEOUT_MS)
        self._awaited: list[tuple[Hashable, WritableTransactionMarkerPartitionResult]] = []

    def wait(self, written: Written, result: WritableTransactionMarkerPartitionResult) -> None:
        replication = written.partition.replication
        if replication is not None:
            key = replication.await_commit(self._pending, written.end)
            self._awaited.append((key, result))

    def answer(
        self, response: WriteTransactionMarkersResponse
    ) -> WriteTransactionMarkersResponse | PendingResponse:
        if not self._awaited or self._pending.all_awaited():
            return response

        def amend(errors: Mapping[Hashable, ErrorCode]) -> WriteTransactionMarkersResponse:
            for key, result in self._awaited:
                result.error_code = errors.get(key, ErrorCode.NONE)
            return response

        return PendingAnswer(self._pending, amend)


def _write(
    wanted: WritableTransactionMarker, context: RequestContext, commit: Commit
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
    marker: Marker, topic: str, index: int, context: RequestContext, commit: Commit
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
