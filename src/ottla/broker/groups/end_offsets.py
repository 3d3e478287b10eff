"""The ends of partitions, of which other brokers lead some: the lag of a share group is counted
from them. Kafka's counterpart: `PartitionMetadataClient`.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Protocol

from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.broker.topics.topics import Topics
from ottla.broker.waiting.rooms import Waiting
from ottla.storage.log.offsets import LATEST_TIMESTAMP

Ends = Mapping[TopicPartition, int]


class Leaders(Protocol):
    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Returns the leader and its epoch; -1 for none."""


class EndsMembership(Protocol):
    def ask_for_ends(self, request: EndOffsetsRequest) -> None:
        """Sends a request to another broker; `EndOffsets.answered` gets the answer."""


class EndsBroker(Protocol):
    """The parts of the broker that are needed."""

    node_id: int
    topics: Topics

    @property
    def replicas(self) -> Leaders: ...

    @property
    def membership(self) -> EndsMembership: ...


class _Asked:
    """One question until all leaders have answered."""

    __slots__ = ("awaited", "ends", "waiting")

    def __init__(self) -> None:
        self.waiting: Waiting[Ends] = Waiting()
        self.ends: dict[TopicPartition, int] = {}
        self.awaited: set[int] = set()


class EndOffsets:
    """`queue_answer` queues responses of handlers."""

    def __init__(self, broker: EndsBroker, queue_answer: Callable[[Waiting[Any]], None]) -> None:
        self._broker = broker
        self._queue_answer = queue_answer
        self._numbers = count()
        self._on_way: dict[int, _Asked] = {}

    def wait(self, partitions: Iterable[TopicPartition]) -> Waiting[Ends]:
        """The high watermarks, as far as their leaders can be reached."""
        asked = _Asked()
        elsewhere: dict[int, list[TopicPartition]] = {}
        for one in in_turns(partitions):
            leader, _ = self._broker.replicas.leader_of(one)
            if leader == self._broker.node_id:
                self._take_own(one, asked)
            elif leader >= 0:
                elsewhere.setdefault(leader, []).append(one)
        for leader, its in elsewhere.items():
            request = EndOffsetsRequest(next(self._numbers), leader, tuple(its))
            asked.awaited.add(request.number)
            self._on_way[request.number] = asked
            self._broker.membership.ask_for_ends(request)
        self._end(asked)
        return asked.waiting

    def _take_own(self, place: TopicPartition, asked: _Asked) -> None:
        try:
            partition = self._broker.topics.online_partition(place.topic, place.partition)
            found = partition.find_offset(LATEST_TIMESTAMP)
        except ApiError:
            return  # as one whose leader cannot be reached
        if found is not None:
            asked.ends[place] = found.offset

    def answered(self, number: int, ends: Ends | None, at: Timestamps) -> None:
        """Takes the answer of another broker, or `None` if there is none."""
        asked = self._on_way.pop(number)
        asked.awaited.discard(number)
        asked.ends.update(ends or {})
        self._end(asked)

    def _end(self, asked: _Asked) -> None:
        if not asked.awaited:
            asked.waiting.result = asked.ends
            self._queue_answer(asked.waiting)
