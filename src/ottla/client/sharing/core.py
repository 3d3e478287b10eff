"""The logic of a share consumer, for applications with threads and with an event loop.

`take` and `next_results` return immediately. `has_work` says whether there are requests to brokers
(topics, leaders), which `work` sends, and may block. Records are handed out in the order in which
they were fetched, and each until something is said of it, once.
"""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import field
from itertools import islice

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.ids import uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import Cluster
from ottla.client.consumer.errors import ClosedError
from ottla.client.consumer.group import GroupThread, Subscription
from ottla.client.consumer.membership import MemberOptions
from ottla.client.consumer.records import Decoding
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import RefusedError
from ottla.client.sharing.acknowledging import Held
from ottla.client.sharing.errors import (
    AcknowledgementResult,
    LockLostError,
    error_of,
)
from ottla.client.sharing.exchange import Chunk, Exchange, ExchangeOptions
from ottla.client.sharing.fetcher import ShareFetcher, now_ms
from ottla.client.sharing.member import ShareMember
from ottla.client.sharing.records import ShareRecord, Unreadable, decode
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.coordinator.share.records_in_flight import AcknowledgeType
from ottla.runtime.forks import bind_to_process

logger = logging.getLogger(__name__)

CLOSED = "this share consumer is closed; create another"
FORKED = "this share consumer was created before the fork; create another in the child"
MILLISECONDS = 1000
WORK_PAUSE_S = 0.1


