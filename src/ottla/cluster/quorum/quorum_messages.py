"""What the quorum's machine asks of other nodes as Kafka's messages, and their responses as values.

The inverse is `server/orders/quorum_values.py`. Kafka's counterpart: `RaftUtil`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.base.addresses import MAX_PORT
from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA, CLUSTER_METADATA_ID
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch_snapshot,
    update_raft_voter,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.vote import VoteRequest, VoteRequestPartition, VoteRequestTopic
from ottla.quorum.messages import (
    AddVoter,
    AskVersions,
    BeginQuorumEpoch,
    DescribeQuorum,
    EndQuorumEpoch,
    EpochAnswer,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Known,
    RemoveVoter,
    Request,
    Response,
    SnapshotAnswer,
    SnapshotId,
    UpdateVoter,
    UpgradeVersion,
    VersionsAnswer,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from ottla.quorum.options import KRAFT_VERSION
from ottla.quorum.voters import Endpoint

NOTHING_KNOWN: Final = Known(-1)
"""Of a response that tells no epoch."""

FIRST_PRE_VOTE: Final = 2
FIRST_EARLY_ANSWER: Final = 1
FIRST_REPLICA_STATE: Final = 15
"""The first versions of Vote, AddRaftVoter and Fetch that can say so."""


# Requests


def api_key_of(request: Request) -> ApiKey:
    return _API_KEYS[type(request)]


def message_of(request: Request, version: int) -> Message:
    """The message in the version of its API that the node is asked in.

    A version that cannot say something leaves it out, but for the question of a pre-vote: whoever
    calls this knows better.
    """
    return _MESSAGES[type(request)](request, version)


def _vote(request: Vote, _: int) -> VoteRequest:
    partition = VoteRequestPartition(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.end_offset,
        pre_vote=request.is_pre_vote,
    )
    topic = VoteRequestTopic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return VoteRequest(cluster_id=request.cluster_id, voter_id=request.voter.id, topics=[topic])


def _begin_epoch(request: BeginQuorumEpoch, _: int) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.BegunPartition(
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.BegunTopic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        topics=[topic],
        leader_endpoints=_listeners(begin_quorum_epoch.LeaderEndpoint, request.endpoints),
    )


def _end_epoch(request: EndQuorumEpoch, _: int) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.EndedPartition(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[one.id for one in request.preferred],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(
                candidate_id=one.id, candidate_directory_id=one.directory_id
            )
            for one in request.preferred
        ],
    )
    topic = end_quorum_epoch.EndedTopic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[topic],
        leader_endpoints=_listeners(end_quorum_epoch.LeaderEndpoint, request.endpoints),
    )


def _fetch(request: Fetch, version: int) -> FetchRequest:
    """As Kafka's nodes ask: the limit of the whole response counts."""
    partition = FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    has_state = version >= FIRST_REPLICA_STATE
    return FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=-1 if has_state else request.replica.id,
        replica_state=ReplicaState(replica_id=request.replica.id) if has_state else None,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[
            FetchTopic(topic=CLUSTER_METADATA, topic_id=CLUSTER_METADATA_ID, partitions=[partition])
        ],
    )


def _fetch_snapshot(request: FetchSnapshot, _: int) -> fetch_snapshot.FetchSnapshotRequest:
    part = fetch_snapshot.SnapshotPart(
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.SnapshotTopic(name=CLUSTER_METADATA, partitions=[part])],
    )


def _add_voter(request: AddVoter, version: int) -> add_raft_voter.AddRaftVoterRequest:
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.key.id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=_listeners(add_raft_voter.Listener, request.voter.endpoints),
        ack_when_committed=request.ack_when_committed or version < FIRST_EARLY_ANSWER,
    )


def _remove_voter(request: RemoveVoter, _: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.key.id,
        voter_directory_id=request.key.directory_id,
    )


def _update_voter(request: UpdateVoter, _: int) -> update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=_listeners(update_raft_voter.Listener, voter.endpoints),
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )


def _ask_versions(_: AskVersions, __: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="1")


SOFTWARE: Final = "ottla"

_API_KEYS: Final[Mapping[type[Any], ApiKey]] = {
    Vote: ApiKey.VOTE,
    BeginQuorumEpoch: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpoch: ApiKey.END_QUORUM_EPOCH,
    Fetch: ApiKey.FETCH,
    FetchSnapshot: ApiKey.FETCH_SNAPSHOT,
    AddVoter: ApiKey.ADD_RAFT_VOTER,
    RemoveVoter: ApiKey.REMOVE_RAFT_VOTER,
    UpdateVoter: ApiKey.UPDATE_RAFT_VOTER,
    AskVersions: ApiKey.API_VERSIONS,
}

