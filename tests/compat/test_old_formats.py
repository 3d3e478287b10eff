"""Clients of every age and topics of every message format: each reads what each wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.record.batch import iter_batches
from tests.compat.test_clients_by_assignment import (
    PYTHON_RECORDS,
    TOPIC,
    Sent,
    consume_with_confluent,
    consume_with_kafka_python,
    produce_with_confluent,
    produce_with_kafka_python,
)
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

FORMATS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
CLIENTS: list[tuple[int, ...] | None] = [(0, 9), (0, 10, 0), (1, 0), None]
"""The Kafka that kafka-python takes the broker for; `None` where it asks."""

CODECS = {None: (), "gzip": (), "snappy": ("snappy",), "lz4": ("lz4.frame", "xxhash")}
"""Codecs of the old formats, with the packages that kafka-python needs; xxhash is for v0."""

SENT = [one for one in PYTHON_RECORDS if not one.headers]


@contextmanager
def topic_of(path: Path, magic: int, **settings: str) -> Iterator[tuple[str, Broker]]:
    """A broker as an old cluster's `server.properties` makes it."""
    values = {
        "inter_broker_protocol_version": "2.8",
        "log_message_format_version": FORMATS[magic],
    }
    broker = open_broker(path / "data", **values, **settings)
    with serving(broker) as server:
        yield "{}:{}".format(*server.address), broker


def stored(broker: Broker) -> set[tuple[int, str]]:
    """Formats and codecs in the log."""
    log = broker.topics.partition(TOPIC, 0).log
    return {
        (one.magic, one.compression.kafka_name)
        for segment in log.segments.values
        for one in iter_batches(segment.log.read(0, segment.log.written_size))
    }


def without_times(records: list[Sent]) -> list[Sent]:
    return [replace(one, timestamp_ms=-1) for one in records]


def knows_times(version: tuple[int, ...] | None) -> bool:
    return version is None or version >= (0, 10)


@pytest.mark.parametrize("magic", FORMATS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_consumers_of_every_age_read_what_a_producer_of_any_age_wrote(
    tmp_path: Path, magic: int, codec: str | None, writer: tuple[int, ...] | None
) -> None:
    for package in CODECS[codec]:
        pytest.importorskip(package)
    with topic_of(tmp_path, magic) as (address, broker):
        settings: dict[str, Any] = {} if writer is None else {"api_version": writer}
        if writer is None or writer >= (0, 11):
            settings["enable_idempotence"] = False
        produce_with_kafka_python(address, SENT, compression_type=codec, **settings)
        assert {one for one, _ in stored(broker)} == {magic}
        assert (magic, codec or "none") in stored(broker)
        keeps_times = magic > 0 and knows_times(writer)
        for reader in CLIENTS:
            posing: dict[str, Any] = {} if reader is None else {"api_version": reader}
            received = consume_with_kafka_python(address, len(SENT), **posing)
            if keeps_times and knows_times(reader):
                assert received == SENT
            else:
                assert without_times(received) == without_times(SENT)
        received = consume_with_confluent(address, len(SENT))
        if keeps_times:
            assert received == SENT
        else:
            assert without_times(received) == without_times(SENT)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [one for one in Compression if one is not Compression.ZSTD])
def test_a_new_librdkafka_writes_to_a_topic_of_an_old_format(
    tmp_path: Path, magic: int, codec: Compression
) -> None:
    with topic_of(tmp_path, magic) as (address, broker):
        produce_with_confluent(address, SENT, **{"compression.type": codec.kafka_name})
        assert stored(broker) == {(magic, codec.kafka_name)}
        received = consume_with_confluent(address, len(SENT))
    assert without_times(received) == without_times(SENT)
    assert magic == 0 or received == SENT


@pytest.mark.parametrize("magic", [0, 1])
def test_an_idempotent_producer_is_told_that_the_format_is_too_old(
    tmp_path: Path, magic: int
) -> None:
    with (
        topic_of(tmp_path, magic) as (address, broker),
        pytest.raises(AssertionError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    ):
        produce_with_confluent(address, SENT[:1], **{"enable.idempotence": True})
    assert broker.topics.partition(TOPIC, 0).log.log_end_offset == 0


@pytest.mark.parametrize("magic", FORMATS)
def test_groups_commit_where_the_broker_keeps_an_old_format(tmp_path: Path, magic: int) -> None:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    partition = TopicPartition(TOPIC, 0)
    for expected in (None, 7):
        with topic_of(tmp_path, magic, offsets_topic_num_partitions="1") as (address, _):
            consumer = KafkaConsumer(
                bootstrap_servers=address, group_id="g", enable_auto_commit=False
            )
            try:
                consumer.assign([partition])
                assert consumer.committed(partition) == expected
                consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
                assert consumer.committed(partition) == 7
            finally:
                consumer.close()
