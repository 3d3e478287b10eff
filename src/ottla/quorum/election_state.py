"""`quorum-state`: what a node must know of elections after a crash.

Format page: docs/format/quorum-state.md. It is durable before a vote, or anything else that tells
the epoch, is answered. Kafka's counterpart: `ElectionState`.
"""

from typing import NamedTuple

from ottla.base.ids import ZERO_UUID
from ottla.metadata.quorum_state import QuorumState, encode_quorum_state, parse_quorum_state
from ottla.quorum.voters import ReplicaKey, VoterSet


class ElectionState(NamedTuple):
    """The epoch, its leader if that is known, or else the candidate that got this node's vote."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


def encode_election_state(state: ElectionState, kraft_version: int, voters: VoterSet) -> bytes:
    """The content of the file: version 0 names the voters, 1 the directory that got the vote."""
    voted_id, directory_id = (None, ZERO_UUID) if state.voted is None else state.voted
    version = min(kraft_version, 1)
    return encode_quorum_state(
        QuorumState(version, state.epoch, state.leader_id, voted_id, directory_id, voters.ids)
    )


def election_in(state: QuorumState) -> ElectionState:
    voted = None if state.voted_id is None else ReplicaKey(state.voted_id, state.voted_directory)
    return ElectionState(state.epoch, state.leader_id, voted)


def parse_election_state(content: bytes, path: str) -> ElectionState:
    """The inverse, for both versions; raises `CorruptionError` that names the file."""
    return election_in(parse_quorum_state(content, path))
