"""FetchSnapshot, 0 and 1: a part of a snapshot of the metadata log (KIP-630)."""

from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    SnapshotId,
    SnapshotPartResult,
    SnapshotTopicResult,
)
from ottla.quorum.messages import FetchSnapshot, SnapshotAnswer
from ottla.quorum.messages import SnapshotId as Snapshot
from ottla.quorum.voters import ReplicaKey
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import (
    answered_by_quorum,
    leader_id_of,
    node_endpoints,
    only_partition,
)


def handle(request: FetchSnapshotRequest, context: RequestContext) -> Message | PendingAnswer:
    return answered_by_quorum(request_of(request), context, response_of, partial(_invalid, request))


def _invalid(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Kafka tells a request for several partitions from one for another."""
    places = [(topic.name, one) for topic in request.topics for one in topic.partitions]
    if len(places) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    ((name, place),) = places
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = SnapshotPartResult(index=place.partition, error_code=error, unaligned_records=b"")
    return FetchSnapshotResponse(topics=[SnapshotTopicResult(name=name, partitions=[found])])


def request_of(message: FetchSnapshotRequest) -> FetchSnapshot | None:
    found = only_partition(message.topics)
    if found is None:
        return None
    return FetchSnapshot(
        message.cluster_id,
        ReplicaKey(message.replica_id, found.replica_directory_id),
        found.current_leader_epoch,
        Snapshot(found.snapshot_id.end_offset, found.snapshot_id.epoch),
        found.position,
        message.max_bytes,
    )


def response_of(answer: SnapshotAnswer) -> FetchSnapshotResponse:
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return FetchSnapshotResponse(error_code=answer.error)
    part = SnapshotPartResult(
        error_code=answer.error,
        snapshot_id=SnapshotId(end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch),
        current_leader=LeaderIdAndEpoch(
            leader_id=leader_id_of(answer.known), leader_epoch=answer.known.epoch
        ),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.content,
    )
    return FetchSnapshotResponse(
        topics=[SnapshotTopicResult(name=CLUSTER_METADATA, partitions=[part])],
        node_endpoints=node_endpoints(NodeEndpoint, answer.known),
    )
