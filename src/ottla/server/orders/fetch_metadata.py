"""Fetch, 12 to 18, of `__cluster_metadata`: its followers' and observers' (KIP-595, KIP-630).

What arrives on a listener for brokers and clients is another matter (`handlers/fetch.py`): nobody
fetches this log there.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from ottla.quorum.messages import Fetch, FetchAnswer
from ottla.quorum.voters import ReplicaKey
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import (
    answered_by_quorum,
    leader_id_of,
    node_endpoints,
    only_partition,
)

FIRST_VERSION: Final = 12
FIRST_WITH_ENDPOINTS: Final = 16
"""The first versions with the leader's id, and with where it is."""


def handle(request: FetchRequest, context: RequestContext) -> Message | PendingAnswer:
    version = context.api_version
    asked = request_of(request) if version >= FIRST_VERSION else None
    respond = partial(response_of, request.topics, version)
    return answered_by_quorum(asked, context, respond, _invalid)


def _invalid() -> FetchResponse:
    return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)


def request_of(message: FetchRequest) -> Fetch | None:
    """Before version 15 a replica has an id alone. Followers set no limit for the partition."""
    found = only_partition(message.topics)
    if found is None:
        return None
    state = message.replica_state
    return Fetch(
        message.cluster_id,
        ReplicaKey(
            message.replica_id if state is None else state.replica_id, found.replica_directory_id
        ),
        found.current_leader_epoch,
        found.fetch_offset,
        found.last_fetched_epoch,
        message.max_wait_ms,
        message.max_bytes,
        found.high_watermark,
    )


def response_of(asked: Sequence[FetchTopic], version: int, answer: FetchAnswer) -> FetchResponse:
    """`asked` is the topic of the request: the response names it in the same way."""
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return FetchResponse(error_code=answer.error)
    known, diverging, snapshot = answer.known, answer.diverging, answer.snapshot
    partition = PartitionData(
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        diverging_epoch=None if diverging is None else _epoch_end(*diverging),
        current_leader=LeaderIdAndEpoch(leader_id=leader_id_of(known), leader_epoch=known.epoch),
        snapshot_id=None if snapshot is None else _snapshot_id(*snapshot),
        aborted_transactions=[],
        records=answer.records,
    )
    (topic,) = asked
    found = FetchableTopicResponse(
        topic=topic.topic, topic_id=topic.topic_id, partitions=[partition]
    )
    places = node_endpoints(NodeEndpoint, known) if version >= FIRST_WITH_ENDPOINTS else []
    return FetchResponse(responses=[found], node_endpoints=places)


def _epoch_end(epoch: int, end_offset: int) -> EpochEndOffset:
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def _snapshot_id(end_offset: int, epoch: int) -> SnapshotId:
    return SnapshotId(end_offset=end_offset, epoch=epoch)
