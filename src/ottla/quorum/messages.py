"""What the nodes of a quorum say to each other, as values: the requests, and their responses.

Names are those of Kafka's messages (KIP-595, 630, 853, 996). Where a message knows partitions,
this has the only one. `error` stands where Kafka's message has it: for the partition, or for the
whole response if the cluster is another (INCONSISTENT_CLUSTER_ID).
"""

from typing import NamedTuple, TypeAlias

from ottla.base.error_codes import ErrorCode
from ottla.base.files import Buffer
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter

NO_LIMIT = 0x7FFFFFFFFFFFFFFF


class SnapshotId(NamedTuple):
    """The offset behind the last record that a snapshot contains, and that record's epoch."""

    end_offset: int
    epoch: int


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset at which it ends in a log."""

    epoch: int
    end_offset: int


class Vote(NamedTuple):
    """`candidate` asks for a vote in `epoch`, or with `is_pre_vote` whether it would get one in the
    next; its log ends at `last`.
    """

    cluster_id: str | None
    voter: ReplicaKey
    candidate: ReplicaKey
    epoch: int
    last: EpochEnd
    is_pre_vote: bool


class BeginQuorumEpoch(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]


class EndQuorumEpoch(NamedTuple):
    """The leader resigns; the first of `preferred` should stand for election at once."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...]
    endpoints: tuple[Endpoint, ...]


class Fetch(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = NO_LIMIT
    """That of the follower, `NO_LIMIT` before version 18: if the leader's is higher, it answers at
    once.
    """


class FetchSnapshot(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


class AddVoter(NamedTuple):
    cluster_id: str | None
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


class RemoveVoter(NamedTuple):
    cluster_id: str | None
    key: ReplicaKey


class UpdateVoter(NamedTuple):
    cluster_id: str | None
    epoch: int
    voter: Voter


class UpgradeVersion(NamedTuple):
    """UpdateFeatures of `kraft.version`, which the quorum carries out itself: from then on the log
    names the voters, and not the settings. Only this node's own controller asks for it.
    """

    version: int
    timeout_ms: int
    cluster_id: str | None = None


class DescribeQuorum(NamedTuple):
    """Asks the leader who is how far."""


class AskVersions(NamedTuple):
    """ApiVersions, of which the range of `kraft.version` is wanted."""


Request: TypeAlias = (
    Vote
    | BeginQuorumEpoch
    | EndQuorumEpoch
    | Fetch
    | FetchSnapshot
    | AddVoter
    | RemoveVoter
    | UpdateVoter
    | UpgradeVersion
    | DescribeQuorum
    | AskVersions
)


class Known(NamedTuple):
    """What a node says in every response: its epoch, and that epoch's leader if it knows it."""

    epoch: int
    leader_id: int | None = None
    endpoint: Endpoint | None = None


class VoteAnswer(NamedTuple):
    error: ErrorCode
    known: Known
    is_granted: bool = False


class EpochAnswer(NamedTuple):
    """To BeginQuorumEpoch and EndQuorumEpoch."""

    error: ErrorCode
    known: Known


class FetchAnswer(NamedTuple):
    """Records, or a divergence, or a snapshot to begin with."""

    error: ErrorCode
    known: Known
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    records: Buffer = b""


class SnapshotAnswer(NamedTuple):
    """A part of a snapshot, which has `size` bytes in all."""

    error: ErrorCode
    known: Known
    snapshot: SnapshotId
    size: int = 0
    position: int = 0
    content: Buffer = b""


class VoterAnswer(NamedTuple):
    """To AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and an upgrade; `message` says why not."""

    error: ErrorCode
    known: Known
    message: str | None = None


class ReplicaState(NamedTuple):
    """How far a voter or observer is, by the leader; times are of the wall clock, -1 if unknown."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


class QuorumAnswer(NamedTuple):
    """`nodes` are where the voters are; also who does not lead tells that. Left to the caller of
    the machine are `election_reason`, why the leader has stood for election, and `message`, what
    another, `node_id`, knows of a leader.
    """

    error: ErrorCode
    known: Known
    high_watermark: int = -1
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
    nodes: tuple[Voter, ...] = ()
    election_reason: str = ""
    message: str = ""
    node_id: int = -1


class VersionsAnswer(NamedTuple):
    """The levels of `kraft.version` that a node supports."""

    error: ErrorCode
    known: Known
    min_version: int = 0
    max_version: int = 0


Response: TypeAlias = (
    VoteAnswer
    | EpochAnswer
    | FetchAnswer
    | SnapshotAnswer
    | VoterAnswer
    | QuorumAnswer
    | VersionsAnswer
)


def refusal_of(request: Request, error: ErrorCode, known: Known) -> Response:
    """The response of a node that takes no part in the quorum any more."""
    match request:
        case Vote():
            return VoteAnswer(error, known)
        case BeginQuorumEpoch() | EndQuorumEpoch():
            return EpochAnswer(error, known)
        case Fetch():
            return FetchAnswer(error, known)
        case FetchSnapshot():
            return SnapshotAnswer(error, known, request.snapshot)
        case DescribeQuorum():
            return QuorumAnswer(error, known)
        case AskVersions():
            return VersionsAnswer(error, known)
        case AddVoter() | RemoveVoter() | UpdateVoter() | UpgradeVersion():
            return VoterAnswer(error, known)
