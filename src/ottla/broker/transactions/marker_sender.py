"""Sends the markers of transactions to the brokers that lead the partitions: a machine.

A marker is sent to the leader of its partition, including this broker, and repeated, after a pause,
until all in-sync replicas of the partition have it. One request per broker is pending at a time;
later markers are sent with the next one. Kafka's counterparts: `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from itertools import count
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.values import dataclass
from ottla.broker.marker_requests import Marker, MarkerRequest, SentMarker

RETRY_MS: Final = 100.0
"""When a marker that a broker did not accept is sent again, as in Kafka."""

NO_LEADER: Final = -1

DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""The partition has the marker, no longer exists, or an administrator has ended its transaction
under a later epoch.
"""

FENCED: Final = ErrorCode.TRANSACTION_COORDINATOR_FENCED
"""A later coordinator of the transaction has sent its own marker."""

LeaderOf = Callable[[TopicPartition], int | None]
"""Returns the leader of a partition; -1 without one, `None` for an unknown partition."""


@dataclass(slots=True)
class _Ending:
    """A transaction whose markers are not all written; `left` are the partitions without one."""

    shard: int
    marker: Marker
    left: set[TopicPartition] = field(default_factory=set)


class MarkerSender:
    def __init__(self, leader_of: LeaderOf, timers: AllTimers) -> None:
        self._leader_of = leader_of
        self._endings: dict[str, _Ending] = {}
        self._unsent: dict[tuple[str, TopicPartition], None] = {}
        self._on_way: dict[int, MarkerRequest] = {}
        self._paused: Timers[int] = timers.new_room()
        """Brokers that get no requests before the deadline."""
        self._news: Timers[str] = timers.new_room()
        self._numbers = count()
        self._complete: list[str] = []

    def add(
        self,
        shard: int,
        transactional_id: str,
        marker: Marker,
        partitions: Iterable[TopicPartition],
    ) -> None:
        """Replaces what was to be sent for the transaction."""
        self.drop(transactional_id)
        ending = _Ending(shard=shard, marker=marker, left=set(partitions))
        self._endings[transactional_id] = ending
        self._unsent.update(((transactional_id, one), None) for one in sorted(ending.left))
        self._news.set(NEXT, 0.0)
        self._check_complete(transactional_id, ending)

    def drop(self, transactional_id: str) -> None:
        ending = self._endings.pop(transactional_id, None)
        if ending is not None:
            for partition in ending.left:
                self._unsent.pop((transactional_id, partition), None)

    def drop_shard(self, shard: int) -> None:
        """Drops the transactions of a shard that another coordinator now has: it sends their
        markers.
        """
        for key in [key for key, one in self._endings.items() if one.shard == shard]:
            self.drop(key)

    def take_complete(self) -> list[str]:
        """Returns the transactions whose markers have been completed since the last call."""
        complete, self._complete = self._complete, []
        return complete

    # Requests

    def take_requests(self, monotonic_ms: float) -> list[MarkerRequest]:
        """Returns the requests to send now, one for each broker."""
        self._news.cancel(NEXT)
        self._paused.take_all_due(monotonic_ms)
        busy = {one.broker for one in self._on_way.values()}
        by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
        for key, partition in list(self._unsent):
            leader = self._leader_of(partition)
            if leader is None:
                # The partition was deleted, and its transaction with it.
                del self._unsent[key, partition]
                self._done(key, partition)
            elif leader == NO_LEADER:
                if NO_LEADER not in self._paused:
                    self._paused.set(NO_LEADER, monotonic_ms + RETRY_MS)
            elif leader not in busy and leader not in self._paused:
                del self._unsent[key, partition]
                by_broker.setdefault(leader, {}).setdefault(key, []).append(partition)
        return [self._request(broker, markers) for broker, markers in by_broker.items()]

    def _request(self, broker: int, markers: Mapping[str, list[TopicPartition]]) -> MarkerRequest:
        number = next(self._numbers)
        request = self._on_way[number] = MarkerRequest(
            number,
            broker,
            tuple(
                SentMarker(key, self._endings[key].marker, tuple(partitions))
                for key, partitions in markers.items()
            ),
        )
        return request

    def answered(
        self,
        number: int,
        errors: Mapping[tuple[int, TopicPartition], ErrorCode],
        monotonic_ms: float,
    ) -> None:
        """Takes a broker's response by producer id and partition; markers without a result are sent
        again.
        """
        request = self._on_way.pop(number)
        self._news.set(NEXT, 0.0)
        for sent in request.markers:
            key, ending = sent.transactional_id, self._endings.get(sent.transactional_id)
            if ending is None or ending.marker != sent.marker:
                continue
            for partition in sent.partitions:
                error = errors.get(
                    (sent.marker.producer_id, partition), ErrorCode.UNKNOWN_SERVER_ERROR
                )
                if error in DONE:
                    self._done(key, partition)
                elif error is FENCED:
                    self.drop(key)
                    break
                else:
                    self._unsent[key, partition] = None
                    self._paused.set(request.broker, monotonic_ms + RETRY_MS)

    def failed(self, number: int, monotonic_ms: float) -> None:
        """Sends a request's markers again, since it failed or its effect is unknown."""
        self.answered(number, {}, monotonic_ms)

    def _done(self, key: str, partition: TopicPartition) -> None:
        ending = self._endings[key]
        ending.left.discard(partition)
        self._check_complete(key, ending)

    def _check_complete(self, key: str, ending: _Ending) -> None:
        if not ending.left:
            del self._endings[key]
            self._complete.append(key)
            self._news.set(NEXT, 0.0)
