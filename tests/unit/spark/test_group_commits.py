"""A stream's progress in a consumer group, as other Kafka tools see it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.sources.client_options import parse_client_options
from ottla.sources.wire.wire_settings import parse_wire_settings
from tests.unit.spark.test_stream import Query, append

client = pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ottla.Log]:
    with ottla.open(tmp_path) as opened:
        opened.create_topic("orders")
        append(opened, "orders", 50)
        yield opened


def consumer(address: str) -> Any:
    return client.Consumer(
        {"bootstrap.servers": address, "group.id": "spark", "auto.offset.reset": "earliest"}
    )


def committed(address: str) -> int:
    asking = consumer(address)
    try:
        (found,) = asking.committed([client.TopicPartition("orders", 0)], 10)
        return int(found.offset)
    finally:
        asking.close()


def test_a_batch_is_committed_when_the_next_one_is_asked_for(
    tmp_path: Path, log: ottla.Log
) -> None:
    address = log.listen("127.0.0.1:0").address
    group = {"kafka.bootstrap.servers": address, "kafka.group.id": "spark"}
    query = Query(str(tmp_path), maxOffsetsPerTrigger="30", **group)
    query.batch()
    assert committed(address) == 0
    query.batch()
    assert committed(address) == 30
    assert query.batch() is None
    assert committed(address) == 50


def test_a_commit_that_fails_ends_the_query_at_first_and_is_tried_again_later(
    tmp_path: Path, log: ottla.Log, caplog: pytest.LogCaptureFixture
) -> None:
    address = log.listen("127.0.0.1:0").address
    group = {"kafka.bootstrap.servers": address, "kafka.group.id": "spark"}
    query = Query(str(tmp_path), maxOffsetsPerTrigger="30", **group)
    query.batch()
    member = consumer(address)
    member.subscribe(["orders"])
    while member.poll(0.05) is None:
        pass
    words = "group spark has members of its own; give each query another kafka.group.id"
    with caplog.at_level(logging.WARNING):
        assert query.batch() is not None
    assert caplog.messages == [f"{words}; the commit is retried at the next look"]
    with pytest.raises(UserError, match=words):
        query.restarted().batch()
    member.close()
    query.batch()
    assert committed(address) == 50


def test_the_client_takes_what_jobs_for_sparks_own_source_give() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" '
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login + 'password="b";',
        "kafka.request.timeout.ms": "1000",
        "kafka.fetch.max.wait.ms": "100",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.max.partition.fetch.bytes": "1048576",
    }
    settings = parse_wire_settings(parse_client_options(given))
    assert (settings.max_wait_ms, settings.security.username) == (100, "a")
