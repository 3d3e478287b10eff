"""Requests about a directory are answered as those to its broker, and changes are refused."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.client.bulk.reading import READ_COMMITTED, FetchFrom, fetch
from ottla.client.connecting.read_only import open_to_read
from ottla.client.connecting.target import open_target
from ottla.embedded.log import Log
from ottla.metadata import log_files
from ottla.storage.reading.read_only_directory import LostPartitionError, ReadOnlyLogDirectory
from tests.support.read_only import reading

START_MS = 1_700_000_000_000
ORDERS = ottla.TopicPartition("orders", 0)
SETTINGS = {"log.initial.task.delay.ms": 3_600_000, "transaction.state.log.num.partitions": 1}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path, SETTINGS) as log:
        log.create_topic("orders", partitions=2, config={"segment.bytes": 1024})
        for number in (3, 1, 2):
            log.append("orders", b"x" * 300, partition=0, timestamp_ms=START_MS + number)
        yield log


CHANGES: list[tuple[str, Callable[[ottla.Admin], object]]] = [
    ("CREATE_TOPICS", lambda admin: admin.create_topic("teas")),
    ("DELETE_TOPICS", lambda admin: admin.delete_topics(["orders"])),
    ("DELETE_RECORDS", lambda admin: admin.delete_records({ORDERS: 1})),
    ("OFFSET_COMMIT", lambda admin: admin.alter_group_offsets("billing", {ORDERS: 1})),
    ("INIT_PRODUCER_ID", lambda admin: admin.fence("payments", timeout_ms=1000)),
    ("ALTER_CLIENT_QUOTAS", lambda admin: admin.alter_quotas({"user": "ana"}, {"x": 1.0})),
    (
        "INCREMENTAL_ALTER_CONFIGS",
        lambda admin: admin.alter_configs(ResourceKind.TOPIC, "orders", {"retention.ms": 1}),
    ),
]


def test_every_change_is_refused_in_one_sentence(log: Log, tmp_path: Path) -> None:
    admin = reading(tmp_path)
    for name, change in CHANGES:
        with pytest.raises(UserError, match=f"is only read, and {name} would change it; open"):
            change(admin)
    with pytest.raises(UserError, match="a directory has no loggers; name a broker that runs"):
        admin.describe_configs(ResourceKind.BROKER_LOGGER, ["1"])


def test_offsets_sizes_and_the_cluster_are_those_of_the_broker(log: Log, tmp_path: Path) -> None:
    with ottla.Admin(log) as admin, ottla.Producer(log, settings={"transactional.id": "t"}) as open:
        open.begin_transaction()
        open.send("orders", b"y", partition=0, timestamp_ms=START_MS + 9).result()
        files = reading(tmp_path)
        for timestamp_ms in (-1, -2, -3, -4, START_MS, START_MS + 2, START_MS + 10):
            for level in (0, READ_COMMITTED):
                ours, theirs = (
                    one.list_offsets([ORDERS], timestamp_ms, isolation_level=level)
                    for one in (files, admin)
                )
                assert ours == theirs, timestamp_ms
        assert files.held_partitions("orders") == admin.held_partitions("orders")
        assert files.cluster_id() == admin.cluster_id()
        assert files.log_directories()[0].sizes == admin.log_directories()[0].sizes
        open.abort_transaction()


def test_records_are_fetched_as_from_the_broker(log: Log, tmp_path: Path) -> None:
    with ottla.Producer(log, settings={"transactional.id": "t"}) as producer:
        producer.begin_transaction()
        producer.send("orders", b"y", partition=0).result()
        producer.abort_transaction()
    wanted = FetchFrom(
        topic="orders",
        partition=0,
        offset=3,
        max_size=10_000,
        max_wait_ms=0,
        isolation_level=READ_COMMITTED,
    )
    with open_to_read([str(tmp_path)]) as files, open_target(log) as broker:
        ours, theirs = (
            one.ask_leader("orders", 0, lambda leader: fetch(leader, wanted))
            for one in (files, broker)
        )
    assert bytes(ours.records) == bytes(theirs.records) != b""
    assert ours.aborted == theirs.aborted != ()


def test_a_log_that_retention_shortens_is_looked_at_again(log: Log, tmp_path: Path) -> None:
    files = reading(tmp_path)
    assert files.timestamp_at(ORDERS, 0) == START_MS + 3
    log.delete_records("orders", {0: 2})
    assert files.timestamp_at(ORDERS, 2) == START_MS + 2
    assert reading(tmp_path).bounds([ORDERS]) == {ORDERS: (2, 3)}


def test_a_partition_without_files_has_no_leader_and_counts_as_empty(
    log: Log, tmp_path: Path
) -> None:
    log.close()
    for path in tmp_path.glob("*-checkpoint"):
        path.unlink()
    shutil.rmtree(tmp_path / "orders-1")
    admin = reading(tmp_path)
    (orders,) = admin.describe_topics(["orders"])
    assert [(one.leader, one.offline) for one in orders.partitions] == [(1, ()), (-1, (1,))]
    (found,) = admin.topic_activity([orders], 0)
    assert [(one.count, one.size is None) for one in found.partitions] == [(3, False), (0, True)]
    assert list(admin.producers_of(orders)) == [ORDERS]


def test_a_list_of_topics_opens_no_log(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_one = ReadOnlyLogDirectory.partition

    def count(self: ReadOnlyLogDirectory, topic: str, partition: int) -> object:
        opened.append(topic)
        return open_one(self, topic, partition)

    monkeypatch.setattr(ReadOnlyLogDirectory, "partition", count)
    log.create_topic("teas", partitions=20)
    assert reading(tmp_path).list_topics() == ["orders", "teas"]
    assert not opened


def test_without_the_brokers_id_the_rest_is_shown_with_a_warning(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.close()
    (tmp_path / "meta.properties").write_bytes(b"\xff\x00")
    admin = reading(tmp_path)
    assert "meta.properties" in caplog.text
    assert "the broker's id is not known, and is shown as 0" in caplog.text
    (orders,) = admin.describe_topics(["orders"])
    assert {one.leader for one in orders.partitions} == {0}
    assert admin.bounds([ORDERS]) == {ORDERS: (0, 3)}
    assert admin.describe_quotas() == []


def test_a_lost_partition_costs_neither_the_topics_id_nor_its_settings(
    log: Log, tmp_path: Path
) -> None:
    log.close()
    (before,) = reading(tmp_path).describe_topics(["orders"])
    shutil.rmtree(tmp_path / "orders-0")
    admin = reading(tmp_path)
    (orders,) = admin.describe_topics(["orders"])
    assert orders.topic_id == before.topic_id is not None
    assert admin.topic_overrides(["orders"])["orders"]["segment.bytes"] == "1024"
    # A topic that was deleted after it was listed is left out, and spoils nothing.
    assert [*admin.topic_overrides(["deleted", "orders"])] == ["orders"]
    with pytest.raises(LostPartitionError, match="put it back"):
        admin.bounds([ORDERS])


def test_the_metadata_log_is_read_once(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    read_one = log_files.read_log

    def counting(*arguments: Any, **more: Any) -> object:
        nonlocal count
        count += 1
        return read_one(*arguments, **more)

    monkeypatch.setattr(log_files, "read_log", counting)
    admin = reading(tmp_path)
    assert admin.topic_settings("orders")["segment.bytes"] == "1024"
    assert admin.bounds([ORDERS]) == {ORDERS: (0, 3)}
    assert count == 1


def test_a_damaged_id_is_named_and_another_partition_or_the_metadata_log_has_it(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.close()
    (before,) = reading(tmp_path).describe_topics(["orders"])
    for index in (0, 1):
        (tmp_path / f"orders-{index}/partition.metadata").write_text("version: 0")
        (orders,) = reading(tmp_path).describe_topics(["orders"])
        assert orders.topic_id == before.topic_id is not None
        assert f"orders-{index}/partition.metadata" in caplog.messages[-1]


def test_sizes_are_those_of_files_also_where_a_log_cannot_be_read(log: Log, tmp_path: Path) -> None:
    log.close()
    (before,) = reading(tmp_path).log_directories()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0")
    (after,) = reading(tmp_path).log_directories()
    assert after.sizes == before.sizes != {}
    shutil.rmtree(tmp_path / "orders-1")
    (after,) = reading(tmp_path).log_directories()
    assert after.sizes.keys() == before.sizes.keys() - {ottla.TopicPartition("orders", 1)}


def test_what_is_not_known_of_settings_is_said_once(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.close()
    shutil.copytree(tmp_path / "orders-0", tmp_path / "copied-0")
    (tmp_path / "copied-0" / "partition.metadata").unlink()
    admin = reading(tmp_path)
    for _ in range(2):
        admin.topics_settings(["copied", "orders"])
    (line,) = caplog.messages
    assert line.startswith("settings of topic copied are not known, since")
