"""The states of a node, with what each of them has to remember.

Kafka's counterparts: `EpochState` and its implementations, `EpochElection`.
"""

from collections.abc import Hashable
from dataclasses import field
from typing import NamedTuple, TypeAlias

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.quorum.election_state import ElectionState
from ottla.quorum.messages import (
    AddVoter,
    Fetch,
    Known,
    RemoveVoter,
    SnapshotId,
    UpdateVoter,
    UpgradeVersion,
    VersionsAnswer,
)
from ottla.quorum.voters import Endpoint, ReplicaKey, VoterSet


@dataclass(slots=True)
class Ballot:
    """The answers to one round of votes; every voter has one."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self.rejected) > len(self.voters) - self.voters.majority

    def record(self, voter_id: int, *, is_granted: bool) -> None:
        if voter_id in self.voters.ids:
            (self.granted if is_granted else self.rejected).add(voter_id)

    def is_open(self, voter_id: int) -> bool:
        return voter_id not in self.granted and voter_id not in self.rejected


@dataclass(slots=True)
class Unattached:
    """Knows no leader that it could fetch from; may have voted."""

    epoch: int
    deadline_ms: float
    leader_id: int | None = None
    """A leader whose address is not known."""
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, before it begins an epoch (KIP-996)."""

    epoch: int
    deadline_ms: float
    ballot: Ballot
    leader: Known
    """The last leader, to which it returns if it would not be elected."""
    voted: ReplicaKey | None = None
    leader_id: None = None


@dataclass(slots=True)
class Candidate:
    epoch: int
    deadline_ms: float
    ballot: Ballot
    voted: ReplicaKey | None
    is_backing_off: bool = False
    leader_id: None = None


@dataclass(slots=True)
class Follower:
    epoch: int
    deadline_ms: float
    leader_id: int
    endpoint: Endpoint | None
    next_change_ms: float
    """When to tell the leader other listeners, or to ask to become a voter."""
    has_fetched: bool = False
    snapshot: SnapshotId | None = None
    """The snapshot that is being fetched, `position` bytes of which are here."""
    position: int = 0
    head: bytes = b""
    """Its first bytes, until its first batch is complete."""
    voted: None = None


@dataclass(slots=True)
class Resigned:
    """Has led, and tells the others that it does not any more."""

    epoch: int
    deadline_ms: float
    leader_id: int
    preferred: tuple[ReplicaKey, ...]
    endpoints: tuple[Endpoint, ...]
    to_tell: set[int]
    voted: None = None


@dataclass(slots=True)
class Progress:
    """How far a replica is by its fetches; times of the monotonic and of the wall clock."""

    end_offset: int = -1
    fetched_ms: float = -1
    fetched_time_ms: int = -1
    caught_up_ms: float = -1
    caught_up_time_ms: int = -1
    leaders_end: int = -1
    """The leader's end at the last fetch."""
    directory_id: Uuid = ZERO_UUID
    """As in the last fetch: the settings do not say it."""


class ParkedFetch(NamedTuple):
    pending_id: Hashable
    request: Fetch
    until_ms: float


@dataclass(slots=True)
class VoterChange:
    """The change of voters that is under way: one at a time."""

    pending_id: Hashable
    request: AddVoter | RemoveVoter | UpdateVoter | UpgradeVersion
    until_ms: float
    offset: int | None = None
    """Of its VotersRecord; `None` while voters are asked for their versions."""
    versions: dict[int, VersionsAnswer] = field(default_factory=dict)
    """What the voters have said, for an upgrade."""
    is_answered: bool = False


@dataclass(slots=True)
class Leader:
    epoch: int
    leader_id: int
    start_offset: int
    """Of the LeaderChange record: the high watermark is unknown until a majority has it."""
    check_ms: float
    """When it resigns unless a majority has fetched."""
    announce_ms: float
    contacted: set[int] = field(default_factory=set)
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    voted: None = None


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Resigned | Leader


def election_of(role: Role) -> ElectionState:
    """What of it must outlive a crash."""
    return ElectionState(role.epoch, role.leader_id, role.voted)
