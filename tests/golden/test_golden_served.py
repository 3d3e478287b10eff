"""Directories written by Kafka, served by Ottla: librdkafka reads what it read from Kafka.

The manifests hold what the same client was given by Kafka itself, record by record, before Kafka
stopped; its coordinators may write a last record while it stops.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.golden.directories import CASES, GOLDEN, copy_of
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES, reason="the golden directories are not here"),
]


def manifest(case: str) -> Any:
    return json.loads((GOLDEN / case / "manifest.json").read_text())


SERVED = [case for case in CASES if "partitions" in manifest(case)]


@pytest.fixture(scope="module", params=SERVED)
def served(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, Any]]:
    """An address that serves a copy of one case, and the case's manifest."""
    case = request.param
    directory = tmp_path_factory.mktemp("served") / "data"
    copy_of(case, directory)
    with serving(open_broker(directory)) as server:
        yield "{}:{}".format(*server.address), manifest(case)


def read(address: str, partition: Any, isolation: str) -> list[dict[str, Any]]:
    """What librdkafka gets of a partition, as the manifests write it."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "none",
        "isolation.level": isolation,
        "check.crcs": True,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,  # the end is told only when a fetch comes back empty
    }
    consumer = Consumer(settings)
    received = []
    try:
        start = TopicPartition(partition["topic"], partition["partition"], 0)
        start.offset = partition["logStartOffset"]
        consumer.assign([start])
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "neither a record nor the end came"
            if message.error() is not None:
                assert "EOF" in str(message.error()), message.error()
                return received
            if message.offset() < partition["highWatermark"]:
                received.append(as_in_manifest(message))
            else:
                assert partition["topic"].startswith("__"), message.offset()
    finally:
        consumer.close()


def as_in_manifest(message: Any) -> dict[str, Any]:
    kind, timestamp_ms = message.timestamp()
    return {
        "offset": message.offset(),
        "timestamp": timestamp_ms,
        "timestampType": {0: "none", 1: "CreateTime", 2: "LogAppendTime"}[kind],
        "leaderEpoch": message.leader_epoch(),
        "key": text(message.key()),
        "value": text(message.value()),
        "headers": [[name, text(value)] for name, value in message.headers() or []],
    }


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_every_record_is_what_kafka_gave(served: tuple[str, Any]) -> None:
    address, case = served
    for partition in case["partitions"]:
        received = read(address, partition, "read_uncommitted")
        expected = partition["records"]
        for ours, theirs in zip(received, expected, strict=True):
            assert ours == {name: theirs[name] for name in ours}


def test_committed_readers_get_the_offsets_that_kafka_gave(served: tuple[str, Any]) -> None:
    address, case = served
    for partition in case["partitions"]:
        received = read(address, partition, "read_committed")
        assert [one["offset"] for one in received] == partition["readCommittedOffsets"]


def test_offsets_and_times_are_those_of_kafka(served: tuple[str, Any]) -> None:
    address, case = served
    settings = {"isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", **settings})
    try:
        for partition in case["partitions"]:
            place = TopicPartition(partition["topic"], partition["partition"])
            low, high = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
            assert low == partition["logStartOffset"]
            if not partition["topic"].startswith("__"):
                assert high == partition["highWatermark"]
            for time_ms, offset in partition.get("offsetsForTimes", []):
                place.offset = time_ms
                (found,) = consumer.offsets_for_times([place], timeout=PATIENCE_S)
                # Kafka 3.9 knew from a setting, since removed, that a topic's records lack times.
                has_times = offset != "error UNSUPPORTED_FOR_MESSAGE_FORMAT"
                assert found.offset == (offset if has_times else -1)
    finally:
        consumer.close()
