"""Whatever the quorum's machine says arrives at another node, as far as the version has a place for
it.
"""

from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.cluster.quorum.quorum_messages import NOTHING_KNOWN, answer_of, api_key_of, message_of
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class
from ottla.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.fetch import FetchRequest
from ottla.quorum.messages import (
    NO_LIMIT,
    AddVoter,
    AskVersions,
    BeginQuorumEpoch,
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
    VersionsAnswer,
    Vote,
    VoteAnswer,
    VoterAnswer,
    refusal_of,
)
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter
from tests.support.quorum_nodes import HANDLERS

ids = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**62)
epochs = st.integers(0, 2**31 - 1)
uuids = st.binary(min_size=16, max_size=16).map(Uuid)
keys = st.builds(ReplicaKey, ids, uuids)
clusters = st.none() | st.text("abc-_", max_size=22)
ports = st.integers(0, 65535)
endpoints = st.builds(Endpoint, st.text("AB", min_size=1, max_size=9), st.text("h."), ports)
listeners = st.lists(endpoints, max_size=3).map(tuple)
ends = st.builds(EpochEnd, epochs, offsets)
snapshots = st.builds(SnapshotId, offsets, epochs)
voters = st.builds(Voter, keys, listeners, st.just(0), st.just(1))
errors = st.sampled_from([ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST])

REQUESTS: tuple[st.SearchStrategy[Request], ...] = (
    st.builds(Vote, clusters, keys, keys, epochs, ends, st.booleans()),
    st.builds(BeginQuorumEpoch, clusters, keys, ids, epochs, listeners),
    st.builds(EndQuorumEpoch, clusters, ids, epochs, st.lists(keys).map(tuple), listeners),
    st.builds(Fetch, clusters, keys, epochs, offsets, epochs, ids, ids, offsets),
    st.builds(FetchSnapshot, clusters, keys, epochs, snapshots, offsets, ids),
    st.builds(AddVoter, clusters, voters, ids, st.booleans()),
    st.builds(RemoveVoter, clusters, keys),
    st.builds(
        UpdateVoter,
        clusters,
        epochs,
        st.builds(Voter, keys, listeners, st.integers(0, 9), st.integers(0, 9)),
    ),
)


def through(message: Message, version: int) -> Any:
    """The message as another node reads it."""
    output = Output()
    writer(type(message), version)(message, output)
    content = bytes(output.read_all())
    read, end = reader(type(message), version)(content, 0)
    assert end == len(content)
    return read


def without_directory(key: ReplicaKey) -> ReplicaKey:
    return key._replace(directory_id=ZERO_UUID)


def in_version(request: Any, version: int) -> Any:
    """What of a request a version has."""
    match request:
        case Vote() if version == 0:
            voter = ReplicaKey(-1)
            return request._replace(voter=voter, candidate=without_directory(request.candidate))
        case BeginQuorumEpoch() if version == 0:
            return request._replace(voter=ReplicaKey(-1), endpoints=())
        case EndQuorumEpoch() if version == 0:
            preferred = tuple(map(without_directory, request.preferred))
            return request._replace(preferred=preferred, endpoints=())
        case Fetch() if version < 18:
            has_directory = version >= 17
            key = request.replica if has_directory else without_directory(request.replica)
            return request._replace(replica=key, high_watermark=NO_LIMIT)
        case FetchSnapshot() if version == 0:
            return request._replace(replica=without_directory(request.replica))
        case AddVoter() if version == 0:
            return request._replace(ack_when_committed=True)
        case _:
            return request


@given(st.one_of(REQUESTS), st.data())
def test_a_request_arrives_as_it_was_sent(request: Any, data: st.DataObject) -> None:
    key = api_key_of(request)
    known = request_class(key).VERSIONS
    first = 12 if key is ApiKey.FETCH else known.first
    version = data.draw(st.integers(first, known.last))
    if isinstance(request, Vote) and version < 2:
        request = request._replace(is_pre_vote=False)
    arrived = HANDLERS[key].request_of(through(message_of(request, version), version))
    assert arrived == in_version(request, version)


places = st.none() | st.builds(Endpoint, st.just(""), st.text("h.", min_size=1), ports)
nobody = st.builds(Known, epochs, st.none(), st.none())
knowns = nobody | st.builds(Known, epochs, ids, places)
contents = st.binary(max_size=99)
ANSWERS: dict[type[Any], st.SearchStrategy[Response]] = {
    Vote: st.builds(VoteAnswer, errors, knowns, st.booleans()),
    BeginQuorumEpoch: st.builds(EpochAnswer, errors, knowns),
    EndQuorumEpoch: st.builds(EpochAnswer, errors, knowns),
    Fetch: st.builds(
        FetchAnswer,
        errors,
        knowns,
        offsets,
        offsets,
        st.none() | ends,
        st.none() | snapshots,
        contents,
    ),
    FetchSnapshot: st.builds(SnapshotAnswer, errors, knowns, snapshots, offsets, offsets, contents),
    AddVoter: st.builds(VoterAnswer, errors, st.just(NOTHING_KNOWN), st.text(max_size=9)),
    RemoveVoter: st.builds(VoterAnswer, errors, st.just(NOTHING_KNOWN), st.text(max_size=9)),
    UpdateVoter: st.builds(VoterAnswer, errors, knowns, st.none()),
}


@given(st.one_of(REQUESTS), st.data())
def test_a_response_arrives_as_it_was_given(request: Any, data: st.DataObject) -> None:
    key = api_key_of(request)
    last = last_of(key)
    answer: Any = data.draw(ANSWERS[type(request)])
    arrived = answer_of(request, through(response(key, request, answer), last))
    assert arrived == answer


def response(key: ApiKey, request: Request, answer: Response) -> Message:
    last = last_of(key)
    respond = HANDLERS[key].response_of
    if key is ApiKey.FETCH:
        asked = message_of(request, last)
        assert isinstance(asked, FetchRequest)
        respond = partial(respond, asked.topics, last)
    found: Message = respond(answer)
    return found


@given(st.one_of(REQUESTS))
def test_another_cluster_is_refused_as_a_whole(request: Any) -> None:
    error, key = ErrorCode.INCONSISTENT_CLUSTER_ID, api_key_of(request)
    answer = refusal_of(request, error, Known(3, 1))
    arrived = answer_of(request, through(response(key, request, answer), last_of(key)))
    assert arrived.error is error
    if not isinstance(request, UpdateVoter):
        assert arrived.known == NOTHING_KNOWN


def last_of(key: ApiKey) -> int:
    return request_class(key).VERSIONS.last


def test_a_node_says_which_levels_of_kraft_version_it_supports() -> None:
    features = [
        SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
        SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),
    ]
    none, known = ErrorCode.NONE, NOTHING_KNOWN
    found = through(ApiVersionsResponse(supported_features=features), 4)
    assert answer_of(AskVersions(), found) == VersionsAnswer(none, known, 0, 1)
    found = through(ApiVersionsResponse(supported_features=features[:1]), 4)
    assert answer_of(AskVersions(), found) == VersionsAnswer(none, known, 0, 0)


def test_requests_about_other_topics_are_no_requests_of_the_quorum() -> None:
    request = Fetch(None, ReplicaKey(1), 1, 0, 0, 0, 0)
    message = through(message_of(request, 17), 17)
    message.topics[0].topic_id = Uuid(bytes(15) + b"\2")
    assert HANDLERS[ApiKey.FETCH].request_of(message) is None
    message = through(message_of(request, 12), 12)
    message.topics.append(message.topics[0])
    assert HANDLERS[ApiKey.FETCH].request_of(message) is None
