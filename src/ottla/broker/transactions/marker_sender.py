"""Sends the markers of transactions to the brokers that lead the partitions: a machine.

A marker is sent to the leader of its partition, and repeated, after a pause, until all in-sync
replicas of the partition have it. One request per broker is pending at a time; later markers are
sent with the next one. A broker alone leads all partitions, and answers its own requests at once.
Kafka's counterparts: `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import count, islice
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.values import dataclass
from ottla.broker.membership.marker_requests import (
    NO_LEADER,
    Marker,
    MarkerErrors,
    MarkerRequest,
    SentMarker,
)

RETRY_MS: Final = 100.0
"""When a marker that a broker did not accept is sent again, as in Kafka."""

AT_A_TIME: Final = 64
"""The markers whose partitions are looked at again in one round."""

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

LeaderOf = Callable[[str, TopicPartition], int | None]
"""Returns the leader of a partition to which a transaction's marker is to be sent now; `NO_LEADER`
without one, `None` for an unknown partition.
"""


@dataclass(slots=True)
class _Ending:
    """A transaction whose markers are not all written; `left` are the partitions without one."""

    shard: int
    marker: Marker
    is_repeated: bool
    left: set[TopicPartition] = field(default_factory=set)


class MarkerSender:
    def __init__(self, leader_of: LeaderOf, timers: AllTimers) -> None:
        self._leader_of = leader_of
        self._endings: dict[str, _Ending] = {}
        self.has_news = False
        """Whether `take_requests` or `take_complete` may return something."""
        self._unsent: dict[tuple[str, TopicPartition], None] = {}
        self._leaderless: dict[tuple[str, TopicPartition], None] = {}
        """Markers that cannot be sent now, in the order in which they are looked at again."""
        self._on_way: dict[int, MarkerRequest] = {}
        self._paused: Timers[int] = timers.new_room()
        """Brokers that get no requests before the deadline."""
        self._looks: Timers[str] = timers.new_room()
        self._left_to_look_at = 0
        self._numbers = count()
        self._complete: list[str] = []

    def add(
        self,
        shard: int,
        transactional_id: str,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        *,
        is_repeated: bool = False,
    ) -> None:
        """Replaces what was to be sent for the transaction. `is_repeated`: some partitions may have
        the marker.
        """
        self.drop(transactional_id)
        ending = _Ending(shard=shard, marker=marker, is_repeated=is_repeated, left=set(partitions))
        self._endings[transactional_id] = ending
        self._unsent.update(((transactional_id, one), None) for one in sorted(ending.left))
        self.has_news = True
        self._check_complete(transactional_id, ending)

    def drop(self, transactional_id: str) -> None:
        ending = self._endings.pop(transactional_id, None)
        if ending is not None:
            for partition in ending.left:
                self._unsent.pop((transactional_id, partition), None)
                self._leaderless.pop((transactional_id, partition), None)

    def drop_shard(self, shard: int) -> None:
        """Drops the transactions of a shard that another coordinator now has: it sends their
        markers.
        """
        for key in [key for key, one in self._endings.items() if one.shard == shard]:
            self.drop(key)

    def take_complete(self) -> list[str]:
        """Returns the transactions whose markers have been completed since the last call."""
        complete, self._complete = self._complete, []
        if complete and not self._unsent:
            self.has_news = False
        return complete

    # Requests

    def advance(self, monotonic_ms: float) -> None:
        """Ends pauses, and looks for leaders of a few partitions again."""
        if self._paused.take_all_due(monotonic_ms):
            self.has_news = True
        if self._looks.take_due(monotonic_ms) is None:
            return
        self._left_to_look_at = self._left_to_look_at or len(self._leaderless)
        for one in list(islice(self._leaderless, min(AT_A_TIME, self._left_to_look_at))):
            del self._leaderless[one]
            self._unsent[one] = None
        self._left_to_look_at = max(0, self._left_to_look_at - AT_A_TIME)
        if self._left_to_look_at:
            self._looks.set(NEXT, monotonic_ms)
        self.has_news = True

    def _look_later(self, one: tuple[str, TopicPartition], monotonic_ms: float) -> None:
        self._leaderless[one] = None
        if NEXT not in self._looks:
            self._looks.set(NEXT, monotonic_ms + RETRY_MS)

    def take_requests(self, monotonic_ms: float) -> list[MarkerRequest]:
        """Returns the requests to send now, one for each broker."""
        self.has_news = False
        busy = {one.broker for one in self._on_way.values()}
        by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
        for key, partition in list(self._unsent):
            leader = self._leader_of(key, partition)
            if leader is None:
                # The partition was deleted, and its transaction with it.
                del self._unsent[key, partition]
                self._done(key, partition)
            elif leader == NO_LEADER:
                del self._unsent[key, partition]
                self._look_later((key, partition), monotonic_ms)
            elif leader not in busy and leader not in self._paused:
                del self._unsent[key, partition]
                by_broker.setdefault(leader, {}).setdefault(key, []).append(partition)
        return [self._request(broker, markers) for broker, markers in by_broker.items()]

    def _request(self, broker: int, markers: Mapping[str, list[TopicPartition]]) -> MarkerRequest:
        number = next(self._numbers)
        sent = [self._sent(key, partitions) for key, partitions in markers.items()]
        request = self._on_way[number] = MarkerRequest(number, broker, tuple(sent))
        return request

    def _sent(self, key: str, partitions: Sequence[TopicPartition]) -> SentMarker:
        ending = self._endings[key]
        return SentMarker(key, ending.marker, tuple(partitions), ending.is_repeated)

    def answered(self, number: int, errors: MarkerErrors, monotonic_ms: float) -> None:
        """Takes a broker's response by producer id and partition; markers without a result are sent
        again.
        """
        request = self._on_way.pop(number)
        if self._unsent:
            self.has_news = True
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
                elif errors:
                    ending.is_repeated = True
                    self._look_later((key, partition), monotonic_ms)
                else:
                    ending.is_repeated = True
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
            self.has_news = True
