"""`quorum-state` in both versions."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid
from ottla.metadata.quorum_state import LAST_EPOCH
from ottla.quorum.election_state import ElectionState, encode_election_state, parse_election_state
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from tests.support import SHARED

RECORDED = (SHARED or Path("none")) / "recorded" / "kraft"
VOTERS = VoterSet.of(Voter(ReplicaKey(one)) for one in (102, 101, 103))

keys = st.builds(ReplicaKey, st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16))
states = st.builds(
    ElectionState,
    st.integers(0, LAST_EPOCH),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | keys,
)


@given(states)
def test_a_state_of_version_1_is_read_as_it_was_written(state: ElectionState) -> None:
    assert parse_election_state(encode_election_state(state, 1, VOTERS), "q") == state


@given(states)
def test_a_state_of_version_0_lacks_the_directory(state: ElectionState) -> None:
    voted = None if state.voted is None else ReplicaKey(state.voted.id)
    read = parse_election_state(encode_election_state(state, 0, VOTERS), "q")
    assert read == state._replace(voted=voted)


@pytest.mark.skipif(not RECORDED.exists(), reason="needs the shared directories")
def test_kafkas_files_are_written_again_as_they_were_read() -> None:
    files = sorted(RECORDED.rglob("quorum-state"))
    for path in files:
        content = path.read_bytes()
        state = parse_election_state(content, str(path))
        version = int(b'"data_version":1' in content)
        assert encode_election_state(state, version, VOTERS) == content
    assert len(files) >= 7


@given(st.binary(max_size=60))
def test_garbage_is_named_with_its_file(content: bytes) -> None:
    with pytest.raises(CorruptionError, match="q"):
        parse_election_state(content, "q")


@pytest.mark.parametrize(
    "content",
    [
        b'{"leaderId":-1,"leaderEpoch":-1,"votedId":-1,"data_version":0}',
        b'{"leaderId":-1,"leaderEpoch":true,"votedId":-1,"data_version":0}',
        b'{"leaderId":-1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
        b'{"leaderId":-1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":1,"votedId":7,"votedDirectoryId":"x","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":2147483647,"votedId":-1,"data_version":0}',
        b'{"leaderId":-1,"leaderEpoch":1,"data_version":0}',
        b"[]",
    ],
)
def test_a_state_that_cannot_be_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        parse_election_state(content, "q")
    assert "Error(" not in str(caught.value), "a sentence for people"


def test_a_vote_names_the_directory_that_got_it() -> None:
    key = ReplicaKey(7, Uuid(bytes(15) + b"\1"))
    state = ElectionState(3, None, key)
    assert parse_election_state(encode_election_state(state, 1, VOTERS), "q").voted == key
