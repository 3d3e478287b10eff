"""The assignors of consumer groups: pure functions from subscriptions to assignments.

*range* gives each member contiguous partitions of every topic, the same ones in topics of equal
size. *uniform* balances the number of partitions with as few moves as possible. Both process
members in a fixed order, Kafka in the order of a hash table: a different member may get the odd
partition, but the numbers of partitions are the same. Kafka's counterparts: `RangeAssignor`,
`UniformAssignor`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from ottla.base.ids import Uuid
from ottla.base.values import dataclass

Topic = TypeVar("Topic", Uuid, str)
"""The key of a topic: its id in consumer groups, its name in classic groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber(Generic[Topic]):
    """A member as an assignor sees it: its topics and its previous target assignment."""

    instance_id: str | None = None
    topics: frozenset[Topic]
    target: frozenset[tuple[Topic, int]] = frozenset()


Assignment = dict[str, frozenset[tuple[Topic, int]]]
Assignor = Callable[[Mapping[str, Subscriber[Uuid]], Mapping[Uuid, int]], Assignment[Uuid]]
"""`assign(subscribers by member id, partition counts by topic)`: an assignment for each member.

Every topic that a member subscribes to has a count.
"""


def assign_range(
    subscribers: Mapping[str, Subscriber[Topic]], counts: Mapping[Topic, int]
) -> Assignment[Topic]:
    """Assigns ranges of each topic; static members come first, so that they keep their ranges."""
    order = sorted(subscribers, key=lambda one: _range_order(one, subscribers[one]))
    assigned: dict[str, set[tuple[Topic, int]]] = {member_id: set() for member_id in order}
    for topic_id in {topic for one in subscribers.values() for topic in one.topics}:
        readers = [one for one in order if topic_id in subscribers[one].topics]
        least, odd = divmod(counts[topic_id], len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + least + (number < odd)
            assigned[member_id].update((topic_id, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _range_order(member_id: str, subscriber: Subscriber[Topic]) -> tuple[bool, str]:
    instance_id = subscriber.instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_uniform(
    subscribers: Mapping[str, Subscriber[Topic]], counts: Mapping[Topic, int]
) -> Assignment[Topic]:
    """Balances the number of partitions between members, as far as their subscriptions allow."""
    topics = {one.topics for one in subscribers.values()}
    if len(topics) <= 1:
        return _deal(subscribers, _all_partitions(next(iter(topics), frozenset()), counts))
    balance = _Balance(subscribers, counts)
    balance.keep()
    balance.fill()
    balance.even_out()
    return balance.assignment()


def _all_partitions(
    topics: Iterable[Topic], counts: Mapping[Topic, int]
) -> dict[tuple[Topic, int], None]:
    """The partitions in order, as the keys of a dictionary."""
    return {(topic, index): None for topic in sorted(topics) for index in range(counts[topic])}


def _deal(
    subscribers: Mapping[str, Subscriber[Topic]], free: dict[tuple[Topic, int], None]
) -> Assignment[Topic]:
    """For equal subscriptions: takes partitions from members above their share for the others."""
    kept: dict[str, list[tuple[Topic, int]]] = {}
    for member_id in sorted(subscribers):
        target = sorted(subscribers[member_id].target)
        kept[member_id] = [one for one in target if one in free]
        for one in kept[member_id]:
            del free[one]
    least, odd = divmod(len(free) + sum(map(len, kept.values())), max(1, len(kept)))
    # The odd partitions go to the members that have the most already.
    order = sorted(kept, key=lambda member_id: -len(kept[member_id]))
    shares = {member_id: least + (number < odd) for number, member_id in enumerate(order)}
    for member_id, partitions in kept.items():
        free.update(dict.fromkeys(partitions[shares[member_id] :]))
        del partitions[shares[member_id] :]
    rest = iter(free)
    for member_id, partitions in kept.items():
        missing = shares[member_id] - len(partitions)
        partitions += [next(rest) for _ in range(missing)]
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


class _Balance(Generic[Topic]):
    """For different subscriptions: assigns to the least loaded members, then evens out."""

    def __init__(
        self, subscribers: Mapping[str, Subscriber[Topic]], counts: Mapping[Topic, int]
    ) -> None:
        self._subscribers: Mapping[str, Subscriber[Topic]] = subscribers
        self._readers: dict[Topic, list[str]] = {}
        for member_id in sorted(subscribers):
            for topic in subscribers[member_id].topics:
                self._readers.setdefault(topic, []).append(member_id)
        self._partitions: list[tuple[Topic, int]] = sorted(
            _all_partitions(self._readers, counts),
            key=lambda one: self._order(one, counts[one[0]]),
        )
        self._owners: dict[tuple[Topic, int], str] = {}
        self._loads = dict.fromkeys(sorted(subscribers), 0)

    def _order(self, partition: tuple[Topic, int], count: int) -> tuple[float, int, int, Topic]:
        """Topics with many partitions per reader come first, because they are hardest to place."""
        readers = len(self._readers[partition[0]])
        return (-count / readers, readers, partition[1], partition[0])

    def _give(self, partition: tuple[Topic, int], member_id: str) -> None:
        owner = self._owners.get(partition)
        if owner is not None:
            self._loads[owner] -= 1
        self._owners[partition] = member_id
        self._loads[member_id] += 1

    def _least_loaded(self, topic: Topic) -> str:
        return min(self._readers[topic], key=lambda one: (self._loads[one], one))

    def keep(self) -> None:
        """Members keep the assigned partitions of topics that they still read."""
        known = frozenset(self._partitions)
        for member_id in self._loads:
            subscriber = self._subscribers[member_id]
            for one in sorted(subscriber.target & known):
                if one[0] in subscriber.topics and one not in self._owners:
                    self._give(one, member_id)

    def fill(self) -> None:
        """Assigns free partitions to the members with the fewest."""
        for one in self._partitions:
            if one not in self._owners:
                self._give(one, self._least_loaded(one[0]))

    def even_out(self) -> None:
        """Moves partitions to members that have at least two fewer, until none can be moved.

        Terminates because every move reduces the sum of the squared loads.
        """
        has_moved = True
        while has_moved:
            has_moved = False
            for one in self._partitions:
                least = self._least_loaded(one[0])
                if self._loads[self._owners[one]] > self._loads[least] + 1:
                    self._give(one, least)
                    has_moved = True

    def assignment(self) -> Assignment[Topic]:
        found: dict[str, set[tuple[Topic, int]]] = {member_id: set() for member_id in self._loads}
        for one, owner in self._owners.items():
            found[owner].add(one)
        return {member_id: frozenset(partitions) for member_id, partitions in found.items()}


ASSIGNORS: Final[dict[str, Assignor]] = {"range": assign_range, "uniform": assign_uniform}
