"""The JSON of `quorum-state`, in both versions.

Format page: docs/format/quorum-state.md. It is here because those who check directories read it
too. Kafka's counterparts: `FileQuorumStateStore`, `QuorumStateData`.
"""

import json
from typing import Final, NamedTuple

from ottla.base.errors import CorruptionError
from ottla.base.ids import ZERO_UUID, Uuid, parse_uuid, uuid_text

NOBODY = -1
LAST_EPOCH: Final = (1 << 31) - (1 << 20)
"""The last one that is taken from a file or a peer: an int32 holds the epochs of many elections
after it.
"""


class QuorumState(NamedTuple):
    """The fields of a file; `voter_ids` are in version 0 only, and `voted_directory` in 1."""

    version: int
    epoch: int
    leader_id: int | None = None
    voted_id: int | None = None
    voted_directory: Uuid = ZERO_UUID
    voter_ids: frozenset[int] = frozenset()


def encode_quorum_state(state: QuorumState) -> bytes:
    leader_id = NOBODY if state.leader_id is None else state.leader_id
    voted_id = NOBODY if state.voted_id is None else state.voted_id
    if state.version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": one} for one in sorted(state.voter_ids)],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_quorum_state(content: bytes, path: str) -> QuorumState:
    """The inverse; raises `CorruptionError` that names the file."""
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
    except KeyError as error:
        raise CorruptionError(path, 0, f"not a quorum state: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptionError(path, 0, f"not a quorum state: {error}") from error
    if epoch > LAST_EPOCH:
        raise CorruptionError(path, 0, f"a quorum state of epoch {epoch}, which no quorum reaches")
    if epoch < 0 or leader_id < NOBODY or voted_id < NOBODY:
        raise CorruptionError(path, 0, "a quorum state with a negative epoch or id")
    return QuorumState(
        version,
        epoch,
        None if leader_id == NOBODY else leader_id,
        None if voted_id == NOBODY else voted_id,
        voted_directory,
        voter_ids,
    )


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a number")
    return value
