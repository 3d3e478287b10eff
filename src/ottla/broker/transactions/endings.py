"""How a decided transaction ends: its markers are written, then the record that all of them are.

A broker that leads every partition writes the markers itself (`OwnEndings`), in
`Appends.write_out`: the decision, the markers and the completion are each written before the next.
A member of a cluster sends them to the brokers that lead the partitions (`SentEndings`), once the
decision is committed.
Kafka's counterpart: `TransactionMarkerChannelManager`.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.coordinator_shards import Shard, Shards
from ottla.broker.internal_topic import InternalTopic
from ottla.broker.marker_requests import Marker, MarkerRequest
from ottla.broker.transactions.marker_sender import LeaderOf, MarkerSender
from ottla.broker.transactions.markers import Markers
from ottla.coordinator.decision import Decision
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.requests import MarkersToWrite, Outcome

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1000
"""When markers that a partition did not accept are tried again."""

RETRIES_PER_ROUND: Final = 64

NOTHING_TO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)
"""The partition was deleted with its transactions, or an administrator has ended this transaction
under a later epoch.
"""

TransactionShard = Shard[TransactionMachine]

Complete = Callable[[Decision[Outcome], Timestamps], Outcome]
"""Carries out the decision that all markers of a transaction are written."""


class Endings(Protocol):
    decided: dict[str, None]
    """The transactions whose markers `write` is to write."""

    @property
    def is_immediate(self) -> bool:
        """Whether a transaction has ended when its decision is written out."""

    def end(self, transactional_id: str, shard: TransactionShard) -> None:
        """Ends a transaction that was decided by the last records of a shard."""

    def resume(self, shard: TransactionShard, at: Timestamps) -> None:
        """Ends what a crash, or another coordinator, left prepared."""

    def drop(self, shard: TransactionShard) -> None:
        """Leaves a shard's transactions to another coordinator."""

    def write(self, at: Timestamps, write_out: Callable[[], None]) -> None:
        """Ends the `decided` transactions, whose decisions are written; raises `StorageError`."""

    def advance(self, at: Timestamps) -> None: ...

    def take_requests(self, at: Timestamps) -> list[MarkerRequest]:
        """Returns the requests to send to other brokers now."""

    def answered(
        self, number: int, errors: Mapping[tuple[int, TopicPartition], ErrorCode], at: Timestamps
    ) -> None:
        """Takes a broker's response to a request."""


class OwnEndings:
    """Writes the markers into this broker's logs. `run` carries out a decision.

    After a crash between the three steps the transaction is prepared, and is ended after the load.
    So no partition gets the marker of a decision that a restart would not know, and no partition
    remains without a marker.
    """

    is_immediate: Final = True

    def __init__(
        self,
        machine: TransactionMachine,
        topic: InternalTopic,
        markers: Markers,
        timers: AllTimers,
        run: Complete,
    ) -> None:
        self.decided: dict[str, None] = {}
        self._machine = machine
        self._topic = topic
        self._markers = markers
        self._run = run
        self._marked: list[str] = []
        self._late: dict[str, None] = {}
        self._to_try_again: deque[str] = deque()
        self._retry: Timers[str] = timers.new_room()

    def end(self, transactional_id: str, shard: TransactionShard) -> None:
        self.decided[transactional_id] = None

    def resume(self, shard: TransactionShard, at: Timestamps) -> None:
        """Those in `_late` stay there until complete, so that existing markers are not repeated."""
        self._late.update((one.transactional_id, None) for one in shard.machine.prepared)
        if self._late:
            self.decided.update(self._late)
            self._retry.set(NEXT, at.monotonic_ms + RETRY_MS)

    def drop(self, shard: TransactionShard) -> None:
        """Does nothing: no other coordinator takes over."""

    def write(self, at: Timestamps, write_out: Callable[[], None]) -> None:
        try:
            self._append_markers(at)
            write_out()
            self._append_completions(at)
            write_out()
        except StorageError:
            for key in (*self.decided, *self._marked):
                self._postpone(key, at)
            self.decided.clear()
            self._marked.clear()
            raise

    def _append_markers(self, at: Timestamps) -> None:
        decided = list(self.decided)
        self.decided.clear()
        for prepared in self._machine.prepared_among(decided):
            key = prepared.transactional_id
            if self._topic.is_online(key) and self._mark(prepared, at):
                self._marked.append(key)
            else:
                self._postpone(key, at)

    def _mark(self, prepared: MarkersToWrite, at: Timestamps) -> bool:
        """Appends the missing markers; returns whether all are there."""
        key = prepared.transactional_id
        marker = _marker(prepared, self._topic.leader_epoch_of(key))
        is_complete = True
        for topic, index in sorted(prepared.partitions):
            try:
                if key not in self._late or self._markers.is_missing(marker, topic, index):
                    self._markers.write(marker, topic, index, now_ms=at.now_ms)
            except ApiError as error:
                if error.code in NOTHING_TO_END:
                    continue
                logger.error("%s: no marker in %s-%d yet: %s", key, topic, index, error)
                is_complete = False
        return is_complete

    def _append_completions(self, at: Timestamps) -> None:
        marked, self._marked = self._marked, []
        for key in marked:
            self._late.pop(key, None)
            outcome = self._run(self._machine.complete(key, at), at)
            if outcome.error:
                self._postpone(key, at)
        if not self._late:
            self._retry.cancel(NEXT)

    def _postpone(self, key: str, at: Timestamps) -> None:
        self._late[key] = None
        if NEXT not in self._retry:
            self._retry.set(NEXT, at.monotonic_ms + RETRY_MS)

    def advance(self, at: Timestamps) -> None:
        """Tries a few of those in `_late` again in each round."""
        if self._retry.take_due(at.monotonic_ms) is None:
            return
        if not self._to_try_again:
            self._to_try_again.extend(self._late)
        for _ in range(min(RETRIES_PER_ROUND, len(self._to_try_again))):
            key = self._to_try_again.popleft()
            if key in self._late:
                self.decided[key] = None
        if self._late:
            delay_ms = 0 if self._to_try_again else RETRY_MS
            self._retry.set(NEXT, at.monotonic_ms + delay_ms)

    def take_requests(self, at: Timestamps) -> list[MarkerRequest]:
        """No other broker leads a partition."""
        return []

    def answered(
        self, number: int, errors: Mapping[tuple[int, TopicPartition], ErrorCode], at: Timestamps
    ) -> None:
        """No broker is asked, and none answers."""


