"""A group without a coordinator: ids, owners and offsets in ZooKeeper, as designed in Kafka 0.7.

A consumer registers its id, watches the other ids and the brokers, and computes its share whenever
one of them changes (`registry_shares.py`). It releases what no longer belongs to its share, and
then claims the rest, retrying until the previous owners have released it. A lost session loses
everything. Kafka's counterpart: `ZookeeperConsumerConnector`; in pykafka: `BalancedConsumer`.
"""

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, Final
from uuid import uuid4

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import OUTSIDER, GroupMemberId
from ottla.client.consumer.group import Subscription
from ottla.client.consumer.membership import Event, EventKind, Partitions
from ottla.client.consumer.registry_shares import Owned, shares
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.config.consumer import ConsumerConfig
from ottla.zookeeper.consumers import (
    ConsumerRegistration,
    consumer_ids_path,
    decode_consumer,
    decode_offset,
    encode_consumer,
    encode_offset,
    offset_path,
    owner_path,
)
from ottla.zookeeper.nodes import NodeError
from ottla.zookeeper.paths import BROKER_IDS

logger = logging.getLogger(__name__)

START_S: Final = 15.0
LOOK_S: Final = 1.0
"""How often subscribed topics that do not exist yet are looked for."""


@dataclass(slots=True)
class RegistryMember:
    """The membership as seen by the consumer; it commits like a client outside any group, since
    brokers do not know this one.
    """

    events: deque[Event] = field(default_factory=deque)
    claims: Owned = field(default_factory=dict)
    announced: Partitions = frozenset()

    @property
    def owned(self) -> Partitions:
        return self.announced

    @property
    def identity(self) -> GroupMemberId | None:
        return OUTSIDER

    def handled(self) -> None:
        event = self.events.popleft()
        gains = event.kind is EventKind.ASSIGNED
        self.announced = (
            self.announced | event.partitions if gains else self.announced - event.partitions
        )


