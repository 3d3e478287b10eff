"""The assignor `simple` of share groups: a pure function from subscriptions to assignments.

A partition may have several members, and a member takes what it is assigned at once. The loads of
members are even first, and as much as can be stays where it is then. Each partition has as many
members as it takes for each member to have a partition. Kafka's counterpart: `SimpleAssignor`.
"""

from collections.abc import Collection, Iterable, Mapping

from ottla.base.ids import Uuid
from ottla.base.turns import in_turns
from ottla.coordinator.consumer.assignors import Assignment, Subscriber

Partition = tuple[Uuid, int]


def assign_simple(
    subscribers: Mapping[str, Subscriber[Uuid]], partitions: Mapping[Uuid, Collection[int]]
) -> Assignment[Uuid]:
    """`partitions` are those to be assigned, by topic."""
    sharing = _Sharing(subscribers, partitions)
    sharing.keep()
    sharing.fill()
    sharing.even_out()
    return {member_id: frozenset(its) for member_id, its in sharing.assigned.items()}


class _Sharing:
    def __init__(
        self,
        subscribers: Mapping[str, Subscriber[Uuid]],
        partitions: Mapping[Uuid, Collection[int]],
    ) -> None:
        self.assigned: dict[str, set[Partition]] = {one: set() for one in sorted(subscribers)}
        self._targets = {member_id: one.target for member_id, one in subscribers.items()}
        self._readers: dict[Uuid, list[str]] = {}
        for member_id in self.assigned:
            for topic in subscribers[member_id].topics:
                if partitions.get(topic):
                    self._readers.setdefault(topic, []).append(member_id)
        self._counts = {topic: len(its) for topic, its in partitions.items()}
        self._members: dict[Partition, set[str]] = {
            (topic, index): set()
            for topic in sorted(self._readers)
            for index in sorted(partitions[topic])
        }

    def _wanted(self, topic: Uuid) -> int:
        """How many members each partition of a topic has, at most."""
        return -(-len(self._readers[topic]) // self._counts[topic])

    def _give(self, partition: Partition, member_id: str) -> None:
        self.assigned[member_id].add(partition)
        self._members[partition].add(member_id)

    def _take(self, partition: Partition, member_id: str) -> None:
        self.assigned[member_id].discard(partition)
        self._members[partition].discard(member_id)

    def _load(self, member_id: str) -> tuple[int, str]:
        return len(self.assigned[member_id]), member_id

    def keep(self) -> None:
        """Members keep what they still read, as long as it is not too many for a partition."""
        for member_id, target in self._targets.items():
            for one in in_turns(target & self._members.keys()):
                if member_id in self._readers[one[0]]:
                    self._give(one, member_id)
        for partition, members in in_turns(self._members.items()):
            surplus = len(members) - self._wanted(partition[0])
            if surplus > 0:
                for member_id in sorted(members, key=self._load)[-surplus:]:
                    self._take(partition, member_id)

    def fill(self) -> None:
        """Gives each partition its members, those with the fewest first."""
        for partition in in_turns(self._fewest_first()):
            free = [one for one in self._readers[partition[0]] if self._is_free(partition, one)]
            missing = self._wanted(partition[0]) - len(self._members[partition])
            for member_id in sorted(free, key=self._load)[: max(0, missing)]:
                self._give(partition, member_id)

    def _fewest_first(self) -> Iterable[Partition]:
        return sorted(self._members, key=lambda one: (len(self._members[one]), one))

    def _is_free(self, partition: Partition, member_id: str) -> bool:
        return member_id not in self._members[partition]

    def even_out(self) -> None:
        """Moves partitions to members with at least two fewer, until none can be moved; each move
        makes the sum of the squared loads less.
        """
        has_moved = True
        while has_moved:
            has_moved = False
            for partition, members in in_turns(self._members.items()):
                free = [one for one in self._readers[partition[0]] if one not in members]
                if not free or not members:
                    continue
                most, least = max(members, key=self._load), min(free, key=self._load)
                if len(self.assigned[most]) > len(self.assigned[least]) + 1:
                    self._take(partition, most)
                    self._give(partition, least)
                    has_moved = True