class SentEndings:
    """Sends the markers as a `MarkerSender` decides. `run` carries out a decision."""

    is_immediate: Final = False

    def __init__(
        self,
        shards: Shards[TransactionMachine],
        leader_of: LeaderOf,
        timers: AllTimers,
        run: Complete,
    ) -> None:
        self.decided: dict[str, None] = {}
        self._shards = shards
        self._sender = MarkerSender(leader_of, timers)
        self._run = run

    def end(self, transactional_id: str, shard: TransactionShard) -> None:
        """Sends markers once the decision is committed: a later coordinator must find it."""

        def deliver(error: ErrorCode) -> None:
            known = shard.machine.transactions.get(transactional_id)
            if error or known is None or not known.is_prepared:
                return
            prepared = shard.machine.markers_of(known)
            marker = _marker(prepared, shard.leader_epoch)
            self._sender.add(shard.index, transactional_id, marker, prepared.partitions)

        shard.defer(deliver, math.inf)

    def resume(self, shard: TransactionShard, at: Timestamps) -> None:
        for prepared in shard.machine.prepared:
            self.end(prepared.transactional_id, shard)

    def drop(self, shard: TransactionShard) -> None:
        self._sender.drop_shard(shard.index)

    def write(self, at: Timestamps, write_out: Callable[[], None]) -> None:
        """Nothing is ever `decided`: markers wait for the commit of the decision."""

    def advance(self, at: Timestamps) -> None:
        """Completes the transactions whose markers are all written."""
        for key in self._sender.take_complete():
            shard = self._shards.serving(key)
            known = None if shard is None else shard.machine.transactions.get(key)
            if shard is None or known is None or not known.is_prepared:
                continue
            if self._run(shard.machine.complete(key, at), at).error:
                # The markers are sent again; partitions that have them accept that.
                self.end(key, shard)

    def take_requests(self, at: Timestamps) -> list[MarkerRequest]:
        return self._sender.take_requests(at.monotonic_ms)

    def answered(
        self, number: int, errors: Mapping[tuple[int, TopicPartition], ErrorCode], at: Timestamps
    ) -> None:
        self._sender.answered(number, errors, at.monotonic_ms)


def _marker(prepared: MarkersToWrite, coordinator_epoch: int) -> Marker:
    return Marker(
        producer_id=prepared.producer_id,
        epoch=prepared.epoch,
        is_commit=prepared.is_commit,
        coordinator_epoch=coordinator_epoch,
    )
