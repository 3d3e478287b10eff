"""Assignors of a classic group: the leader's decision, from values alone.

*range* is the algorithm of Kafka 0.7: partitions of each topic and members are sorted, and each
member gets a contiguous range of nearly equal size. *roundrobin* deals all partitions out one by
one. *sticky* balances, with as few moves as possible; *cooperative-sticky* does the same, and takes
a partition from a member only after it has given it up (KIP-429). Kafka's counterparts:
`RangeAssignor`, `RoundRobinAssignor`, `StickyAssignor`, `CooperativeStickyAssignor`. The members
that get the odd partitions may differ from Kafka's, since only the leader decides; the number of
partitions for each member does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final, Protocol

from ottla.base.errors import ProtocolError, UserError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.codec.fields import array, int32
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.coordinator.classic.consumer_protocol import TopicPartition as TopicPartitions
from ottla.coordinator.consumer.assignors import Subscriber, assign_range, assign_uniform

NO_GENERATION: Final = -1

Partitions = frozenset[TopicPartition]
NONE: Final[Partitions] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """A member as seen by the group's leader; `owned` is what it had before the rebalance."""

    topics: frozenset[str]
    instance_id: str | None = None
    owned: Partitions = NONE
    generation: int = NO_GENERATION
    user_data: bytes = b""
    rack: str | None = None


class PartitionAssignor(Protocol):
    """How a group shares its partitions. All members must have one assignor in common."""

    @property
    def name(self) -> str:
        """The name that members agree on; Kafka's are `range`, `roundrobin`, `sticky`."""

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions during a rebalance until they must give them up."""

    def user_data(self, owned: Partitions, generation: int) -> bytes:
        """Data about this member for the leader, which gets it in `assign`."""

    def assign(
        self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Returns the partitions of each member by its id; `counts` are the partitions of each
        topic.

        A topic that does not exist has no count.
        """


class RangeAssignor:
    """Contiguous ranges of each topic, the same for topics with equally many partitions."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Partitions, generation: int) -> bytes:
        return b""

    def assign(
        self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, Partitions]:
        return _named(assign_range(_subscribers(members, counts, {}), counts))


class RoundRobinAssignor:
    """All partitions in order, dealt out to the members in order, static ones first."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Partitions, generation: int) -> bytes:
        return b""

    def assign(
        self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, Partitions]:
        wanted = {topic for one in members.values() for topic in one.topics}
        found: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
        readers = cycle(sorted(members, key=lambda one: _member_order(one, members[one])))
        for topic in sorted(wanted & counts.keys()):
            for partition in range(counts[topic]):
                reader = next(one for one in readers if topic in members[one].topics)
                found[reader].add(TopicPartition(topic, partition))
        return {member_id: frozenset(partitions) for member_id, partitions in found.items()}


def _member_order(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    return (False, member.instance_id) if member.instance_id else (True, member_id)


class StickyAssignor:
    """Balances with as few moves as possible; members give up everything before a rebalance."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Partitions, generation: int) -> bytes:
        return encode_sticky_user_data(owned, generation)

    def assign(
        self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, Partitions]:
        # Members have given up what they owned; their user data has it.
        claims = {one: decode_sticky_user_data(members[one].user_data) for one in members}
        return _named(assign_uniform(_subscribers(members, counts, _valid(claims)), counts))


class CooperativeStickyAssignor:
    """As `StickyAssignor`; members continue to read what they keep during a rebalance."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Partitions, generation: int) -> bytes:
        # librdkafka and older Java consumers send the generation here, later ones in the
        # subscription itself.
        return generation.to_bytes(4, "big", signed=True)

    def assign(
        self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, Partitions]:
        claims = {one: (members[one].owned, _generation(members[one])) for one in members}
        kept = _valid(claims)
        target = _named(assign_uniform(_subscribers(members, counts, kept), counts))
        # A moved partition is assigned to nobody until its owner has given it up and all rejoin.
        held = {one: member_id for member_id in kept for one in kept[member_id]}
        return {
            member_id: frozenset(one for one in partitions if held.get(one, member_id) == member_id)
            for member_id, partitions in target.items()
        }


def _generation(member: MemberSubscription) -> int:
    if member.generation != NO_GENERATION or len(member.user_data) != 4:
        return member.generation
    return int.from_bytes(member.user_data, "big", signed=True)


def _valid(claims: Mapping[str, tuple[Partitions, int]]) -> dict[str, Partitions]:
    """Returns what each member owned; a partition with two claims belongs to the later generation.

    If both claims have the same generation, neither is valid, as in Kafka.
    """
    latest: dict[TopicPartition, int] = {}
    claimed: dict[TopicPartition, list[str]] = {}
    for member_id, (partitions, generation) in claims.items():
        for one in partitions:
            if one not in latest or generation > latest[one]:
                latest[one], claimed[one] = generation, [member_id]
            elif generation == latest[one]:
                claimed[one].append(member_id)
    return {
        member_id: frozenset(one for one in partitions if claimed[one] == [member_id])
        for member_id, (partitions, _) in claims.items()
    }


def _subscribers(
    members: Mapping[str, MemberSubscription],
    counts: Mapping[str, int],
    owned: Mapping[str, Partitions],
) -> dict[str, Subscriber[str]]:
    return {
        member_id: Subscriber(
            instance_id=one.instance_id,
            topics=frozenset(one.topics & counts.keys()),
            target=frozenset((topic, number) for topic, number in owned.get(member_id, NONE)),
        )
        for member_id, one in members.items()
    }


def _named(assigned: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, Partitions]:
    return {
        member_id: frozenset(TopicPartition(*one) for one in partitions)
        for member_id, partitions in assigned.items()
    }


class StickyUserData(Message, versions="0-1"):
    """What a member of a sticky group owned; version 1 adds the generation."""

    previous_assignment: list[TopicPartitions] = array(TopicPartitions, "0+")
    generation: int = int32("1+", default=NO_GENERATION, ignorable=True)


def encode_sticky_user_data(owned: Partitions, generation: int) -> bytes:
    output = Output()
    data = StickyUserData(previous_assignment=listed(owned), generation=generation)
    writer(StickyUserData, 1)(data, output)
    return output.read_all()


def decode_sticky_user_data(data: bytes) -> tuple[Partitions, int]:
    """Returns what a member owned, and its generation; nothing for invalid bytes."""
    # kafka-python writes the version in two bytes first.
    for version, position in ((1, 0), (0, 0), (1, 2)):
        try:
            found, _ = reader(StickyUserData, version)(data, position)
        except ProtocolError:
            continue
        return unlisted(found.previous_assignment), found.generation
    return NONE, NO_GENERATION


def listed(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Partitions by topic, as the members of a group send them."""
    found = by_topic(partitions)
    return [TopicPartitions(topic=name, partitions=numbers) for name, numbers in found.items()]


def unlisted(topics: Iterable[TopicPartitions]) -> Partitions:
    return frozenset(
        TopicPartition(one.topic, number) for one in topics for number in one.partitions
    )


ASSIGNORS: Final[Mapping[str, PartitionAssignor]] = {
    one.name: one
    for one in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}


def assignors_of(
    names: Sequence[str], own: Sequence[PartitionAssignor] = ()
) -> tuple[PartitionAssignor, ...]:
    """Returns the assignors by name, with the user's own first; raises `UserError`."""
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown:
        known = ", ".join(ASSIGNORS)
        raise UserError(
            f"partition.assignment.strategy={unknown[0]}: one of {known}; "
            "hand in an assignor of your own as assignors=[...]"
        )
    return (*own, *(ASSIGNORS[name] for name in names))
