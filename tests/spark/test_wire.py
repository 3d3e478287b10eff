"""The same records from a broker as from its files."""

import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.client.administration.group_offsets import committed_by
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.loading.auditing.audit import audit
from ottla.record.builder import RecordBatchBuilder
from ottla.record.columns import COLUMNS
from ottla.sources.log_source import LogPartition, LogSource, OffsetsGoneError
from ottla.sources.opening import open_client, open_log, source_options
from ottla.sources.options import parse_options
from ottla.sources.splits import SplitOptions
from ottla.sources.stream.continuity import Position
from ottla.spark.load import load
from ottla.spark.session import LocalSession
from ottla.tables.table import Table
from tests.golden.directories import GOLDEN, copy_of
from tests.support.topics import append, log_rows, table_rows


def opened(source: str, topic: str = "orders", **options: str) -> LogSource:
    return open_log(parse_options({**source_options(source), "subscribe": topic, **options}))


def rows(log: LogSource, partition: int, wanted: OffsetRange) -> list[dict[str, Any]]:
    place = TopicPartition("orders", partition)
    splits = log.splits({place: wanted}, SplitOptions(min_count=3))
    return [row for one in splits for batch in log.read(one, COLUMNS) for row in batch.to_pylist()]


def test_a_broker_says_what_its_files_do(tmp_path: Path) -> None:
    append(tmp_path, {0: 400, 1: 10})
    with ottla.open(tmp_path) as log:
        address = log.listen("127.0.0.1:0").address
        wire, files = opened(address), opened(str(tmp_path))
        assert wire.partitions() == files.partitions()
        wanted = OffsetRange(from_offset=7, until_offset=390)
        found = rows(wire, 0, wanted)
        assert found == rows(files, 0, wanted)
        assert len(found) == 383


def test_a_broker_counts_records_and_rolls_up_batches_as_its_files_do(tmp_path: Path) -> None:
    append(tmp_path, {0: 400})
    place = TopicPartition("orders", 0)
    with ottla.open(tmp_path) as log:
        wire, files = opened(log.listen("127.0.0.1:0").address), opened(str(tmp_path))
        for ends in ((0, 400), (7, 390), (26, 27)):
            wanted = OffsetRange(from_offset=ends[0], until_offset=ends[1])
            assert wire.count_records(place, wanted) == ends[1] - ends[0]
            assert wire.roll_up(place, wanted) == files.roll_up(place, wanted)


@pytest.mark.parametrize(
    ("case", "topic"), [("txn", "txn"), ("compaction-1-after", "cmp"), ("old-formats", "mixed")]
)
def test_what_kafka_wrote_is_counted_and_rolled_up_over_the_wire_as_from_its_files(
    tmp_path: Path, case: str, topic: str
) -> None:
    if not (GOLDEN / case / "logdir").is_dir():
        pytest.skip("the directories written by Kafka are not here")
    copy_of(case, tmp_path / "log")
    files = opened(str(tmp_path / "log"), topic)
    offered = [one for one in files.partitions() if one.start_offset < one.end_offset]
    expected = {one.place: counted(files, one) for one in offered}
    with ottla.open(tmp_path / "log") as log:
        wire = opened(log.listen("127.0.0.1:0").address, topic)
        assert {one.place: counted(wire, one) for one in offered} == expected


def counted(log: LogSource, one: LogPartition) -> tuple[object, object]:
    wanted = OffsetRange(from_offset=one.start_offset, until_offset=one.end_offset)
    return log.count_records(one.place, wanted), log.roll_up(one.place, wanted)


def test_an_audit_over_the_wire_counts_and_matches_batches(
    tmp_path: Path, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 200, 1: 30})
    load(str(tmp_path / "log"), "orders", str(tmp_path / "table"), spark=local_session.spark)
    table = Table(str(tmp_path / "table"))
    with ottla.open(tmp_path / "log") as log:
        wire = opened(log.listen("127.0.0.1:0").address)
        found = audit(table, wire, "orders")
        assert found.differences == []
        assert (found.rows_counted, found.batches_matched) == (230, 10)
        entry = tmp_path / "table" / "_ottla" / "ledger" / f"{0:020d}.json"
        states = json.loads(entry.read_text())
        states["partitions"][1]["batches"]["crc"] ^= 1
        entry.write_text(json.dumps(states))
        found = audit(Table(table.path), wire, "orders")
        assert [(one.kind, one.partition) for one in found.differences] == [("batches", 1)]


def test_a_load_from_a_broker_continues_from_its_files_and_back(
    tmp_path: Path, local_session: LocalSession
) -> None:
    table = str(tmp_path / "table")
    append(tmp_path / "log", {0: 200})
    load(str(tmp_path / "log"), "orders", table, spark=local_session.spark)
    append(tmp_path / "log", {0: 100, 1: 30})
    with ottla.open(tmp_path / "log") as log:
        address = log.listen("127.0.0.1:0").address
        report = load(address, "orders", table, spark=local_session.spark)
        assert (report.commit_id, report.row_count) == (1, 130)
        assert load(address, "orders", table).nothing_new
    assert load(str(tmp_path / "log"), "orders", table).nothing_new
    assert table_rows(local_session.spark, tmp_path / "table") == log_rows(tmp_path / "log")


