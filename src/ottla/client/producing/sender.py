"""The thread that sends a producer's batches to the partitions' leaders.

Several rounds of batches can be pending at once, with at most one batch per partition in each. A
batch with a temporary error is retried with the same bytes, in its order. Kafka's counterpart:
`Sender`.
"""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, OttlaError, UnreachableError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.bulk.producer_identity import ProducerIdentity, init_producer
from ottla.client.connecting.cluster import PASSING, Cluster
from ottla.client.connecting.connection import Connection
from ottla.client.producing.accumulator import MILLISECONDS, Accumulator
from ottla.client.producing.batches import RecordBatchInMaking, Stamp
from ottla.client.producing.sending import call_back
from ottla.client.producing.unclosed import UNCLOSED, send_before_log_closes
from ottla.client.refusals import RefusedError
from ottla.codec.compression import CODECS
from ottla.config.producer import ProducerConfig, acks_of
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import MAX_SEQUENCE

LAST_VERSION = 11
"""Version of Produce; from 12 on the broker adds partitions to a transaction implicitly (version
2).
"""

MAX_ROUNDS = 5
"""Pending requests per leader: as many batches of a producer as a broker remembers."""

GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
"""The topic existed when it was looked up: the leader may not know it yet."""


class DeliveryTimeoutError(UserError):
    """delivery.timeout.ms have passed without an acknowledgement; it may still be in the log."""


