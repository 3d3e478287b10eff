"""`quorum-state`: what a node must know of elections after a crash.

Format page: docs/format/quorum-state.md. It is durable before a vote, or anything else that tells
the epoch, is answered. Kafka's counterparts: `ElectionState`, `FileQuorumStateStore`.
"""

import json
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.base.ids import ZERO_UUID, parse_uuid, uuid_text
from ottla.quorum.voters import ReplicaKey, VoterSet

NOBODY = -1


class ElectionState(NamedTuple):
    """The epoch, its leader if that is known, or else the candidate that got this node's vote."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


class QuorumState(NamedTuple):
    """What a file says: `version` is 0 or 1; with 0 it repeats the voters of the settings."""

    version: int
    election: ElectionState
    voter_ids: frozenset[int] = frozenset()


def encode_election_state(state: ElectionState, kraft_version: int, voters: VoterSet) -> bytes:
    """The content of the file: version 0 names the voters, 1 the directory that got the vote."""
    leader_id = NOBODY if state.leader_id is None else state.leader_id
    voted_id = NOBODY if state.voted is None else state.voted.id
    if kraft_version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": one} for one in sorted(voters.ids)],
            "data_version": 0,
        }
    else:
        directory_id = ZERO_UUID if state.voted is None else state.voted.directory_id
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_text(directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_quorum_state(content: bytes, path: str) -> QuorumState:
    """The inverse, for both versions; raises `CorruptionError` that names the file."""
    try:
        fields = json.loads(content)
        version = fields["data_version"]
        if version not in (0, 1):
            raise CorruptionError(path, 0, f"a quorum state of version {version} is not known here")
        epoch, leader_id, voted_id = (
            _number(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId")
        )
        directory = fields["votedDirectoryId"] if version == 1 else None
        voted_directory = ZERO_UUID if directory is None else parse_uuid(directory)
        voters = fields.get("currentVoters") or ()
        voter_ids = frozenset(_number(one["voterId"]) for one in voters)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(path, 0, f"not a quorum state ({error!r})") from error
    if epoch < 0 or leader_id < NOBODY or voted_id < NOBODY:
        raise CorruptionError(path, 0, "a quorum state with a negative epoch or id")
    election = ElectionState(
        epoch,
        None if leader_id == NOBODY else leader_id,
        None if voted_id == NOBODY else ReplicaKey(voted_id, voted_directory),
    )
    return QuorumState(version, election, voter_ids)


def parse_election_state(content: bytes, path: str) -> ElectionState:
    """What a file says of elections; raises `CorruptionError`."""
    return parse_quorum_state(content, path).election


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a number")
    return value