@dataclass(slots=True)
class _Flush:
    """Awaits what was said up to now; `left` are offsets by partition."""

    left: dict[TopicPartition, set[int]]
    future: "Future[None]" = field(default_factory=Future)
    failed: list[AcknowledgementResult] = field(default_factory=list)

    def take(self, result: AcknowledgementResult) -> None:
        awaited = self.left.get(result.partition)
        if awaited is None or awaited.isdisjoint(result.offsets):
            return
        awaited.difference_update(result.offsets)
        if not awaited:
            del self.left[result.partition]
        if result.error is not ErrorCode.NONE:
            self.failed.append(result)

    def end(self) -> None:
        error = error_of(self.failed)
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class ShareConsumerCore:
    """One share consumer. What is said of records may come from any thread; reads are for one
    thread at a time.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        config: ShareConsumerConfig,
        decoding: Decoding,
        *,
        keeps_results: bool = False,
    ) -> None:
        """With `keeps_results`, `next_results` has them; otherwise failures are logged."""
        self.config = config
        self.group = group
        self.is_closed = False
        self.is_implicit = config.share_acknowledgement_mode == "implicit"
        self.attention = False
        """Whether there is something other than the next record for the application's thread."""
        self.wakers: list[Callable[[], None]] = []
        """Called with every change, for callers that cannot wait on a condition."""
        self._refusal: str | None = None
        self._decoding = decoding
        self._changed = threading.Condition()
        self._cluster = SharedCluster(cluster)
        self._member_id = uuid_text(secrets.token_bytes(16))
        self._exchange = Exchange(
            ExchangeOptions(
                group_id=group,
                member_id=self._member_id,
                max_wait_ms=config.fetch_max_wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                max_records=config.max_poll_records,
                is_strict=config.share_acquire_mode == "record_limit",
                retry_backoff_ms=config.retry_backoff_ms,
            )
        )
        self._fetcher = ShareFetcher(self._cluster, self._exchange, self._changed, self._notify)
        self._thread = self._make_group()
        self._assigned: object = None
        self._unchecked: set[str] = set()
        self._chunk: Chunk | None = None
        self._parts: deque[Iterator[ShareRecord] | Unreadable] = deque()
        """What was decoded of the chunk and not handed out."""
        self._handed: list[ShareRecord] = []
        """What the last call handed out."""
        self._handed_count = 0
        self._flushes: list[_Flush] = []
        self._results: deque[AcknowledgementResult] | None = deque() if keeps_results else None
        self._next_work_s = 0.0
        self._was_reached = False
        bind_to_process(self)

    def _make_group(self) -> GroupThread:
        config = self.config
        options = MemberOptions(
            group_id=self.group,
            rack=config.client_rack or None,
            retry_backoff_ms=config.retry_backoff_ms,
        )
        return GroupThread(
            cluster=self._cluster,
            group=self.group,
            config=config,
            member=ShareMember(options, self._member_id),
            changed=self._changed,
            on_change=self._notify,
            progress=lambda: self._handed_count,
        )

    # What is read

    def subscribe(self, topics: Iterable[str]) -> None:
        self.check_open()
        wanted = frozenset(topics)
        if not wanted:
            self.unsubscribe()
            return
        self._unchecked = set(wanted)
        with self._changed:
            self._thread.subscribe(Subscription(topics=wanted))

    def unsubscribe(self) -> None:
        """Stops reading; what was handed out stays this member's until something is said of it."""
        self.check_open()
        left = self._thread
        if left.is_started:
            self._thread = self._make_group()
            left.stop()
        with self._changed:
            self._follow_assignment()

    def subscription(self) -> frozenset[str]:
        return self._thread.subscription.topics

    def assignment(self) -> set[TopicPartition]:
        with self._changed:
            return set(self._thread.member.owned)

    def _follow_assignment(self) -> None:
        member = self._thread.member
        assert isinstance(member, ShareMember)
        if member.topic_ids is not self._assigned:
            self._assigned = member.topic_ids
            self._exchange.assign(member.topic_ids, now_ms())

    # Records

    def settle(self) -> None:
        """The application reads on: with the implicit mode it accepts what it was handed out."""
        with self._changed:
            self._thread.has_polled = True
            self._say_of_handed(AcknowledgeType.ACCEPT)

    def _say_of_handed(self, kind: AcknowledgeType) -> None:
        handed, self._handed = self._handed, []
        if not self.is_implicit:
            return
        now = now_ms()
        by_place = self._exchange.by_place
        for record in handed:
            one = by_place.get(TopicPartition(record.topic, record.partition))
            held = None if one is None else one.held.get(record.offset)
            if one is not None and held and held.delivery_count == record.delivery_count:
                self._exchange.say(one, record.offset, kind, now)
        self._changed.notify_all()

    def take(self, count: int, *, may_raise: bool = True) -> list[ShareRecord]:
        """The next records that are there. If `may_raise`, raises `UserError` for one that is not
        readable and comes first; otherwise the next call does.
        """
        found: list[ShareRecord] = []
        while len(found) < count and (self._parts or self._begin_chunk()):
            with self._changed:
                chunk = self._chunk
                assert chunk is not None
                if not chunk.is_held(now_ms()):
                    self._parts.clear()  # These records are delivered again.
                    continue
                part = self._parts[0]
                if isinstance(part, Unreadable):
                    if found or not may_raise:
                        break
                    self._parts.popleft()
                    self._say_unreadable(chunk, part)
                    raise part.error
                some = list(islice(part, count - len(found)))
                if not some:
                    self._parts.popleft()
                    continue
                found += some
        with self._changed:
            self._handed += found
            self._handed_count += len(found)
            if self._exchange.is_hungry == bool(found):
                self._exchange.is_hungry = not found
                self._changed.notify_all()
        return found

    def _begin_chunk(self) -> bool:
        with self._changed:
            chunk = self._chunk = self._exchange.next_chunk(now_ms())
        if chunk is None:
            return False
        # Deserializers are the application's, and may take long.
        parts, gaps = decode(self._decoding, chunk.partition.place, chunk.records, chunk.acquired)
        self._parts.extend(one if isinstance(one, Unreadable) else iter(one) for one in parts)
        with self._changed:
            self._exchange.say_all(chunk, gaps, AcknowledgeType.GAP, now_ms())
        return True

    def _say_unreadable(self, chunk: Chunk, part: Unreadable) -> None:
        """As in Java's client: another member may be able to read it, unless it is damaged."""
        kind = AcknowledgeType.REJECT if part.is_damaged else AcknowledgeType.RELEASE
        self._exchange.say_all(chunk, part.offsets, kind, now_ms())
        self._changed.notify_all()

    # What is said of records

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        """Raises `LockLostError` if the record is not this member's, or all is said of it."""
        self.check_open()
        with self._changed:
            now = now_ms()
            one = self._exchange.by_place.get(TopicPartition(record.topic, record.partition))
            held = None if one is None else one.held.get(record.offset)
            if one is None or not _is_same(held, record, now):
                raise LockLostError(
                    [
                        AcknowledgementResult(
                            record.topic_partition, [record.offset], ErrorCode.INVALID_RECORD_STATE
                        )
                    ]
                )
            had_waiting = one.has_waiting
            self._exchange.say(one, record.offset, kind, now)
            if not had_waiting or one.is_urgent:
                self._changed.notify_all()

    def flush(self) -> "Future[None]":
        """Sends what was said; the future raises `AcknowledgementError`, for what is not in
        effect.
        """
        self.check_open()
        with self._changed:
            self._say_of_handed(AcknowledgeType.ACCEPT)
            flush = _Flush(self._exchange.unanswered())
            if not flush.left:
                flush.end()
                return flush.future
            self._flushes.append(flush)
            self._exchange.must_flush = True
            self._changed.notify_all()
            return flush.future

    def next_results(self) -> list[AcknowledgementResult]:
        """What became of acknowledgements since the last call."""
        with self._changed:
            found = list(self._results or ())
            if self._results is not None:
                self._results.clear()
            return found

    def _take_results(self) -> None:
        exchange = self._exchange
        while exchange.results:
            result = exchange.results.popleft()
            is_awaited = False
            for flush in self._flushes:
                is_awaited |= result.partition in flush.left
                flush.take(result)
            if self._results is not None:
                self._results.append(result)
            elif result.error is not ErrorCode.NONE and not is_awaited:
                logger.warning("group %s: %s", self.group, error_of([result]))
        for flush in [one for one in self._flushes if not one.left]:
            self._flushes.remove(flush)
            flush.end()
        exchange.must_flush = bool(self._flushes)

    # Work and failures

    def check_failures(self) -> None:
        """Raises what the application must know before it gets more records."""
        with self._changed:
            thread, fetcher, refusals = self._thread, self._fetcher, self._exchange.refusals
            failure: Exception | None = None
            if thread.failure is not None:
                failure, thread.failure = thread.failure, None
            elif fetcher.failure is not None:
                failure, fetcher.failure = fetcher.failure, None
            elif refusals:
                failure = RefusedError(f"share group {self.group}", refusals.popleft())
            else:
                thread.enter_again()
            self.attention = failure is not None
        if failure is not None:
            raise failure

    def has_work(self) -> bool:
        """Whether `work` has requests to send to brokers."""
        with self._changed:
            if self._unchecked:
                return True
            is_due = time.monotonic() >= self._next_work_s
            return is_due and bool(self._exchange.without_leader())

    def work(self) -> None:
        """Finds unknown topics and leaders; may block.

        Raises `UserError` for what the application must decide. Brokers that answered before but do
        not now are waited for, as in every Kafka client.
        """
        self._next_work_s = time.monotonic() + WORK_PAUSE_S
        try:
            self._work()
        except UnreachableError:
            if not self._was_reached:
                raise
        except ApiError as error:
            raise RefusedError(f"share group {self.group}", error) from error
        else:
            self._was_reached = True

    def _work(self) -> None:
        while self._unchecked:
            topic = next(iter(self._unchecked))
            try:
                self._cluster.check_topic(topic)
            except UnreachableError:
                raise
            except UserError:
                self._unchecked.discard(topic)  # It may be created later.
                raise
            self._unchecked.discard(topic)
        with self._changed:
            wanted = self._exchange.without_leader()
        if not wanted:
            return
        found = self._cluster.leaders(wanted)
        with self._changed:
            self._exchange.lead(found)
            self._start_fetchers()
            self._changed.notify_all()

    def _start_fetchers(self) -> None:
        for leader in self._exchange.leaders():
            self._fetcher.start(leader)

    # Waiting, and the end

    def wait(self, timeout_s: float | None) -> None:
        """Waits until something may have arrived."""
        with self._changed:
            if not self._has_something():
                self._changed.wait(self.patience_s(timeout_s))

    def patience_s(self, timeout_s: float | None) -> float | None:
        """The maximum wait: failed work is retried."""
        if not self._exchange.without_leader():
            return timeout_s
        left_s = self._next_work_s - time.monotonic()
        return max(0.001, min(left_s, WORK_PAUSE_S if timeout_s is None else timeout_s))

    def has_something(self) -> bool:
        with self._changed:
            return self._has_something()

    def _has_something(self) -> bool:
        has_results = bool(self._results)
        return self.is_closed or self.attention or has_results or bool(self._exchange.chunks)

    def _notify(self) -> None:
        """Under the lock: notifies of a change."""
        self._follow_assignment()
        self._start_fetchers()
        self._take_results()
        failures = (self._thread.failure, self._fetcher.failure)
        self.attention |= any(failures) or bool(self._exchange.refusals)
        self._changed.notify_all()
        for wake in self.wakers:
            wake()

    def check_open(self) -> None:
        if self._refusal is not None:
            raise ClosedError(self._refusal)

    def check_reads(self) -> None:
        """Raises `UserError` where no record can ever come."""
        self.check_open()
        if not self._thread.is_started:
            raise UserError("this share consumer reads nothing; call subscribe([TOPIC])")

    def abandon(self) -> None:
        """In a forked child, which has none of the threads, and may have the locks of one."""
        self._changed = threading.Condition()
        self._parts.clear()
        self.is_closed = self.attention = True
        self._refusal = self._refusal or FORKED

    def check_process(self) -> None:
        """Raises `ClosedError` in a forked child, where iteration does not just end."""
        if self._refusal == FORKED:
            self.check_open()

    def close(self, *, accepts: bool = True) -> None:
        """Says what is left to say, releases all records, leaves the group, and stops the threads;
        may block.
        """
        if self.is_closed:
            return
        with self._changed:
            self._say_of_handed(AcknowledgeType.ACCEPT if accepts else AcknowledgeType.RELEASE)
            self.is_closed = True
            self._refusal = CLOSED
            self._notify()
        self._fetcher.stop()
        self._thread.stop()
        with self._changed:
            self._notify()
            for flush in self._flushes:
                flush.end()
        self._cluster.close()


def _is_same(held: Held | None, record: ShareRecord, now: float) -> bool:
    return held is not None and held.delivery_count == record.delivery_count and now < held.until_ms