_MESSAGES: Final[Mapping[type[Any], Callable[[Any, int], Message]]] = {
    Vote: _vote,
    BeginQuorumEpoch: _begin_epoch,
    EndQuorumEpoch: _end_epoch,
    Fetch: _fetch,
    FetchSnapshot: _fetch_snapshot,
    AddVoter: _add_voter,
    RemoveVoter: _remove_voter,
    UpdateVoter: _update_voter,
    AskVersions: _ask_versions,
}


def _listeners(kind: Callable[..., Any], endpoints: Iterable[Endpoint]) -> list[Any]:
    return [kind(name=one.name, host=one.host, port=one.port) for one in endpoints]


# Responses


def answer_of(request: Request, message: Any) -> Response:
    """The value of a response. What it has of records is a view of the message's.

    Its epoch is -1 where the message tells none: an error of the whole response.
    """
    match request:
        case Vote():
            return _voted(message)
        case BeginQuorumEpoch() | EndQuorumEpoch():
            found = _partition(message.topics)
            if found is None:
                return EpochAnswer(ErrorCode(message.error_code), NOTHING_KNOWN)
            return EpochAnswer(ErrorCode(found.error_code), _known(found, message))
        case Fetch():
            return _fetched(message)
        case FetchSnapshot():
            return _fetched_snapshot(request, message)
        case UpdateVoter():
            leader = message.current_leader
            known = NOTHING_KNOWN
            if leader is not None:
                place = _place(leader) if leader.leader_id >= 0 and leader.host else None
                known = _leader(leader.leader_id, leader.leader_epoch, place)
            return VoterAnswer(ErrorCode(message.error_code), known)
        case AskVersions():
            return _versions(message)
        case AddVoter() | RemoveVoter() | UpgradeVersion() | DescribeQuorum():
            error = ErrorCode(message.error_code)
            return VoterAnswer(error, NOTHING_KNOWN, message.error_message)


def _voted(message: Any) -> VoteAnswer:
    found = _partition(message.topics)
    if found is None:
        return VoteAnswer(ErrorCode(message.error_code), NOTHING_KNOWN)
    return VoteAnswer(ErrorCode(found.error_code), _known(found, message), found.vote_granted)


def _fetched(message: Any) -> FetchAnswer:
    found = _partition(message.responses)
    if message.error_code or found is None:
        return FetchAnswer(ErrorCode(message.error_code), NOTHING_KNOWN)
    diverging, snapshot = found.diverging_epoch, found.snapshot_id
    return FetchAnswer(
        ErrorCode(found.error_code),
        _current_leader(found, message),
        found.high_watermark,
        found.log_start_offset,
        None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
        None if snapshot is None else SnapshotId(snapshot.end_offset, snapshot.epoch),
        found.records or b"",
    )


def _fetched_snapshot(request: FetchSnapshot, message: Any) -> SnapshotAnswer:
    found = _partition(message.topics)
    if message.error_code or found is None:
        return SnapshotAnswer(ErrorCode(message.error_code), NOTHING_KNOWN, request.snapshot)
    return SnapshotAnswer(
        ErrorCode(found.error_code),
        _current_leader(found, message),
        SnapshotId(found.snapshot_id.end_offset, found.snapshot_id.epoch),
        found.size,
        found.position,
        found.unaligned_records or b"",
    )


def _versions(message: Any) -> VersionsAnswer:
    """Who does not name `kraft.version` knows static voters alone."""
    error = ErrorCode(message.error_code)
    for one in message.supported_features:
        if one.name == KRAFT_VERSION:
            return VersionsAnswer(error, NOTHING_KNOWN, one.min_version, one.max_version)
    return VersionsAnswer(error, NOTHING_KNOWN)


def _partition(topics: Iterable[Any]) -> Any | None:
    """The only partition of a response, if it has one."""
    return next((one for topic in topics for one in topic.partitions), None)


def _current_leader(found: Any, message: Any) -> Known:
    leader = found.current_leader
    return NOTHING_KNOWN if leader is None else _known(leader, message)


def _known(leader: Any, message: Any) -> Known:
    """`leader` has leader_id and leader_epoch; the message may tell where it is."""
    places = (one for one in message.node_endpoints if one.node_id == leader.leader_id)
    return _leader(leader.leader_id, leader.leader_epoch, next(map(_place, places), None))


def _place(one: Any) -> Endpoint | None:
    """Some messages have room for ports that are none."""
    return Endpoint("", one.host, one.port) if 0 <= one.port <= MAX_PORT else None


def _leader(leader_id: int, epoch: int, place: Endpoint | None) -> Known:
    return Known(epoch) if leader_id < 0 else Known(epoch, leader_id, place)
