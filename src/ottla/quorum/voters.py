"""Voters: who they are, where they listen, and the sets that a log names one after another.

With `kraft.version` 0 the settings name the voters, by id; with 1 the log does, by id and directory
(KIP-853). Kafka's counterparts: `ReplicaKey`, `VoterSet`, `VoterSetHistory`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.metadata.control import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    VoterEndpoint,
    VotersRecord,
)
from ottla.metadata.control import Voter as VoterEntry


class Endpoint(NamedTuple):
    """Where a node listens, and the name of the listener."""

    name: str
    host: str
    port: int


class ReplicaKey(NamedTuple):
    """A node and its metadata directory; the zero id stands for a directory that is not known."""

    id: int
    directory_id: Uuid = ZERO_UUID


class Voter(NamedTuple):
    """A voter with its listeners, and the levels of `kraft.version` that it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_version: int = 0
    max_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by id, of which a majority decides."""

    voters: Mapping[int, Voter]

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        return cls({one.key.id: one for one in voters})

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters.values())

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self.voters)

    def get(self, node_id: int) -> Voter | None:
        return self.voters.get(node_id)

    def has(self, key: ReplicaKey) -> bool:
        """Whether the replica is a voter; where a directory is not known, the id decides."""
        voter = self.voters.get(key.id)
        return voter is not None and is_same_directory(voter.key, key)

    def others(self, node_id: int) -> list[Voter]:
        return [one for one in self.voters.values() if one.key.id != node_id]

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set with a voter added, or replaced."""
        return VoterSet({**self.voters, voter.key.id: voter})

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet({key: one for key, one in self.voters.items() if key != node_id})


def is_same_directory(one: ReplicaKey, other: ReplicaKey) -> bool:
    return ZERO_UUID in (one.directory_id, other.directory_id) or (
        one.directory_id == other.directory_id
    )


NO_VOTERS = VoterSet({})


def voters_record(voters: VoterSet) -> VotersRecord:
    return VotersRecord(
        voters=[
            VoterEntry(
                voter_id=one.key.id,
                voter_directory_id=one.key.directory_id,
                endpoints=[VoterEndpoint(name=e.name, host=e.host, port=e.port) for e in one[1]],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=one.min_version, max_supported_version=one.max_version
                ),
            )
            for one in voters
        ]
    )


def voter_records(kraft_version: int, voters: VoterSet) -> list[Message]:
    """What a log or a snapshot says of its voters; with `kraft.version` 0 the settings do."""
    if kraft_version == 0:
        return []
    return [KRaftVersionRecord(kraft_version=kraft_version), voters_record(voters)]


def voters_in(record: VotersRecord) -> VoterSet:
    return VoterSet.of(
        Voter(
            ReplicaKey(one.voter_id, one.voter_directory_id),
            tuple(Endpoint(e.name, e.host, e.port) for e in one.endpoints),
            one.kraft_version_feature.min_supported_version,
            one.kraft_version_feature.max_supported_version,
        )
        for one in record.voters
    )


class _Entry(NamedTuple):
    offset: int
    kraft_version: int
    voters: VoterSet


BEFORE_LOG = -1
"""The offset of what the settings, or the snapshot of a freshly formatted directory, say."""


class VoterHistory:
    """The sets of voters by the offset of their record: the last one is in force at once, though it
    may not be committed, and may be truncated again.
    """

    def __init__(self, kraft_version: int, voters: VoterSet) -> None:
        self._entries = [_Entry(BEFORE_LOG, kraft_version, voters)]

    @property
    def voters(self) -> VoterSet:
        return self._entries[-1].voters

    @property
    def kraft_version(self) -> int:
        return self._entries[-1].kraft_version

    @property
    def offset(self) -> int:
        """Of the last record about voters; `BEFORE_LOG` if the log has none."""
        return self._entries[-1].offset

    def take_voters(self, offset: int, voters: VoterSet) -> None:
        self._entries.append(_Entry(offset, self.kraft_version, voters))

    def take_version(self, offset: int, kraft_version: int) -> None:
        self._entries.append(_Entry(offset, kraft_version, self.voters))

    def truncate_to(self, offset: int) -> None:
        while self._entries[-1].offset >= offset > BEFORE_LOG and len(self._entries) > 1:
            self._entries.pop()

    def begin_at(self, offset: int, kraft_version: int, voters: VoterSet) -> None:
        """Everything is what a snapshot that ends before `offset` says."""
        self._entries = [_Entry(offset - 1, kraft_version, voters)]

    def at(self, offset: int) -> tuple[int, VoterSet]:
        """What was in force before `offset`: a snapshot that ends there begins with it."""
        for one in reversed(self._entries):
            if one.offset < offset:
                return one.kraft_version, one.voters
        return self._entries[0].kraft_version, self._entries[0].voters
