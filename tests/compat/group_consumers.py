"""Consumers of three libraries behind one face: what the tests of groups need of them."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

import ottla
from tests.support.patience import PATIENCE_S, wait_until

TOPIC = "shared"
POLL_S = 0.2
SESSION_MS = 6000
HEARTBEAT_MS = 300

Seen = tuple[int, int]
"""A partition and an offset in it."""


class GroupConsumer(Protocol):
    """A consumer that has subscribed to `TOPIC` in a group, and commits when it is told to."""

    seen: list[Seen]

    def poll(self) -> None:
        """Takes in what has come to it in a little while."""

    def assignment(self) -> set[int]: ...

    def commit(self) -> None:
        """Commits how far it has read, and waits for the answer."""

    def close(self) -> None: ...


MakeConsumer = Callable[..., GroupConsumer]


class ConfluentConsumer:
    """`revoked` follows the callbacks, so that a test sees what a rebalance took away; `errors` are
    what came instead of messages.

    The assignment is that after the last poll: asked while another thread polls, the library keeps
    the interpreter, which a callback of that thread may be waiting for.
    """

    def __init__(
        self,
        address: str,
        group_id: str,
        *,
        instance_id: str | None = None,
        strategy: str = "range",
    ) -> None:
        config = {
            "bootstrap.servers": address,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": strategy,
            "reconnect.backoff.max.ms": 500,
        }
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        self._subscribe(config, TOPIC)

    def _subscribe(self, config: dict[str, Any], topic: str) -> None:
        self.seen: list[Seen] = []
        self.errors: list[confluent_kafka.KafkaError] = []
        self.revoked: list[set[int]] = []
        self._owned: set[int] = set()
        self._consumer = confluent_kafka.Consumer(config, logger=_Silence())
        self._consumer.subscribe([topic], on_revoke=self._on_revoke)

    def _on_revoke(self, _: Any, partitions: list[Any]) -> None:
        self.revoked.append({one.partition for one in partitions})

    def poll(self) -> None:
        for message in self._consumer.consume(500, POLL_S):
            if message.error() is None:
                self.seen.append((message.partition(), message.offset()))
            else:
                self.errors.append(message.error())
        self._owned = {one.partition for one in self._consumer.assignment()}

    def assignment(self) -> set[int]:
        return self._owned

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class _Silence:
    """librdkafka reports lost connections, which some tests are about."""

    def log(self, *_: object) -> None:
        pass


class KafkaPythonConsumer:
    """It knows the topic's partitions before it joins.

    A leader that learns of partitions only later joins again for that alone, and has to do so
    within one poll: its own assignment sets the mark by which the next poll would know that it is
    in the middle of a rebalance (`_assignment_snapshot`, with `rejoin_needed` unset, in
    `ConsumerCoordinator.need_rejoin`). It would then neither take its assignment, nor send
    heartbeats, nor join ever again.
    """

    def __init__(
        self,
        address: str,
        group_id: str,
        *,
        instance_id: str | None = None,
        strategy: str = "range",
    ) -> None:
        options: dict[str, Any] = {}
        if strategy == "cooperative-sticky":
            options["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        self.seen: list[Seen] = []
        self._consumer = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=group_id,
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reconnect_backoff_max_ms=500,
            **options,
        )
        assert self._consumer.partitions_for_topic(TOPIC)

    def poll(self) -> None:
        for records in self._consumer.poll(int(POLL_S * 1000)).values():
            self.seen += [(one.partition, one.offset) for one in records]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        # A static member does not leave; nor does it commit here.
        self._consumer.close(autocommit=False)


class AiokafkaConsumer:
    """Its event loop runs in a thread of its own, so that it sends heartbeats all the time.

    Its start is not over before it has joined, for which other members may have to poll first.
    """

    def __init__(self, address: str, group_id: str, *, instance_id: str | None = None) -> None:
        self.seen: list[Seen] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._run(self._make(address, group_id, instance_id))
        self._started = asyncio.run_coroutine_threadsafe(self._consumer.start(), self._loop)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _make(self, address: str, group_id: str, instance_id: str | None) -> Any:
        return AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=group_id,
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def poll(self) -> None:
        if not self._started.done():
            time.sleep(POLL_S)
            return
        self._started.result()
        found = self._run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        for records in found.values():
            self.seen += [(one.partition, one.offset) for one in records]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class OttlaConsumer:
    """Ottla's own, in a group with the others."""

    def __init__(
        self,
        address: str,
        group_id: str,
        *,
        instance_id: str | None = None,
        strategy: str = "range",
    ) -> None:
        self.seen: list[Seen] = []
        self.revoked: list[set[int]] = []
        self._consumer = ottla.Consumer(
            address,
            group_id,
            settings={
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": strategy,
                "group.instance.id": instance_id or "",
            },
        )
        self._consumer.subscribe(TOPIC, on_revoke=self._on_revoke)

    def _on_revoke(self, partitions: list[ottla.TopicPartition]) -> None:
        self.revoked.append({one.partition for one in partitions})

    def poll(self) -> None:
        records = self._consumer.consume(500, POLL_S)
        self.seen += [(one.partition, one.offset) for one in records]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


CONSUMERS: dict[str, MakeConsumer] = {
    "confluent-kafka": ConfluentConsumer,
    "kafka-python": KafkaPythonConsumer,
    "aiokafka": AiokafkaConsumer,
    "ottla": OttlaConsumer,
}


def poll_until(condition: Callable[[], bool], *consumers: GroupConsumer) -> None:
    """Has each consumer poll in a thread of its own until something holds; fails after a while.

    None waits for another's poll, so that no slow one delays a rebalance of all.
    """
    is_over = threading.Event()

    def poll(consumer: GroupConsumer) -> None:
        while not is_over.is_set():
            consumer.poll()

    def state() -> str:
        return str([(sorted(one.assignment()), len(one.seen)) for one in consumers])

    with ThreadPoolExecutor(len(consumers)) as pool:
        polling = [pool.submit(poll, one) for one in consumers]
        try:
            wait_until(lambda: condition() or any(one.done() for one in polling), state)
        finally:
            is_over.set()
    for one in polling:
        one.result()


def share(partition_count: int, *consumers: GroupConsumer) -> bool:
    """Whether every partition has exactly one owner, and nobody is without."""
    owned = [one.assignment() for one in consumers]
    everything = set(range(partition_count))
    return (
        all(owned) and set().union(*owned) == everything and sum(map(len, owned)) == len(everything)
    )
