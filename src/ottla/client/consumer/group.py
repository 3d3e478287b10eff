"""The thread that keeps a consumer in its group: it sends what the `Membership` asks for, and
waits.

The application is notified of gains and losses in its own thread: the membership waits for that,
while heartbeats continue.
"""

import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.ids import uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.connecting.connection import Connection
from ottla.client.consumer.assignors import PartitionAssignor, assignors_of
from ottla.client.consumer.classic_member import ClassicMember
from ottla.client.consumer.consumer_member import ConsumerMember
from ottla.client.consumer.membership import MemberOptions, Membership
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import RefusedError
from ottla.codec.schema import Message
from ottla.config.consumer import ConsumerConfig
from ottla.config.reading import ReadingConfig

MILLISECONDS = 1000
IDLE_S = 1.0
ENTERING_PATIENCE_S = 5.0
"""Timeout for responses that a healthy coordinator sends at once."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, or those that match an expression; `regex` is one for the broker."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    regex: str | None = None


@dataclass(slots=True)
class GroupThread:
    """`changed` guards `member` and all fields."""

    cluster: SharedCluster
    group: str
    config: ReadingConfig
    member: Membership
    changed: threading.Condition
    on_change: Callable[[], None]
    """Called under the lock with every change."""
    progress: Callable[[], object]
    """A value that changes whenever the application takes a record."""
    subscription: Subscription = Subscription()
    failure: Exception | None = None
    """The error that permanently ended the membership."""
    has_polled: bool = True
    is_stopped: bool = False
    _is_out: bool = False
    """Whether the application polled no records for too long."""
    _must_look_up: bool = True
    _looked_up_ms: float = 0.0
    _last_progress: object = None
    _progress_ms: float = 0.0
    _connection: Connection | None = None
    _thread: threading.Thread | None = field(default=None)

    @property
    def is_started(self) -> bool:
        """Whether this consumer shall be a member."""
        return self._thread is not None

    def subscribe(self, subscription: Subscription) -> None:
        """Under the lock: reads other topics from now on."""
        self.subscription = subscription
        self._must_look_up = True
        if self._thread is None:
            self._progress_ms = _now_ms()
            self._thread = threading.Thread(target=self._run, name="ottla group", daemon=True)
            self._thread.start()
        self.on_change()

    def enter_again(self) -> None:
        """Under the lock: the application polls again, and was notified of its losses."""
        if self._is_out:
            self._is_out = False
            self.member.rejoin()
            self.changed.notify_all()

    def stop(self) -> None:
        """Leaves the group, and returns once the thread has ended."""
        with self.changed:
            self.is_stopped = True
            is_entering = self.member.is_entering
            farewell = self.member.leave()
            connection = self._connection
            self.on_change()
        if farewell is not None:
            self._tell(farewell)
        if self._thread is not None:
            if is_entering:
                self._thread.join(ENTERING_PATIENCE_S)
            # A join may be waiting for other members.
            if connection is not None:
                connection.close()
            self._thread.join()

    def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Does nothing: the coordinator has stored the offsets."""

    def stored(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns nothing: the coordinator has all committed offsets."""
        return {}

    def _tell(self, farewell: Message) -> None:
        with suppress(ApiError, UserError):  # Otherwise the session times out.
            self.cluster.ask_coordinator(self.group, lambda broker: broker.ask(farewell))

    def _run(self) -> None:
        try:
            while not self.is_stopped:
                self._step()
        except ApiError as error:
            self._fail(RefusedError(f"group {self.group}", error))
        except Exception as error:
            self._fail(error)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _fail(self, error: Exception) -> None:
        with self.changed:
            if not self.is_stopped:
                self.failure = error
                self.on_change()

    def _step(self) -> None:
        try:
            if self._is_look_up_due():
                self._look_up()
            with self.changed:
                now_ms = _now_ms()
                farewell = self._leave_if_stuck(now_ms)
                must_connect = self.member.is_coordinator_lost or self._connection is None
                is_due = now_ms >= self.member.due_ms(now_ms)
                request = None
                if is_due and not must_connect and not farewell:
                    request = self.member.next_request(now_ms)
                if not farewell and request is None and not (must_connect and is_due):
                    self._wait(now_ms)
                    return
            if farewell is not None:
                self._tell(farewell)
            elif request is None:
                self._connect()
            else:
                self._ask(request)
        except UnreachableError:
            self._lose_coordinator()

    def _wait(self, now_ms: float) -> None:
        """Under the lock: waits until something changes, or may be due."""
        self.on_change()
        due_ms = self.member.due_ms(now_ms) - now_ms
        # A request that is due but not made waits for the application.
        left_s = due_ms / MILLISECONDS if due_ms > 0 else IDLE_S
        if not self.is_stopped and not self._is_look_up_due():
            self.changed.wait(min(left_s, IDLE_S))

    def _ask(self, request: Message) -> None:
        assert self._connection is not None
        with self.changed:
            if self.is_stopped:
                return
            is_entering = self.member.is_entering
        answer = self._connection.ask(request)
        with self.changed:
            if not self.is_stopped:
                self.member.answered(request, answer, _now_ms())
                self.on_change()
                return
            farewell = self.member.leave_after(answer) if is_entering else None
        if farewell is not None:
            self._tell(farewell)

    def _connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        connection = self.cluster.connect_to(self.cluster.coordinator_of(self.group))
        with self.changed:
            self._connection = connection
            self.member.is_coordinator_lost = False

    def _lose_coordinator(self) -> None:
        with self.changed:
            if not self.is_stopped:
                self.member.unreachable(_now_ms())
                self.changed.wait(self.config.retry_backoff_ms / MILLISECONDS)

    def _is_look_up_due(self) -> bool:
        is_old = _now_ms() - self._looked_up_ms >= self.config.metadata_max_age_ms
        return self._must_look_up or self.member.needs_topics or is_old

    def _look_up(self) -> None:
        """Looks up topics, their partitions and ids as they are now, if needed."""
        self._must_look_up = False
        wanted = self.subscription
        ids = self.member.unknown_ids
        topics = set(wanted.topics)
        if wanted.pattern is not None:
            topics |= self.cluster.topics_like(wanted.pattern).counts.keys()
        found = self.cluster.topics(topics | self.member.wanted_topics)
        named = {**found.ids, **(self.cluster.topics_with_ids(ids).ids if ids else {})}
        with self.changed:
            self._looked_up_ms = _now_ms()
            if wanted is self.subscription:
                self.member.subscribe(topics, wanted.regex)
            self.member.take_topics(found.counts, named)
            if self.member.needs_topics:  # A topic that was just created or deleted.
                self.changed.wait(self.config.retry_backoff_ms / MILLISECONDS)

    def _leave_if_stuck(self, now_ms: float) -> Message | None:
        """Leaves the group if the application polls no records, since that would block its
        partitions.
        """
        progress = self.progress()
        if self.has_polled or progress != self._last_progress:
            self._last_progress, self._progress_ms = progress, now_ms
            self.has_polled = False
            return None
        if now_ms - self._progress_ms < self.config.max_poll_interval_ms:
            return None
        self._is_out, self._progress_ms = True, float("inf")
        return self.member.leave()


def _now_ms() -> float:
    return time.monotonic() * MILLISECONDS


def member_of(
    group: str, config: ConsumerConfig, assignors: Sequence[PartitionAssignor]
) -> Membership:
    """The member of a group, by the protocol that the settings name."""
    options = MemberOptions(
        group_id=group,
        instance_id=config.group_instance_id or None,
        rack=config.client_rack or None,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
    )
    if config.group_protocol == "consumer":
        member_id = uuid_text(secrets.token_bytes(16))
        return ConsumerMember(options, member_id, config.group_remote_assignor or None)
    strategy = config.partition_assignment_strategy
    return ClassicMember(options, assignors_of(strategy, assignors))
