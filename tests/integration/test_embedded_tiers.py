"""A log in one's own process whose first segments have gone to its tier."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import TopicPartition
from ottla.embedded.cutting import offsets_at_time
from ottla.storage.files.filenames import INTEGRITY
from tests.support.patience import PATIENCE_S, wait_until

COUNT = 60
LOCAL_START = 45
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": (
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    ),
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "20",
}
TOPIC = {"remote.storage.enable": "true", "segment.bytes": "1100", "retention.ms": "-1"}


def settings_of(root: Path) -> dict[str, str]:
    return {**SETTINGS, "rsm.config.dir": str(root / "tier")}


def fill(root: Path) -> None:
    """Makes a log of 15 records in each segment, of which the first three are in the tier only."""
    (root / "tier").mkdir()
    with ottla.open(root / "data", settings_of(root)) as log:
        log.create_topic("orders", config=TOPIC)
        for number in range(COUNT):
            log.append("orders", b"%d" % number, timestamp_ms=1000 + number)
        local = log.broker.topics.get("orders").partition(0).log.offsets
        wait_until(lambda: local.highest_remote_offset >= LOCAL_START - 1)
    for path in (root / "data" / "orders-0").iterdir():
        if path.name == INTEGRITY or (path.stem.isdecimal() and int(path.stem) < LOCAL_START):
            path.unlink()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiered")
    fill(root)
    return root


@pytest.fixture
def log(root: Path) -> Iterator[ottla.Log]:
    with ottla.open(root / "data", settings_of(root)) as log:
        yield log


def test_all_is_read_whoever_reads(log: ottla.Log) -> None:
    expected = list(range(COUNT))
    assert log.offsets("orders") == {0: (0, COUNT)}
    assert [int(one.value or b"") for one in log.read("orders")] == expected
    assert [one.offset for one in log.scan("orders")] == expected
    assert log.scan("orders").to_arrow().column("offset").to_pylist() == expected
    tail = log.tail("orders", from_offset=0, timeout_s=0)
    assert [one.offset for one in tail] == expected


def consumed(target: ottla.Log | str) -> list[int]:
    with ottla.Consumer(target) as consumer:
        consumer.assign({("orders", 0): 0})
        return [one.offset for one in consumer.consume(COUNT, PATIENCE_S)]


def test_clients_read_on_both_sides(log: ottla.Log) -> None:
    assert consumed(log) == list(range(COUNT))
    with log.listen("127.0.0.1:0") as listening:
        assert consumed(listening.address) == list(range(COUNT))


def test_a_time_before_the_border_is_found(log: ottla.Log) -> None:
    place = TopicPartition("orders", 0)
    for offset in (0, 17, LOCAL_START, COUNT - 1):
        assert offsets_at_time(log, 1000 + offset)[place] == offset
    assert place not in offsets_at_time(log, 1000 + COUNT)


def test_a_missing_object_is_named_and_not_the_end(root: Path, log: ottla.Log) -> None:
    (path,) = root.glob(f"tier/*/orders-0-*/{15:020}-*.log")
    content = path.read_bytes()
    path.unlink()
    try:
        records = iter(log.read("orders"))
        assert [next(records).offset for _ in range(15)] == list(range(15))
        with pytest.raises(CorruptionError, match=f"{path.name}.*is missing.*offsets 15 to 29"):
            next(records)
    finally:
        path.write_bytes(content)


def test_without_the_settings_of_the_tier_a_consumer_hears_an_error(root: Path) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.error.backoff.ms": 10}
    with ottla.open(root / "data") as log, log.listen("127.0.0.1:0") as listening:
        consumer = kafka.Consumer({"bootstrap.servers": listening.address, **settings})
        consumer.assign([kafka.TopicPartition("orders", 0, kafka.OFFSET_BEGINNING)])
        first = consumer.poll(PATIENCE_S)
        assert first.error().code() == kafka.KafkaError.INVALID_MSG
        consumer.seek(kafka.TopicPartition("orders", 0, LOCAL_START))
        while (found := consumer.poll(PATIENCE_S)).error():
            pass
        assert found.offset() == LOCAL_START
        consumer.close()


def test_without_the_settings_of_the_tier_a_reader_is_told_of_them(root: Path) -> None:
    with ottla.open(root / "data") as log:
        assert next(iter(log.read("orders", from_offset=LOCAL_START))).offset == LOCAL_START
        with pytest.raises(UserError, match="offset 0 is in a remote tier"):
            next(iter(log.read("orders")))
