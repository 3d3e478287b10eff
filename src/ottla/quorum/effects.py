"""Effects: what the machine wants done. The caller carries them out in their order, and what one of
them writes is durable before the next, except for records (`SyncLog`).
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from ottla.base.files import Buffer
from ottla.quorum.election_state import ElectionState
from ottla.quorum.messages import FetchAnswer, Request, Response, SnapshotAnswer, SnapshotId
from ottla.quorum.voters import Endpoint, VoterSet


class WriteElectionState(NamedTuple):
    """`quorum-state` is replaced, and durable before the next effect."""

    state: ElectionState
    kraft_version: int
    voters: VoterSet


class AppendRecords(NamedTuple):
    """Batches with their offsets and epochs, which follow the end of the log."""

    records: Buffer


class SyncLog(NamedTuple):
    """Makes the log durable up to an offset; `Quorum.synced` says when that is done, with this
    effect. It may be carried out beside other effects, and later than they are.
    """

    end_offset: int
    history: int
    """Counts truncations: what was synced of a history that was cut off says nothing."""


class TruncateLog(NamedTuple):
    """Removes the records from the offset on."""

    offset: int


class WriteSnapshot(NamedTuple):
    """A part of a snapshot that a leader has sent; position 0 begins it anew."""

    snapshot: SnapshotId
    position: int
    content: Buffer


class FinishSnapshot(NamedTuple):
    """The snapshot is complete: it is made durable, and gets its name."""

    snapshot: SnapshotId


class StartLogAt(NamedTuple):
    """Removes all records: the log begins with the end of this snapshot."""

    snapshot: SnapshotId


class DeleteBefore(NamedTuple):
    """Removes older snapshots, and the records that are in this one."""

    snapshot: SnapshotId


class Send(NamedTuple):
    """A request to a node; the response goes to `Quorum.answered`, with this number."""

    number: int
    node_id: int
    endpoint: Endpoint | None
    request: Request


class Reply(NamedTuple):
    """The response to a request that `Quorum.receive` has taken."""

    pending_id: Hashable
    response: Response


class ReplyRecords(NamedTuple):
    """The response gets the batches from `offset` on; at least one, otherwise up to `max_bytes`."""

    pending_id: Hashable
    response: FetchAnswer
    offset: int
    max_bytes: int


class ReplySnapshot(NamedTuple):
    """The response gets the snapshot's size, and its bytes from the position on."""

    pending_id: Hashable
    response: SnapshotAnswer
    max_bytes: int


class LeaderChanged(NamedTuple):
    """The leader of an epoch is known, or is not any more; it may be this node.

    A leader may decide once the high watermark is behind `start_offset`: everything that earlier
    leaders have committed is then committed here.
    """

    epoch: int
    leader_id: int | None
    start_offset: int | None = None


class HighWatermarkMoved(NamedTuple):
    """Records below the offset are committed."""

    offset: int


class LoadSnapshot(NamedTuple):
    """The state is what this snapshot says, and then what the log does."""

    snapshot: SnapshotId


Effect: TypeAlias = (
    WriteElectionState
    | AppendRecords
    | SyncLog
    | TruncateLog
    | WriteSnapshot
    | FinishSnapshot
    | StartLogAt
    | DeleteBefore
    | Send
    | Reply
    | ReplyRecords
    | ReplySnapshot
    | LeaderChanged
    | HighWatermarkMoved
    | LoadSnapshot
)