class RegistryGroup:
    """As `GroupThread`, in a group in ZooKeeper. `changed` guards `member` and `subscription`."""

    def __init__(
        self,
        cluster: SharedCluster,
        group: str,
        config: ConsumerConfig,
        changed: threading.Condition,
        on_change: Callable[[], None],
    ) -> None:
        if not config.zookeeper_connect:
            raise UserError(
                "group.protocol=zookeeper needs zookeeper.connect, such as localhost:2181"
            )
        self.member = RegistryMember()
        self.failure: Exception | None = None
        self.has_polled = True
        self.consumer_id = f"{socket.gethostname()}:{uuid4()}"
        self._cluster = cluster
        self._group = group
        self._config = config
        self._changed = changed
        self._on_change = on_change
        self._subscription = Subscription()
        self._client: Any = None
        self._is_stopped = False
        self._must_balance = True
        self._is_lost = False
        self._registered: bytes | None = None
        self._written: Owned = {}
        """Nodes that may name this consumer as owner, from any of its sessions: the outcome of a
        write before a lost connection is unknown, and it may arrive after a new session began.
        """
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def subscribe(self, subscription: Subscription) -> None:
        """Under the lock: reads other topics from now on."""
        self._subscription = subscription
        self._must_balance = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ottla group", daemon=True)
            self._thread.start()
        self._on_change()

    def enter_again(self) -> None:
        """Does nothing: such a group does not remove slow members."""

    def stop(self) -> None:
        """Leaves the group: the nodes vanish with the session."""
        with self._changed:
            self._is_stopped = True
            self._on_change()
        if self._thread is not None:
            self._thread.join()

    # Offsets

    def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes committed offsets where consumers of 0.7 look for them."""
        for place, offset in offsets.items():
            path = self._offset_path(place)
            with suppress(self._errors.KazooException):
                self._client.ensure_path(path)
                self._client.set(path, encode_offset(offset))

    def stored(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offsets that any consumer has written there."""
        found = {}
        for place in places:
            path = self._offset_path(place)
            with suppress(self._errors.KazooException, NodeError):
                found[place] = decode_offset(path, self._client.get(path)[0])
        return found

    def _offset_path(self, place: TopicPartition) -> str:
        with self._changed:
            name = self.member.claims.get(place, str(place.partition))
        return offset_path(self._group, place.topic, name)

    # The thread

    def _run(self) -> None:
        try:
            self._connect()
            while not self._is_stopped:
                self._step()
        except Exception as error:
            with self._changed:
                if not self._is_stopped:
                    self.failure = error
                    self._on_change()
        finally:
            if self._client is not None:
                with suppress(Exception):
                    self._client.stop()
                    self._client.close()

    def _connect(self) -> None:
        with needed_for("group.protocol=zookeeper"):
            from kazoo import exceptions
            from kazoo.client import KazooClient, KazooState
            from kazoo.handlers.threading import KazooTimeoutError
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._errors, self._lost = exceptions, KazooState.LOST
        connect = self._config.zookeeper_connect
        self._client = KazooClient(
            connect,
            timeout=self._config.session_timeout_ms / 1000,
            # By default it pauses for up to a minute after a longer outage.
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
        )
        self._client.add_listener(self._heard)
        try:
            self._client.start(timeout=START_S)
        except KazooTimeoutError as error:
            raise UserError(f"zookeeper.connect={connect}: no server answers") from error
        self._client.ensure_path(consumer_ids_path(self._group))

    def _heard(self, state: str) -> None:
        """Called in the thread that reads from ZooKeeper, which must not wait for a lock."""
        self._is_lost |= state == self._lost
        self._client.handler.spawn(self._wake)

    def _wake(self, event: object = None) -> None:
        """Called when a watched node has changed."""
        with self._changed:
            self._must_balance = True
            self._changed.notify_all()

    def _step(self) -> None:
        with self._changed:
            if self._is_lost:
                self._lose_all()
            if not self._must_balance:
                self._changed.wait(LOOK_S)
            if self._is_stopped or not (self._must_balance or self._misses_topics()):
                return
            self._must_balance = False
            subscription = self._subscription
        try:
            self._balance(subscription)
        except self._errors.KazooException:
            # The connection or the session is gone: retried when it is back.
            with self._changed:
                self._must_balance = True
                self._changed.wait(self._config.retry_backoff_ms / 1000)

    def _misses_topics(self) -> bool:
        """Whether subscribed topics may have been created."""
        there = {one.topic for one in self.member.claims}
        return self._subscription.pattern is not None or bool(self._subscription.topics - there)

    def _lose_all(self) -> None:
        """The nodes vanished with the session; others may already own the partitions."""
        lost = self.member.announced
        self.member.claims.clear()
        self.member.events.clear()
        if lost:
            self.member.events.append(Event(EventKind.LOST, lost))
        self._is_lost, self._registered, self._must_balance = False, None, True
        self._on_change()

    # Rebalancing, in the order of the design

    def _balance(self, subscription: Subscription) -> None:
        topics = set(subscription.topics)
        if subscription.pattern is not None:
            topics |= self._cluster.topics_like(subscription.pattern).counts.keys()
        self._register(topics)
        with suppress(self._errors.NoNodeError):  # A broker without a cluster.
            self._client.get_children(BROKER_IDS, watch=self._wake)
        wanted = shares(self._leaders(topics), self._consumers(topics), self._own_id)
        with self._changed:
            claims = dict(self.member.claims)
        leaving = [one for one, name in claims.items() if wanted.get(one) != name]
        if not self._tell(EventKind.REVOKED, leaving):
            return
        for place, name in [*self._written.items()]:
            if wanted.get(place) != name:
                self._release(place, name)
        gained = {one: name for one, name in wanted.items() if claims.get(one) != name}
        taken = [one for one, name in gained.items() if self._claim(one, name)]
        self._tell(EventKind.ASSIGNED, taken)
        if len(taken) < len(gained):
            # Until the previous owners have released them.
            with self._changed:
                self._changed.wait(self._config.retry_backoff_ms / 1000)
                self._must_balance = True

    @property
    def _names_topic(self) -> bool:
        return self._config.zookeeper_registration == "topic"

    @property
    def _own_id(self) -> str:
        """With `streams`, the id of the only stream."""
        return self.consumer_id if self._names_topic else f"{self.consumer_id}-0"

    def _register(self, topics: Collection[str]) -> None:
        """Writes the node again if the topics have changed."""
        if self._names_topic:
            if len(topics) > 1:
                raise UserError("zookeeper.registration=topic: subscribe to one topic")
            content = "".join(topics).encode()
        else:
            content = encode_consumer(
                ConsumerRegistration(
                    subscription=dict.fromkeys(sorted(topics), 1),
                    timestamp_ms=SystemClock().now_ms(),
                )
            )
        path = f"{consumer_ids_path(self._group)}/{self.consumer_id}"
        key = b"\0".join(sorted(one.encode() for one in topics))
        if self._registered is None:
            try:
                self._client.create(path, content, ephemeral=True, makepath=True)
            except self._errors.NodeExistsError:  # Written before the connection was lost.
                self._client.set(path, content)
        elif self._registered != key:
            self._client.set(path, content)
        self._registered = key

    def _leaders(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        counts = self._cluster.topics(list(topics)).counts
        places = [TopicPartition(name, n) for name in counts for n in range(counts[name])]
        found: dict[str, dict[int, int]] = {name: {} for name in counts}
        for place, leader in self._cluster.leaders(places).items():
            found[place.topic][place.partition] = leader.node_id
        return found

    def _consumers(self, topics: Collection[str]) -> dict[str, list[str]]:
        """The ids, or streams, that read each topic; the ids are watched."""
        found: dict[str, list[str]] = {topic: [] for topic in topics}
        ids = consumer_ids_path(self._group)
        for one in self._client.get_children(ids, watch=self._wake):
            path = f"{ids}/{one}"
            try:
                content = self._client.get(path, watch=self._wake)[0]
                named = content.decode(errors="replace")
                if named in found:
                    found[named].append(one)
                    continue
                registration = decode_consumer(path, content)
            except self._errors.NoNodeError:
                continue
            except NodeError:
                continue  # for another topic than ours
            for topic, streams in registration.subscription.items():
                if topic in found:
                    found[topic] += [f"{one}-{number}" for number in range(streams)]
        return found

    def _owner_paths(self, place: TopicPartition, name: str) -> list[str]:
        """With Python 3 pykafka writes the repr of bytes as topic: its owned partitions are
        there, and it must find those of others there.
        """
        topics = [place.topic, f"b'{place.topic}'"] if self._names_topic else [place.topic]
        return [owner_path(self._group, topic, name) for topic in topics]

    def _claim(self, place: TopicPartition, name: str) -> bool:
        """Claims a partition; returns whether it belongs to this consumer now."""
        own = self._own_id.encode()
        self._written[place] = name
        for path in self._owner_paths(place, name):
            try:
                self._client.create(path, own, ephemeral=True, makepath=True)
            except self._errors.NodeExistsError:
                # Without a node, the previous owner has just released it.
                if self._owner_at(path) != own:
                    self._release(place, name)
                    return False
        with self._changed:
            self.member.claims[place] = name
        return True

    def _owner_at(self, path: str) -> bytes | None:
        with suppress(self._errors.NoNodeError):
            owner: bytes = self._client.get(path)[0]
            return owner
        return None

    def _release(self, place: TopicPartition, name: str) -> None:
        for path in self._owner_paths(place, name):
            if self._owner_at(path) == self._own_id.encode():
                with suppress(self._errors.NoNodeError):
                    self._client.delete(path)
        self._written.pop(place, None)
        with self._changed:
            self.member.claims.pop(place, None)

    def _tell(self, kind: EventKind, places: Iterable[TopicPartition]) -> bool:
        """Notifies the application, and waits for it if it loses partitions; returns whether it
        was notified.
        """
        partitions = frozenset(places)
        member = self.member
        with self._changed:
            if not partitions:
                return True
            event = Event(kind, partitions)
            member.events.append(event)
            self._on_change()
            while kind is EventKind.REVOKED and event in member.events:
                if self._is_stopped or self._is_lost:
                    return False
                self._changed.wait(LOOK_S)
        return True
