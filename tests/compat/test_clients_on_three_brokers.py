"""Clients of others on a cluster with three replicas, while leaders and coordinators change.

Each client sends to all partitions of a topic of its own, and reads them in a group, all the time:
a broker is killed, comes back, and leads again what it should. What was acknowledged is read, at
the offset that was acknowledged, and the group finds what it has committed.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.administration.topics import ListedOffset
from tests.compat import node_clients
from tests.support.grounds import BOTH_KINDS, Grounds
from tests.support.patience import PATIENCE_S
from tests.support.running_cluster import RunningCluster, Silence, wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")
aiokafka = pytest.importorskip("aiokafka")
pytest.importorskip("kazoo.client")

pytestmark = pytest.mark.slow

PARTITIONS = 3
POLL_S = 0.05
KAFKA_PYTHON_POLL_S = 1.5
"""A shorter poll can end in the middle of a rebalance, and leave it with nothing."""

AT_ONCE = 5
KILLED = 2

Place = tuple[int, int | None, str]
"""Partition, offset, value. librdkafka does not say the offset of what it had to send again."""

IsOver = Callable[[], bool]


class Session:
    """What one client has had acknowledged, and has read."""

    def __init__(self, address: str, topic: str, over: Path) -> None:
        self.address = address
        self.topic = topic
        self.over = over
        self.sent: list[Place] = []
        self.read: list[Place] = []

    def is_over(self) -> bool:
        return self.over.exists()

    def values(self) -> Iterator[tuple[int, str]]:
        for number in count():
            yield number % PARTITIONS, str(number)

    def has_read_all(self) -> bool:
        return not self.missing()

    def missing(self) -> set[Place]:
        read = {*self.read, *((partition, None, value) for partition, _, value in self.read)}
        return set(self.sent) - read

    def complaint(self) -> str:
        return f"{self.topic} has not read {sorted(self.missing(), key=str)[:5]}"


def by_librdkafka(session: Session) -> None:
    common = {
        "bootstrap.servers": session.address,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
    }
    settings = {"enable.idempotence": True, "message.timeout.ms": 1000 * PATIENCE_S}
    producer = confluent_kafka.Producer({**common, **settings}, logger=Silence())
    settings = {"group.id": session.topic, "auto.offset.reset": "earliest"}
    settings["enable.auto.commit"] = False
    consumer = confluent_kafka.Consumer({**common, **settings}, logger=Silence())
    consumer.subscribe([session.topic])
    errors = []

    def answered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            session.sent.append((message.partition(), message.offset(), message.value().decode()))

    def poll() -> None:
        for one in consumer.consume(100, POLL_S):
            if one.error() is None:
                session.read.append((one.partition(), one.offset(), one.value().decode()))

    values = session.values()
    while not session.is_over():
        for _ in range(AT_ONCE):
            partition, value = next(values)
            producer.produce(session.topic, value, partition=partition, on_delivery=answered)
        producer.poll(0)
        poll()
    assert not producer.flush(PATIENCE_S)
    assert errors == []
    wait_until(lambda: poll() or session.has_read_all(), session.complaint)
    consumer.commit(asynchronous=False)
    consumer.close()


def by_kafka_python(session: Session) -> None:
    servers = session.address.split(",")
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        acks="all",
        enable_idempotence=True,
        delivery_timeout_ms=1000 * PATIENCE_S,
        metadata_max_age_ms=1000,
    )
    consumer = kafka.KafkaConsumer(
        session.topic,
        bootstrap_servers=servers,
        group_id=session.topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
    )
    sendings = []

    def poll() -> None:
        for records in consumer.poll(1000 * KAFKA_PYTHON_POLL_S).values():
            session.read += [(one.partition, one.offset, one.value.decode()) for one in records]

    values = session.values()
    while not session.is_over():
        for _ in range(AT_ONCE):
            partition, value = next(values)
            future = producer.send(session.topic, value.encode(), partition=partition)
            sendings.append((partition, future, value))
        poll()
    session.sent = [
        (partition, future.get(PATIENCE_S).offset, value) for partition, future, value in sendings
    ]
    producer.close()
    wait_until(lambda: poll() or session.has_read_all(), session.complaint)
    consumer.commit()
    consumer.close()


def by_aiokafka(session: Session) -> None:
    asyncio.run(_by_aiokafka(session))


async def _by_aiokafka(session: Session) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=session.address,
        enable_idempotence=True,
        request_timeout_ms=1000 * int(PATIENCE_S),
        metadata_max_age_ms=1000,
    )
    consumer = aiokafka.AIOKafkaConsumer(
        session.topic,
        bootstrap_servers=session.address,
        group_id=session.topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
    )
    await producer.start()
    await consumer.start()

    async def poll() -> None:
        found = await consumer.getmany(timeout_ms=int(1000 * POLL_S))
        for records in found.values():
            session.read += [(one.partition, one.offset, one.value.decode()) for one in records]

    values = session.values()
    while not session.is_over():
        partition, value = next(values)
        done = await producer.send_and_wait(session.topic, value.encode(), partition=partition)
        session.sent.append((partition, done.offset, value))
        await poll()
    await producer.stop()
    deadline_s = time.monotonic() + PATIENCE_S
    while not session.has_read_all():
        assert time.monotonic() < deadline_s, session.complaint()
        await poll()
    await consumer.commit()
    await consumer.stop()


def by_kafkajs(session: Session) -> None:
    answer = node_clients.hold_session(
        "kafkajs",
        session.address,
        "throughout",
        topic=session.topic,
        group=session.topic,
        partitions=PARTITIONS,
        until=str(session.over),
    )
    session.sent = [tuple(one) for one in answer["sent"]]
    session.read = [tuple(one) for one in answer["read"]]


CLIENTS: dict[str, Callable[[Session], None]] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def ends(admin: ottla.Admin, topic: str) -> list[int]:
    """Waits for new leaders, who have no end to tell before their followers have fetched."""
    places = [ottla.TopicPartition(topic, index) for index in range(PARTITIONS)]

    def listed() -> dict[ottla.TopicPartition, ListedOffset]:
        with suppress(ottla.UserError, ottla.ApiError):
            return admin.list_offsets(places)
        return {}

    found = wait_until(listed, f"the ends of {topic} cannot be had")
    return [found[place].offset for place in places]


def wait_for_more(admin: ottla.Admin, topics: list[str]) -> None:
    """Until each partition of each topic has records that it had not before."""
    for topic in topics:
        before = ends(admin, topic)
        wait_until(
            lambda topic=topic, before=before: all(
                now > then for now, then in zip(ends(admin, topic), before, strict=True)
            ),
            f"{topic} gets nothing in some partition after {before}",
        )


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@BOTH_KINDS
def test_clients_go_on_when_leaders_change_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, grounds: Grounds
) -> None:
    # Clients leave sockets open whose broker was killed, and what they log holds on to them.
    for name in ("kafka", "aiokafka"):
        caplog.set_level(logging.CRITICAL, logger=name)
    clients_of_three_brokers(tmp_path, grounds)
    gc.collect()


def clients_of_three_brokers(tmp_path: Path, grounds: Grounds) -> None:
    clients = dict(CLIENTS)
    if node_clients.absence() is None:
        clients["kafkajs"] = by_kafkajs
    over = tmp_path / "over"
    running_cluster = RunningCluster(tmp_path, grounds=grounds)
    with running_cluster as cluster, ottla.Admin(cluster.bootstrap) as admin:
        topics = list(clients)
        for topic in topics:
            admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
            cluster.wait_in_sync(topic)
        sessions = {name: Session(cluster.bootstrap, name, over) for name in clients}
        with ThreadPoolExecutor(len(clients)) as pool:
            running = [pool.submit(clients[name], one) for name, one in sessions.items()]
            try:
                wait_for_more(admin, topics)
                cluster.brokers[KILLED].kill()
                for topic in topics:
                    cluster.wait_led(topic, without=KILLED)
                wait_for_more(admin, topics)
                cluster.brokers[KILLED].begin()
                cluster.brokers[KILLED].wait_ready()
                for topic in topics:
                    cluster.wait_in_sync(topic)
                # The others, such as those of offsets, may not be in sync yet.
                admin.elect_leaders(admin.places(topics))
                wait_until(
                    lambda: all(
                        KILLED in [leader for leader, _ in cluster.leaders(topic).values()]
                        for topic in topics
                    ),
                    "it does not lead again",
                )
                wait_for_more(admin, topics)
            finally:
                over.touch()
            for one in running:
                one.result(2 * PATIENCE_S)
        for name, session in sessions.items():
            assert session.sent
            assert session.has_read_all(), name
            committed = admin.group_offsets(name)
            assert [committed[place].offset for place in sorted(committed)] == ends(admin, name)