class Sender:
    """`cluster_lock` is held while brokers are asked."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, accumulator: Accumulator) -> None:
        self.cluster_lock = threading.RLock()
        self.cluster = cluster
        self.config = config
        self.accumulator = accumulator
        self._lock = accumulator.lock
        self.identity: ProducerIdentity | None = None
        self.added: set[TopicPartition] = set()
        self.failure: OttlaError | None = None
        """Why the open transaction cannot be committed."""
        self.reporting: frozenset[RecordBatchInMaking] = frozenset()
        """The batch whose callbacks this thread is calling."""
        self.is_in_transaction = False
        self.is_closing = False
        self._is_let_go = False
        """Whether nobody has the producer any more."""
        self._flush_count = 0
        self.counts = dict.fromkeys(
            ("records_sent", "records_failed", "batches_sent", "bytes_sent", "retries"), 0
        )
        self._sequences: dict[TopicPartition, int] = {}
        self._acks = acks_of(config.acks)
        self._compression = CODECS[config.compression_type]
        self._thread = threading.Thread(target=self._run, name="ottla-producer", daemon=True)

    def start(self) -> None:
        self._lock.sending_thread = self._thread
        UNCLOSED.add(self)
        self.cluster.before_close(partial(send_before_log_closes, self))
        self._thread.start()

    @property
    def is_own_thread(self) -> bool:
        """Whether the call is from a callback, which would wait for itself."""
        return threading.current_thread() is self._thread

    def join(self, timeout_s: float | None) -> None:
        """Waits for the thread, which ends after `is_closing` when nothing is left."""
        self._thread.join(timeout_s)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def release(self) -> None:
        """Closes the connections, after the last record."""
        with self.cluster_lock:
            self.cluster.close()
        UNCLOSED.discard(self)

    def let_go(self) -> None:
        """Sends what is left, and then closes; does not wait for it."""
        with self._lock:
            self._is_let_go = self.is_closing = True
            self._lock.notify_all()

    @property
    def failed_count(self) -> int:
        return self.counts["records_failed"]

    @property
    def waiting_count(self) -> int:
        return self.accumulator.record_count

    def flush(self, timeout_s: float | None) -> int:
        """Waits until earlier records have their outcome, and callbacks have been called.

        Returns how many records do not. Raises `BlockingCallError` in a callback.
        """
        with self._lock:
            wanted = [] if self.is_own_thread else list(self.reporting)
            wanted += self.accumulator.unfinished
            self._flush_count += 1
            self._lock.notify_all()
            left = iter(wanted)  # Each batch is looked at once.
            one = next(left, None)

            def are_done() -> bool:
                nonlocal one
                while one is not None and one.is_done and one not in self.reporting:
                    one = next(left, None)
                return one is None

            try:
                self._lock.wait_for(are_done, timeout_s)
            finally:
                self._flush_count -= 1
            return sum(one.count for one in wanted if not one.is_done or one in self.reporting)

    def initialize(self) -> None:
        """Gets a new epoch, under `cluster_lock`: sequences restart. Raises `RefusedError`."""
        self.identity = init_producer(
            self.cluster, self.config.transactional_id, self.config.transaction_timeout_ms
        )
        self._sequences.clear()
        self.added.clear()
        self.failure = None

    def _run(self) -> None:
        while (rounds := self._next_rounds()) is not None:
            left = [[one for one in several if not self._is_late(one)] for several in rounds]
            while any(left):
                left = self._attempt(left)
        if self._is_let_go:
            self.release()

    def _next_rounds(self) -> list[list[RecordBatchInMaking]] | None:
        with self._lock:
            while True:
                now_s = time.monotonic()
                rounds = self.accumulator.take_ready(
                    now_s, MAX_ROUNDS, all_of_it=bool(self._flush_count or self.is_closing)
                )
                if rounds or self.is_closing:
                    return rounds or None
                ready_s = self.accumulator.next_ready_s()
                self._lock.wait(None if ready_s is None else max(0.0, ready_s - now_s))

    def _is_late(self, batch: RecordBatchInMaking) -> bool:
        if time.monotonic() - batch.begun_s < self.config.delivery_timeout_ms / MILLISECONDS:
            return False
        reason = f"not delivered within delivery.timeout.ms={self.config.delivery_timeout_ms}"
        self._finish([batch], DeliveryTimeoutError(f"{batch.place}: {reason}"))
        self._forget_identity()
        return True

    def _attempt(self, rounds: list[list[RecordBatchInMaking]]) -> list[list[RecordBatchInMaking]]:
        """Sends all batches once; returns those to retry."""
        refused: dict[RecordBatchInMaking, OttlaError] = {}
        for_all: OttlaError | None = None
        try:
            with self.cluster_lock:
                refused = self._exchange(rounds)
        except UnreachableError:
            pass  # They are retried until their time is over.
        except ApiError as error:
            for_all = None if error.code in PASSING or error.code in GONE else error
        except OttlaError as error:
            for_all = error
        # An error of our own, or out of memory: the callers must learn of it.
        except Exception as error:
            for_all = UserError(f"the batch could not be sent: {error!r}")
        if for_all is not None:
            left_over = (one for several in rounds for one in several if not one.is_done)
            refused = dict.fromkeys(left_over, for_all)
        for batch, refusal in refused.items():
            self._finish([batch], refusal)
        left = [
            [one for one in several if not one.is_done and not self._is_late(one)]
            for several in rounds
        ]
        if any(left):
            self.counts["retries"] += 1
            time.sleep(self.config.retry_backoff_ms / MILLISECONDS)
            self._look_again()
        return left

    def _look_again(self) -> None:
        try:
            with self.cluster_lock:
                self.cluster.refresh()
        except (ApiError, UserError):
            return  # The next attempt reports why.

    def _exchange(
        self, rounds: list[list[RecordBatchInMaking]]
    ) -> dict[RecordBatchInMaking, OttlaError]:
        """Raises errors that concern all batches; returns the batches that failed permanently."""
        self._stamp([one for several in rounds for one in several])
        by_leader: dict[Connection, list[dict[TopicPartition, RecordBatchInMaking]]] = {}
        for several in rounds:
            requests: dict[Connection, dict[TopicPartition, RecordBatchInMaking]] = {}
            for one in several:
                requests.setdefault(self.cluster.leader(*one.place), {})[one.place] = one
            for leader, batches in requests.items():
                by_leader.setdefault(leader, []).append(batches)
        asked: list[tuple[Callable[[], Any], dict[TopicPartition, RecordBatchInMaking]]] = []
        for leader, each in by_leader.items():
            answers = leader.send_all(
                [self._request(batches.values()) for batches in each], newest=LAST_VERSION
            )
            asked += zip(answers, each, strict=True)
        refused: dict[RecordBatchInMaking, OttlaError] = {}
        sent: list[RecordBatchInMaking] = []
        failure: UnreachableError | None = None
        try:
            for answer, batches in asked:
                try:
                    self._take(answer(), batches, sent, refused)
                except UnreachableError as error:
                    failure = error
        finally:
            self._finish(sent, None)
        if failure is not None:
            self.cluster.disconnect()
        return refused if self.config.transactional_id else self._without_followers(refused)

    def _without_followers(
        self, refused: dict[RecordBatchInMaking, OttlaError]
    ) -> dict[RecordBatchInMaking, OttlaError]:
        """Batches that are out of sequence only because an earlier one was refused are retried."""
        gaps: set[TopicPartition] = set()
        for_good: dict[RecordBatchInMaking, OttlaError] = {}
        for batch, error in refused.items():
            is_gap = getattr(error, "code", None) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if is_gap and batch.place in gaps:
                batch.data = None
            else:
                gaps.add(batch.place)
                for_good[batch] = error
        return for_good

    def _take(
        self,
        response: Any,
        batches: dict[TopicPartition, RecordBatchInMaking],
        sent: list[RecordBatchInMaking],
        refused: dict[RecordBatchInMaking, OttlaError],
    ) -> None:
        """Processes the response for each batch."""
        if response is None:
            sent += batches.values()
            return
        for topic in response.responses:
            for one in topic.partition_responses:
                batch = batches[TopicPartition(topic.name, one.index)]
                code = ErrorCode(one.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    batch.base_offset = one.base_offset
                    sent.append(batch)
                elif code not in PASSING and code not in GONE:
                    error = RefusedError(str(batch.place), ApiError(code, one.error_message))
                    refused[batch] = error

    def _stamp(self, batches: list[RecordBatchInMaking]) -> None:
        """Assigns sequence numbers to batches that are sent for the first time."""
        if self.config.is_idempotent and self.identity is None:
            self.initialize()
        identity = self.identity
        if self.config.transactional_id:
            assert identity is not None
            new = {one.place for one in batches} - self.added
            if new:
                from ottla.client.bulk.transactions import add_partitions

                add_partitions(self.cluster, identity, new)
                self.added |= new
        for one in batches:
            if one.data is None:
                one.encode(self._next_stamp(one), self._compression)

    def _next_stamp(self, batch: RecordBatchInMaking) -> Stamp:
        if self.identity is None:
            return Stamp()
        sequence = self._sequences.get(batch.place, 0)
        self._sequences[batch.place] = (sequence + batch.count) & MAX_SEQUENCE
        return Stamp(
            producer_id=self.identity.producer_id,
            epoch=self.identity.epoch,
            sequence=sequence,
            is_transactional=bool(self.config.transactional_id),
        )

    def _request(self, batches: Iterable[RecordBatchInMaking]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for one in batches:
            data = PartitionProduceData(index=one.place.partition, records=one.data)
            topics.setdefault(one.place.topic, []).append(data)
        return ProduceRequest(
            transactional_id=self.config.transactional_id or None,
            acks=self._acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )

    def _forget_identity(self) -> None:
        """After a gap in the sequence: later batches get another producer id, or fail."""
        if self.config.transactional_id:
            return
        self.identity = None
        self._sequences.clear()

    def _finish(self, batches: list[RecordBatchInMaking], error: OttlaError | None) -> None:
        """Wakes the threads that wait for any of the batches."""
        if not batches:
            return
        counts, count = self.counts, sum(one.count for one in batches)
        if error is None:
            counts["records_sent"] += count
            counts["batches_sent"] += len(batches)
            counts["bytes_sent"] += sum(len(one.data or b"") for one in batches)
        else:
            counts["records_failed"] += count
            if self.config.transactional_id:
                self.failure = self.failure or error
            else:
                self._forget_identity()
        with self._lock:
            for batch in batches:
                batch.error = error
                batch.is_done = True
                self.accumulator.done(batch)
            heard = [one for one in batches if one.callbacks or one.waiters]
            self.reporting = frozenset(heard)
            self._lock.notify_all()
        for batch in heard:
            for index, callback in batch.callbacks:
                call_back(callback, error, None if error is not None else batch.record(index))
            for waiter in batch.waiters:
                waiter()
        if heard:
            with self._lock:
                self.reporting = frozenset()
                self._lock.notify_all()
