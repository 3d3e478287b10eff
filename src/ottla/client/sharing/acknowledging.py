"""What a member says of its records, until the leader of their partition has answered.

A leader takes all that one request says of a partition, or nothing. Of several records that were
refused together it is therefore asked again in halves, so that one lost lock undoes nothing else.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.base.partitions import TopicPartition
from ottla.coordinator.share.records_in_flight import AcknowledgeType, AcquiredRange

RENEW: Final = AcknowledgeType.RENEW


class Held(NamedTuple):
    """A record that is locked for this member, until the clock's time `until_ms` at the latest."""

    delivery_count: int
    until_ms: float


class Said(NamedTuple):
    """What was said of a record, and how it was held."""

    kind: int
    held: Held


Sayings = dict[int, Said]
"""By offset."""


class HeldPartition:
    """The records of one partition that are this member's, and what it has said of them."""

    __slots__ = (
        "_retries",
        "_waiting",
        "epoch",
        "held",
        "is_assigned",
        "is_urgent",
        "leader",
        "paused_until_ms",
        "place",
        "since_ms",
        "topic_id",
        "version",
    )

    def __init__(self, place: TopicPartition, topic_id: bytes) -> None:
        self.place = place
        self.topic_id = topic_id
        self.is_assigned = True
        self.leader: int | None = None
        self.epoch = -1
        """The leader's."""
        self.held: dict[int, Held] = {}
        self.since_ms = 0.0
        """When the first of what waits was said."""
        self.is_urgent = False
        """Whether a lock is to be renewed, which may be about to expire."""
        self.paused_until_ms = 0.0
        self.version = 0
        """Changes when all records are lost."""
        self._waiting: Sayings = {}
        self._retries: deque[Sayings] = deque()
        """Each is for a request of its own."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting or self._retries)

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.has_waiting

    def hold(self, acquired: Iterable[AcquiredRange], until_ms: float, now_ms: float) -> None:
        """These records are this member's from now on."""
        self.forget_expired(now_ms)
        for one in acquired:
            held = Held(one.delivery_count, until_ms)
            self.held.update(dict.fromkeys(range(one.first, one.last + 1), held))

    def forget_expired(self, now_ms: float) -> None:
        self.held = {at: one for at, one in self.held.items() if one.until_ms > now_ms}

    def waiting(self) -> list[Sayings]:
        """What was said and is not sent yet."""
        return [*self._retries, self._waiting]

    def say(self, offset: int, said: Said, now_ms: float) -> None:
        if not self._waiting:
            self.since_ms = now_ms
        self.is_urgent |= said.kind == RENEW
        self._waiting[offset] = said

    def take(self) -> Sayings:
        """What the next request says; nothing if nothing waits."""
        if self._retries:
            return self._retries.popleft()
        taken, self._waiting = self._waiting, {}
        self.is_urgent = False
        return taken

    def again(self, sayings: Sayings) -> None:
        """What was refused for the time being."""
        self._retries.appendleft(sayings)

    def halve(self, sayings: Sayings) -> None:
        """What was refused together is said in two requests."""
        items = list(sayings.items())
        middle = len(items) // 2
        self._retries.extendleft([dict(items[middle:]), dict(items[:middle])])

    def lose(self) -> Sayings:
        """Forgets all records, which are this member's no more; returns what was not sent."""
        lost = {offset: said for one in self._retries for offset, said in one.items()}
        lost |= self._waiting
        self._retries.clear()
        self._waiting = {}
        self.is_urgent = False
        self.held.clear()
        self.version += 1
        return lost


def has_renewal(sayings: Sayings) -> bool:
    return any(one.kind == RENEW for one in sayings.values())


def ranges_of(sayings: Sayings) -> Iterator[tuple[int, int, list[int]]]:
    """Ranges of neighbours of which the same was said, in order: the fields of a message's
    `AcknowledgementBatch`.
    """
    first, last, kind = -1, -2, -1
    for offset in sorted(sayings):
        said = sayings[offset].kind
        if offset != last + 1 or said != kind:
            if first >= 0:
                yield first, last, [kind]
            first, kind = offset, said
        last = offset
    if first >= 0:
        yield first, last, [kind]


def expired(sayings: Sayings, now_ms: float) -> Sayings:
    """The records whose locks have surely expired."""
    return {offset: one for offset, one in sayings.items() if one.held.until_ms <= now_ms}