def test_a_topic_that_the_broker_lacks_is_named(tmp_path: Path) -> None:
    append(tmp_path, {0: 1})
    with ottla.open(tmp_path) as log:
        address = log.listen("127.0.0.1:0").address
        with pytest.raises(UserError, match=f"{address} has no topic sales"):
            opened(address, "sales").partitions()


def test_a_task_refuses_a_topic_that_was_recreated_under_its_hands(tmp_path: Path) -> None:
    append(tmp_path, {0: 50})
    with ottla.open(tmp_path) as log:
        wire = opened(log.listen("127.0.0.1:0").address)
        place = TopicPartition("orders", 0)
        (split,) = wire.splits({place: OffsetRange(from_offset=0, until_offset=50)})
        log.delete_topic("orders")
        log.create_topic("orders")
        log.append_batch("orders", 0, batch_of(60))
        with pytest.raises(UserError, match="orders-0: the topic was deleted, or re-created"):
            list(wire.read(split, COLUMNS))


def test_uncommitted_records_and_single_partitions_are_offered_as_by_the_files(
    tmp_path: Path,
) -> None:
    append(tmp_path, {0: 30, 1: 5})
    with ottla.open(tmp_path) as log:
        sources = [str(tmp_path), log.listen("127.0.0.1:0").address]
        given = {"assign": '{"orders": [1]}', "isolation.level": "read_uncommitted"}
        files, wire = (open_log(parse_options({**source_options(one), **given})) for one in sources)
        assert [one.end_offset for one in wire.partitions()] == [5]
        assert wire.partitions() == files.partitions()
        missing = {**given, "assign": '{"orders": [1, 7]}'}
        for one in sources:
            found = open_log(parse_options({**source_options(one), **missing})).partitions()
            assert [its.partition for its in found] == [1], "Spark's own leaves it out too"


def test_an_offset_is_found_by_its_time_as_in_the_files(tmp_path: Path) -> None:
    append(tmp_path, {0: 100})
    place = TopicPartition("orders", 0)
    with ottla.open(tmp_path) as log:
        address = log.listen("127.0.0.1:0").address
        wire, files = opened(address), opened(str(tmp_path))
        for time_ms in (0, 1_700_000_000_042, 1_700_000_000_100):
            found = wire.offsets_for_times({place: time_ms})
            assert found == files.offsets_for_times({place: time_ms})
        assert wire.offsets_for_times({place: 1_700_000_000_042}) == {place: 42}


def test_offsets_that_are_removed_before_they_are_read_are_reported(tmp_path: Path) -> None:
    append(tmp_path, {0: 100})
    place = TopicPartition("orders", 0)
    with ottla.open(tmp_path) as log:
        wire = opened(log.listen("127.0.0.1:0").address)
        (split,) = wire.splits({place: OffsetRange(from_offset=10, until_offset=100)})
        log.broker.admin.delete_records({("orders", 0): 40})
        with pytest.raises(OffsetsGoneError, match="orders-0: offsets 10 to 39 were removed"):
            list(wire.read(split, COLUMNS))


def test_a_topic_that_was_recreated_and_is_shorter_is_reported_as_such(tmp_path: Path) -> None:
    append(tmp_path, {0: 50})
    with ottla.open(tmp_path) as log:
        wire = opened(log.listen("127.0.0.1:0").address)
        place = TopicPartition("orders", 0)
        (split,) = wire.splits({place: OffsetRange(from_offset=20, until_offset=50)})
        log.delete_topic("orders")
        words = "orders-0: the topic was deleted, or re-created, since"
        with pytest.raises(UserError, match=words):
            list(wire.read(split, COLUMNS))
        log.create_topic("orders")
        with pytest.raises(UserError, match=words):
            list(wire.read(split, COLUMNS))


def test_a_position_after_the_end_of_its_epoch_is_known(tmp_path: Path) -> None:
    append(tmp_path, {0: 50})
    place = TopicPartition("orders", 0)
    with ottla.open(tmp_path) as log:
        wire = opened(log.listen("127.0.0.1:0").address)
        (partition, _) = log.broker.topics.get("orders").partitions.values()
        partition.log.epochs.assign(1, 50)
        partition.leader_epoch = 1
        log.append_batch("orders", 0, batch_of(20))
        assert wire.divergence_offset(place, 0, 60) == 50
        assert wire.divergence_offset(place, 0, 50) is None
        assert wire.divergence_offset(place, 1, 60) is None


def test_offsets_are_committed_for_a_group(tmp_path: Path) -> None:
    append(tmp_path, {0: 5, 1: 5})
    with ottla.open(tmp_path) as log:
        given = {**source_options(log.listen("127.0.0.1:0").address), "subscribe": "orders"}
        reached = {
            TopicPartition("orders", 0): Position(offset=3, leader_epoch=0),
            TopicPartition("orders", 1): Position(offset=4),
        }
        open_client(parse_options(given)).commit("spark", reached)
        with SocketConnection(*parse_address(given["kafka.bootstrap.servers"])) as connection:
            found = {one.partition: one.offset for one in committed_by(connection, "spark")}
        assert found == {0: 3, 1: 4}


def batch_of(count: int) -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(None, b"v", number)
    return builder
