"""FetchSnapshot (59): a part of a snapshot of the metadata log (KIP-630).

Version 1 identifies the follower by its directory too, and tells the leader's address (KIP-853).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, nested, records, string, uint16, uuid
from ottla.codec.primitives import Records
from ottla.codec.schema import Message, Struct


class SnapshotId(Struct):
    """The offset behind the last record in the snapshot, and the epoch of that record."""

    end_offset: int = int64("0+")
    epoch: int = int32("0+")


class SnapshotPart(Struct):
    """`position` is the first byte that is asked for."""

    partition: int = int32("0+")
    current_leader_epoch: int = int32("0+")
    snapshot_id: SnapshotId = nested(SnapshotId, "0+")
    position: int = int64("0+")
    replica_directory_id: Uuid = uuid("1+", tag=0, ignorable=True)


class SnapshotTopic(Struct):
    name: str = string("0+")
    partitions: list[SnapshotPart] = array(SnapshotPart, "0+")


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    cluster_id: str | None = string("0+", default=None, nullable="0+", tag=0)
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    topics: list[SnapshotTopic] = array(SnapshotTopic, "0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class SnapshotPartResult(Struct):
    """`unaligned_records` are bytes of the file, `size` of them in all; a batch may be cut."""

    index: int = int32("0+")
    error_code: int = int16("0+")
    snapshot_id: SnapshotId = nested(SnapshotId, "0+")
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "0+", tag=0)
    size: int = int64("0+")
    position: int = int64("0+")
    unaligned_records: Records = records("0+")


class SnapshotTopicResult(Struct):
    name: str = string("0+")
    partitions: list[SnapshotPartResult] = array(SnapshotPartResult, "0+")


class NodeEndpoint(Struct):
    """A leader that a partition names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    topics: list[SnapshotTopicResult] = array(SnapshotTopicResult, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, ignorable=True)
