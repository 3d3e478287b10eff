"""Real clients produce and consume by assignment: every record comes back as it was sent."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from ottla.storage import scan
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

TOPIC = "records"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
KAFKA_PYTHON_COMPRESSIONS = (None, "gzip")
"""The others need packages that are not among our tests' own."""

LONG_POLL = {"fetch.wait.max.ms": PATIENCE_S * 1000, "socket.timeout.ms": 2 * PATIENCE_S * 1000}
"""Longer than a test waits for the message that ends it."""

FIRST_MS = 1_700_000_000_123

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """One record as a client sends and receives it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


RECORDS = [
    Sent(b"key", b"value", FIRST_MS),
    Sent(None, b"no key", FIRST_MS + 1),
    Sent(b"tombstone", None, FIRST_MS + 2),
    Sent(b"", b"", FIRST_MS + 3),
    Sent(b"headers", b"v", FIRST_MS + 4, (("a", b"1"), ("a", b"2"), ("empty", b""))),
    Sent(b"null header", b"v", FIRST_MS + 5, (("none", None),)),
    Sent(b"time goes back", b"v", FIRST_MS - 1000),
    Sent(b"\x00\xff", bytes(range(256)) * 64, FIRST_MS + 6),
    *(Sent(b"k%d" % number, b"value %d " % number * 20, FIRST_MS) for number in range(200)),
]

PYTHON_RECORDS = [one for one in RECORDS if all(value is not None for _, value in one.headers)]
"""What kafka-python agrees to send: it takes a null header for a mistake."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serving(open_broker(tmp_path / "data")) as server:
        yield "{}:{}".format(*server.address)


def produce_with_confluent(address: str, sent: list[Sent], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, **settings})
    failures = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    for one in sent:
        producer.produce(
            TOPIC,
            one.value,
            one.key,
            partition=0,
            timestamp=one.timestamp_ms,
            headers=list(one.headers),
            on_delivery=on_delivery,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consume_with_confluent(address: str, count: int, **settings: Any) -> list[Sent]:
    config = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**config, **settings})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        received: list[Any] = []
        while len(received) < count:
            messages = consumer.consume(count, timeout=PATIENCE_S)
            assert messages, f"only {len(received)} of {count} records came"
            received += messages
        assert all(message.error() is None for message in received)
        assert [message.offset() for message in received] == list(range(count))
        return [
            Sent(one.key(), one.value(), one.timestamp()[1], tuple(one.headers() or ()))
            for one in received
        ]
    finally:
        consumer.close()


def produce_with_kafka_python(address: str, sent: list[Sent], **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=20, **settings)
    try:
        futures = [
            producer.send(
                TOPIC,
                value=one.value,
                key=one.key,
                partition=0,
                timestamp_ms=one.timestamp_ms,
                headers=list(one.headers),
            )
            for one in sent
        ]
        offsets = [future.get(timeout=PATIENCE_S).offset for future in futures]
        assert offsets == list(range(len(sent)))
    finally:
        producer.close()


def consume_with_kafka_python(address: str, count: int, **settings: Any) -> list[Sent]:
    consumer = KafkaConsumer(
        bootstrap_servers=address, group_id=None, enable_auto_commit=False, **settings
    )
    try:
        partition = KafkaTopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        received: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(received) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                received += records
        assert [one.offset for one in received] == list(range(count))
        return [
            Sent(one.key, one.value, one.timestamp, tuple(tuple(pair) for pair in one.headers))
            for one in received
        ]
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_librdkafka_reads_what_it_wrote(address: str, compression: str) -> None:
    produce_with_confluent(address, RECORDS, **{"compression.type": compression})
    assert consume_with_confluent(address, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_librdkafka_compressed_is_stored_compressed(tmp_path: Path, compression: str) -> None:
    broker = open_broker(tmp_path / "data")
    with serving(broker) as server:
        settings = {"compression.type": compression}
        produce_with_confluent("{}:{}".format(*server.address), RECORDS, **settings)
        log = broker.topics.partition(TOPIC, 0).log
        codecs = {
            header.compression.name
            for segment in log.segments.values
            for _, header in scan.headers(segment.log)
        }
    assert codecs == {compression.upper()}


def test_an_idempotent_librdkafka_producer_is_served(address: str) -> None:
    produce_with_confluent(address, RECORDS, **{"enable.idempotence": True})
    assert consume_with_confluent(address, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_librdkafka_is_served_with_every_acks(address: str, acks: str) -> None:
    produce_with_confluent(address, RECORDS, acks=acks)
    assert consume_with_confluent(address, len(RECORDS)) == RECORDS


def test_a_consumer_of_committed_records_sees_all_that_are_in_no_transaction(
    address: str,
) -> None:
    produce_with_confluent(address, RECORDS)
    settings = {"isolation.level": "read_committed"}
    assert consume_with_confluent(address, len(RECORDS), **settings) == RECORDS


@pytest.mark.parametrize("compression", KAFKA_PYTHON_COMPRESSIONS)
def test_kafka_python_reads_what_it_wrote(address: str, compression: str | None) -> None:
    produce_with_kafka_python(address, PYTHON_RECORDS, compression_type=compression)
    assert consume_with_kafka_python(address, len(PYTHON_RECORDS)) == PYTHON_RECORDS


@pytest.mark.parametrize("version", [(0, 9), (0, 10, 0), (0, 10, 1), (1, 0, 0)])
def test_kafka_python_as_if_for_an_older_kafka_reads_what_it_wrote(
    address: str, version: tuple[int, ...]
) -> None:
    has_headers, has_times = version >= (0, 11), version >= (0, 10)
    sent = [one for one in PYTHON_RECORDS if has_headers or not one.headers]
    produce_with_kafka_python(address, sent, api_version=version)
    received = consume_with_kafka_python(address, len(sent), api_version=version)
    if not has_times:
        sent = [replace(one, timestamp_ms=-1) for one in sent]
        received = [replace(one, timestamp_ms=-1) for one in received]
    assert received == sent


def test_the_clients_read_each_other(address: str) -> None:
    produce_with_kafka_python(address, PYTHON_RECORDS)
    assert consume_with_confluent(address, len(PYTHON_RECORDS)) == PYTHON_RECORDS


def test_kafka_python_reads_what_librdkafka_wrote(address: str) -> None:
    produce_with_confluent(address, RECORDS, **{"compression.type": "gzip"})
    assert consume_with_kafka_python(address, len(RECORDS)) == RECORDS


def test_a_waiting_consumer_gets_what_is_produced_while_it_waits(address: str) -> None:
    produce_with_confluent(address, RECORDS[:1])
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", **LONG_POLL})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 1)])
        assert consumer.poll(0.5) is None
        produce_with_confluent(address, RECORDS[1:2])
        message = consumer.poll(PATIENCE_S / 3)
        assert message is not None
        assert message.value() == RECORDS[1].value
    finally:
        consumer.close()


def test_offsets_are_found_by_time(address: str) -> None:
    produce_with_confluent(address, [Sent(None, b"v", 1000 * number) for number in range(1, 11)])
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    try:
        found = {
            time_ms: consumer.offsets_for_times([TopicPartition(TOPIC, 0, time_ms)])[0].offset
            for time_ms in (1, 1000, 4500, 10_000)
        }
        assert found == {1: 0, 1000: 0, 4500: 4, 10_000: 9}
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0)) == (0, 10)
    finally:
        consumer.close()
