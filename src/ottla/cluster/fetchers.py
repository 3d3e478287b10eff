"""Fetches the partitions that this broker follows, with one thread for each leader.

A thread sends the requests that `ReplicaManager` wants next, without the broker's lock, and applies
the responses under the lock, in slices between which clients are served. Kafka's counterparts:
`ReplicaFetcherManager`, `ReplicaFetcherThread`, `RemoteLeaderEndPoint`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Condition, Thread
from time import perf_counter, sleep
from typing import Any, Final, Protocol, TypeVar

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.replication.fetches import (
    NO_EPOCH,
    NO_OFFSET,
    AskEpochEnd,
    AskLocalStart,
    AskOffsets,
    EpochEnded,
    Fetch,
    Fetched,
    LeaderAnswer,
    LocalStart,
    Offsets,
)
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.cluster.fetch_session import FetchLimits, FollowerSession
from ottla.cluster.peers import Connect, Peer, PeerError
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

Ask = AskEpochEnd | AskOffsets | AskLocalStart
"""What is asked before a partition is fetched."""

SLICE_S: Final = 0.002
"""How long responses are applied before clients are served."""

PAUSE_S: Final = 0.0002
"""Lets the thread that waits for the lock acquire it."""

JOIN_S: Final = 5.0
"""How long `stop` waits for a thread that waits for a leader."""

THROTTLED_MS: Final = 500.0
"""The delay before a throttled partition is checked again."""

EARLIEST, LATEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -4, -5
FIRST_WITH_LATEST_TIERED: Final = 9
"""The first version of ListOffsets with it (KIP-1005)."""

PASSING: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    }
)
"""Errors after which the next request may follow immediately."""


class ReplicaHost(Protocol):
    """The broker's replicas; methods are called under its lock."""

    @property
    def manager(self) -> ReplicaManager: ...

    def take(self, answer: LeaderAnswer, at: Timestamps) -> bool:
        """Applies a leader's response; returns whether what came could be appended."""

    def must_wait(self, place: TopicPartition, at: Timestamps) -> bool:
        """Whether a partition is throttled now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """What all fetchers share; `version` is the cluster's at this time, and `wake` makes the server
    answer waiting clients.
    """

    broker_id: int
    replicas: ReplicaHost
    lock: AbstractContextManager[object]
    connect: Connect
    version: Callable[[], InterBrokerVersion]
    listener: str
    clock: Clock
    wake: Callable[[], None]
    limits: FetchLimits
    backoff_ms: float
    """replica.fetch.backoff.ms: the delay after an error of a partition or of a request."""


class Fetchers:
    """All fetchers. Threads start with the first partition to follow and end with `stop`."""

    def __init__(self, parts: FetcherParts) -> None:
        self._parts = parts
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._is_stopping = False

    def changed(self, partition: TopicPartition) -> None:
        """Follows a changed leader of a partition. Must be called under the broker's lock."""
        found = self._parts.replicas.manager.request_of(partition)
        leader = None if found is None else found[0]
        before = self._leaders.get(partition)
        if before is not None and before != leader:
            del self._leaders[partition]
            self._fetchers[before].look_at([partition])
        if leader is None or self._is_stopping:
            return
        self._leaders[partition] = leader
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(leader, self._parts)
            fetcher.start()
        fetcher.look_at([partition])

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which the threads may wait."""
        self._is_stopping = True
        for fetcher in list(self._fetchers.values()):
            fetcher.stop()


class Fetcher:
    """The fetcher of one leader; sleeps while this broker follows none of its partitions."""

    def __init__(self, leader: int, parts: FetcherParts) -> None:
        self._leader = leader
        self._parts = parts
        self._session = FollowerSession(parts.broker_id, self._version(ApiKey.FETCH), parts.limits)
        # Kafka's name for the first of num.replica.fetchers
        self._peer = Peer(parts.connect, f"broker-{parts.broker_id}-fetcher-0")
        self._changed = Condition()
        self._to_look_at: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, float] = {}
        self._is_stopping = False
        self._thread = Thread(target=self._run, name=f"ottla-fetcher-{leader}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look_at(self, partitions: Iterable[TopicPartition]) -> None:
        """Has the thread look up the next request of these partitions."""
        with self._changed:
            self._to_look_at.update(dict.fromkeys(partitions))
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._peer.close()
        self._thread.join(JOIN_S)

    # The thread

    def _run(self) -> None:
        while not self._is_stopping:
            asks = self._next_asks()
            if not asks and self._session.is_empty:
                self._wait()
                continue
            try:
                self._round(asks)
            except PeerError:
                self._begin_again(asks)
            except Exception:
                # If this thread ended, the partitions would fall behind forever.
                logger.exception("could not handle a response of broker %d", self._leader)
                self._begin_again(asks)
        self._peer.close()

    def _begin_again(self, asks: Sequence[Ask]) -> None:
        self._session.begin_again()
        self.look_at(one.partition for one in asks)
        self.look_at(self._session.partitions())
        self._wait(self._parts.backoff_ms)

    def _wait(self, longest_ms: float | None = None) -> None:
        """Waits until a partition must be looked up, or a delayed partition is due."""
        with self._changed:
            if self._is_stopping or (longest_ms is None and self._to_look_at):
                return
            due_ms = min(self._delayed.values(), default=None)
            if longest_ms is None and due_ms is not None:
                longest_ms = max(0.0, due_ms - self._parts.clock.monotonic_ms())
            self._changed.wait(None if longest_ms is None else longest_ms / 1000)

    def _next_asks(self) -> list[Ask]:
        """Updates the session; returns the other requests that must be sent first."""
        now_ms = self._parts.clock.monotonic_ms()
        with self._changed:
            looked_at, self._to_look_at = self._to_look_at, {}
        due = [one for one, due_ms in self._delayed.items() if due_ms <= now_ms]
        for one in (*due, *looked_at):
            self._delayed.pop(one, None)
            looked_at[one] = None
        asks: list[Ask] = []

        def look(partition: TopicPartition) -> None:
            ask = self._look(partition)
            if ask is not None:
                asks.append(ask)

        self._under_lock(looked_at, look)
        return asks

    def _look(self, partition: TopicPartition) -> Ask | None:
        """The request to send before the partition is fetched; must be called under the lock."""
        manager = self._parts.replicas.manager
        found = manager.request_of(partition)
        if found is None or found[0] != self._leader:
            self._session.remove(partition)
            return None
        request = found[1]
        if not isinstance(request, Fetch):
            self._session.remove(partition)
            return request
        if self._must_wait(partition):
            self._session.remove(partition)
            self._delayed[partition] = self._parts.clock.monotonic_ms() + THROTTLED_MS
        else:
            self._session.put(request, manager.partitions[partition].topic_id)
        return None

    def _must_wait(self, partition: TopicPartition) -> bool:
        return self._parts.replicas.must_wait(partition, read_clock(self._parts.clock))

    def _under_lock(self, items: Iterable[T], deed: Callable[[T], object]) -> None:
        """Applies `deed` to the items in slices under the lock; clients are served in between."""
        left = deque(items)
        while left and not self._is_stopping:
            with self._parts.lock:
                until_s = perf_counter() + SLICE_S
                while left:
                    deed(left.popleft())
                    if perf_counter() >= until_s:
                        break
            if left:
                sleep(PAUSE_S)

    def _round(self, asks: Sequence[Ask]) -> None:
        """Sends one kind of requests and applies the responses; raises `PeerError`."""
        answers: list[LeaderAnswer] = []
        epochs = [one for one in asks if isinstance(one, AskEpochEnd)]
        offsets = [one for one in asks if isinstance(one, AskOffsets)]
        local_starts = [one for one in asks if isinstance(one, AskLocalStart)]
        if epochs:
            answers += self._epoch_ends(epochs)
        if offsets:
            answers += self._offsets(offsets)
        if local_starts:
            answers += self._local_starts(local_starts)
        if not asks:
            answers += self._fetch()
        self._take(answers)

    def _take(self, answers: Sequence[LeaderAnswer]) -> None:
        """Applies responses and looks up the next fetches under the same lock, because acquiring
        the lock again would wait for the server's loop.
        """
        if not answers:
            return
        replicas, clock = self._parts.replicas, self._parts.clock
        again: list[TopicPartition] = []

        def take(answer: LeaderAnswer) -> None:
            is_taken = replicas.take(answer, read_clock(clock))
            partition = answer.partition
            if answer.error not in PASSING or not is_taken:
                self._session.remove(partition)
                self._delayed[partition] = clock.monotonic_ms() + self._parts.backoff_ms
            elif self._look(partition) is not None:
                again.append(partition)

        self._under_lock(answers, take)
        self._parts.wake()
        if again:
            self.look_at(again)

    def _ask(self, request: Any, newest: int) -> Any:
        manager = self._parts.replicas.manager
        endpoint = manager.metadata.endpoint(self._leader, self._parts.listener)
        return self._peer.ask(endpoint, request, newest)

    def _version(self, api_key: ApiKey) -> int:
        version = sent_version(api_key, self._parts.version())
        assert version is not None
        return version

    # Requests

    def _fetch(self) -> list[LeaderAnswer]:
        manager = self._parts.replicas.manager
        self._session.newest = self._version(ApiKey.FETCH)
        request, version = self._session.request(manager.broker_epoch)
        response = self._ask(request, version)
        found = self._session.take(response)
        if response.error_code:
            self._wait(0.0)
        return [_fetched(fetch, data) for fetch, data in found]

    def _epoch_ends(self, asks: Sequence[AskEpochEnd]) -> list[LeaderAnswer]:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for one in asks:
            topic = topics.setdefault(
                one.partition.topic,
                OffsetForLeaderTopic(topic=one.partition.topic, partitions=[]),
            )
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=one.partition.partition,
                    current_leader_epoch=one.leader_epoch,
                    leader_epoch=one.epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._parts.broker_id, topics=list(topics.values())
        )
        response = self._ask(request, self._version(ApiKey.OFFSET_FOR_LEADER_EPOCH))
        asked = {one.partition: one for one in asks}
        return [
            _epoch_ended(ask, one)
            for topic in response.topics
            for one in topic.partitions
            if (ask := asked.get(TopicPartition(topic.topic, one.partition))) is not None
        ]

    def _offsets(self, asks: Sequence[AskOffsets]) -> list[LeaderAnswer]:
        starts, ends = (self._list_offsets(asks, one) for one in (EARLIEST, LATEST))
        answers: list[LeaderAnswer] = []
        for one in asks:
            error, start, _ = starts.get(one.partition, NO_ANSWER)
            end_error, end, _ = ends.get(one.partition, NO_ANSWER)
            answers.append(
                Offsets(
                    partition=one.partition,
                    leader_epoch=one.leader_epoch,
                    error=error or end_error,
                    log_start_offset=start,
                    log_end_offset=end,
                )
            )
        return answers

    def _local_starts(self, asks: Sequence[AskLocalStart]) -> list[LeaderAnswer]:
        local_starts = self._list_offsets(asks, EARLIEST_LOCAL)
        without_start = [one for one in asks if one.log_start_offset == NO_OFFSET]
        starts = self._list_offsets(without_start, EARLIEST) if without_start else {}
        ends = self._tier_ends(asks)
        answers: list[LeaderAnswer] = []
        for one in asks:
            error, offset, epoch = local_starts.get(one.partition, NO_ANSWER)
            known = ErrorCode.NONE, one.log_start_offset, NO_EPOCH
            start_error, start, _ = (
                starts.get(one.partition, NO_ANSWER) if one in without_start else known
            )
            answers.append(
                LocalStart(
                    partition=one.partition,
                    leader_epoch=one.leader_epoch,
                    error=error or start_error,
                    log_start_offset=start,
                    offset=offset,
                    epoch=epoch,
                    tier_end=ends.get(one.partition),
                )
            )
        return answers

    def _tier_ends(self, asks: Sequence[AskLocalStart]) -> dict[TopicPartition, EpochEnd]:
        """Where what is in the tier ends, as far as the leaders know. Kafka asks for the offset
        after it (-6), of which no version of the protocol with ZooKeeper has heard.
        """
        wanted = [one for one in asks if one.with_tier_end]
        is_asked = bool(wanted) and self._version(ApiKey.LIST_OFFSETS) >= FIRST_WITH_LATEST_TIERED
        found = self._list_offsets(wanted, LATEST_TIERED) if is_asked else {}
        return {
            partition: EpochEnd(epoch, last + 1)
            for partition, (error, last, epoch) in found.items()
            if error is ErrorCode.NONE and last >= 0 and epoch >= 0
        }

    def _list_offsets(
        self, asks: Sequence[AskOffsets | AskLocalStart], timestamp: int
    ) -> dict[TopicPartition, "FoundByLeader"]:
        topics: dict[str, ListOffsetsTopic] = {}
        for one in asks:
            topic = topics.setdefault(
                one.partition.topic, ListOffsetsTopic(name=one.partition.topic, partitions=[])
            )
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=one.partition.partition,
                    current_leader_epoch=one.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(replica_id=self._parts.broker_id, topics=list(topics.values()))
        response = self._ask(request, self._version(ApiKey.LIST_OFFSETS))
        return {
            TopicPartition(topic.name, one.partition_index): (
                ErrorCode(one.error_code),
                one.old_style_offsets[0] if one.old_style_offsets else one.offset,
                one.leader_epoch,
            )
            for topic in response.topics
            for one in topic.partitions
        }


FoundByLeader = tuple[ErrorCode, int, int]
"""The error, the offset and its leader epoch, -1 if unknown."""

NO_ANSWER: Final[FoundByLeader] = (ErrorCode.UNKNOWN_SERVER_ERROR, 0, -1)


def _fetched(fetch: Fetch, data: PartitionData) -> Fetched:
    diverging = data.diverging_epoch
    return Fetched(
        partition=fetch.partition,
        leader_epoch=fetch.leader_epoch,
        fetch_offset=fetch.fetch_offset,
        error=ErrorCode(data.error_code),
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        diverging=None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
        records=data.records,
    )


def _epoch_ended(ask: AskEpochEnd, answer: Any) -> EpochEnded:
    # Version 0 does not return the epoch: it is the requested one.
    epoch = ask.epoch if answer.leader_epoch < 0 else answer.leader_epoch
    return EpochEnded(
        partition=ask.partition,
        leader_epoch=ask.leader_epoch,
        epoch=ask.epoch,
        error=ErrorCode(answer.error_code),
        end=None if answer.end_offset < 0 else EpochEnd(epoch, answer.end_offset),
    )
