"""How a decided transaction ends: its markers are written, then the record that all of them are.

The decision, the markers and the completion are each written before the next: after a crash in
between the transaction is prepared, and is ended after the load. So no partition gets the marker of
a decision that a restart would not know, and none remains without a marker. In a cluster markers
are sent once the decision is committed, and the brokers that they were sent to answer later.
Kafka's counterpart: `TransactionMarkerChannelManager`.
"""

import math
from collections.abc import Callable
from itertools import islice

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.coordination.shards import Shard, Shards
from ottla.broker.membership.marker_requests import Marker, MarkerErrors, MarkerRequest
from ottla.broker.transactions.marker_sender import AT_A_TIME, RETRY_MS, MarkerSender
from ottla.coordinator.decision import Decision
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.requests import Outcome

TransactionShard = Shard[TransactionMachine]

Complete = Callable[[Decision[Outcome], Timestamps], Outcome]
"""Carries out the decision that all markers of a transaction are written."""

Send = Callable[[MarkerRequest, Timestamps], MarkerErrors | None]
"""Returns the errors of markers that it has appended here, or `None` if they come later."""


class Endings:
    """Sends the markers as `sender` decides. `run` carries out a decision."""

    def __init__(
        self,
        shards: Shards[TransactionMachine],
        sender: MarkerSender,
        send: Send,
        timers: AllTimers,
        run: Complete,
    ) -> None:
        self._shards = shards
        self._sender = sender
        self._send = send
        self._run = run
        self._incomplete: dict[str, None] = {}
        """The transactions with all markers whose completion could not be appended."""
        self._retry: Timers[str] = timers.new_room()

    def end(
        self, transactional_id: str, shard: TransactionShard, *, is_repeated: bool = False
    ) -> None:
        """Ends a transaction that was decided by the last records of a shard, once they are
        committed: a later coordinator must find the decision.
        """

        def deliver(error: ErrorCode) -> None:
            known = shard.machine.transactions.get(transactional_id)
            if error or known is None or not known.is_prepared:
                return
            prepared = shard.machine.markers_of(known)
            marker = Marker(
                producer_id=prepared.producer_id,
                epoch=prepared.epoch,
                is_commit=prepared.is_commit,
                coordinator_epoch=self._shards.leader_epoch_of(transactional_id),
            )
            self._sender.add(
                shard.index, transactional_id, marker, prepared.partitions, is_repeated=is_repeated
            )

        shard.defer(deliver, math.inf)

    def resume(self, shard: TransactionShard) -> None:
        """Ends what a crash, or another coordinator, left prepared."""
        for prepared in shard.machine.prepared:
            self.end(prepared.transactional_id, shard, is_repeated=True)

    def drop(self, shard: TransactionShard) -> None:
        """Leaves a shard's transactions to another coordinator."""
        self._sender.drop_shard(shard.index)

    def write(self, at: Timestamps, write_out: Callable[[], None]) -> None:
        """Carries the news of `sender` on; everything that was decided is written. Raises
        `StorageError`.
        """
        requests = self._sender.take_requests(at.monotonic_ms)
        answers = [(one.number, self._send(one, at)) for one in requests]
        here = [(number, errors) for number, errors in answers if errors is not None]
        try:
            write_out()
        except StorageError:
            for number, _ in here:
                self._sender.failed(number, at.monotonic_ms)
            raise
        for number, errors in here:
            self._sender.answered(number, errors, at.monotonic_ms)
        self._complete_all(self._sender.take_complete(), at)
        write_out()

    def advance(self, at: Timestamps) -> None:
        """Tries again what could not be done."""
        self._sender.advance(at.monotonic_ms)
        if self._retry.take_due(at.monotonic_ms) is not None:
            again = list(islice(self._incomplete, AT_A_TIME))
            for key in again:
                del self._incomplete[key]
            self._complete_all(again, at)
            if self._incomplete:
                self._retry.set(NEXT, at.monotonic_ms + RETRY_MS)

    def _complete_all(self, keys: list[str], at: Timestamps) -> None:
        for key in keys:
            shard = self._shards.serving(key)
            known = None if shard is None else shard.machine.transactions.get(key)
            if shard is None or known is None or not known.is_prepared:
                continue
            if self._run(shard.machine.complete(key, at), at).error:
                self._incomplete[key] = None
                self._retry.set(NEXT, at.monotonic_ms + RETRY_MS)
