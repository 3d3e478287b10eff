"""One query's reader over the files of a live log, asked as Spark asks it, without a JVM."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.metadata.deciding.topics import TopicGrowth
from ottla.record.builder import RecordBatchBuilder
from ottla.sources.opening import source_options
from ottla.sources.options import parse_options
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing.clock import FakeClock

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from ottla.spark.source import OttlaSource
from ottla.spark.stream import OttlaStreamReader

Offset = dict[str, Any]
Rows = list[tuple[str, int, int]]


def append(log: ottla.Log, topic: str, count: int, *, partition: int = 0, key: str = "") -> None:
    """In batches of ten at the most."""
    for first in range(0, count, 10):
        builder = RecordBatchBuilder()
        for number in range(first, min(first + 10, count)):
            builder.append(key.encode() or b"k%d" % number, b"v" * 40, number)
        log.append_batch(topic, partition, builder)


class Query:
    """What Spark does with a reader: latest offset, partitions, tasks, and its checkpoint.

    The checkpoint is texts; `restarted` makes a new reader that knows only those.
    """

    def __init__(self, source: str, checkpoint: list[str] | None = None, **options: str) -> None:
        self.source = source
        self.options = {**source_options(source), "startingOffsets": "earliest", **options}
        if not {"assign", "subscribePattern"} & set(options):
            self.options.setdefault("subscribe", "orders")
        self.clock = FakeClock()
        parsed = parse_options(self.options)
        self.reader = OttlaStreamReader(parsed, schema(), self.clock)
        self.checkpoint = checkpoint or [json.dumps(self.reader.initialOffset())]

    @property
    def end(self) -> Offset:
        found: Offset = json.loads(self.checkpoint[-1])
        return found

    def restarted(self, *, keep: int | None = None, **options: str) -> "Query":
        """After a stop, or a crash that left the first `keep` offsets in the checkpoint."""
        kept = self.checkpoint[: len(self.checkpoint) if keep is None else keep]
        return Query(self.source, kept, **{**self.options, **options})

    def plan(self) -> bool:
        """Writes the next batch's end to the checkpoint, if there is one."""
        self.clock.advance(1000)
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(self.end, limit))
        if end == self.checkpoint[-1]:
            return False
        self.checkpoint.append(end)
        return True

    def read(self) -> Rows:
        """What the last batch in the checkpoint reads."""
        return [(row["topic"], row["partition"], row["offset"]) for row in self.read_rows()]

    def read_rows(self) -> list[dict[str, Any]]:
        start, end = (json.loads(one) for one in self.checkpoint[-2:])
        return [
            row
            for split in self.reader.partitions(start, end)
            for batch in self.reader.read(split)
            for row in batch.to_pylist()
        ]

    def batch(self) -> Rows | None:
        return self.read() if self.plan() else None

    def drain(self) -> Iterator[Rows]:
        while (rows := self.batch()) is not None:
            yield rows


def schema() -> Any:
    from pyspark.sql.types import (
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
    )

    kinds = {
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "value": BinaryType(),
    }
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ottla.Log]:
    with ottla.open(tmp_path) as opened:
        opened.create_topic("orders", config={"segment.bytes": 1024})
        append(opened, "orders", 50)
        yield opened


@pytest.fixture(params=["files", "wire"])
def source(request: pytest.FixtureRequest, tmp_path: Path, log: ottla.Log) -> str:
    """Where the log is read, as a user writes it."""
    if request.param == "files":
        return str(tmp_path)
    return log.listen("127.0.0.1:0").address


def offsets(rows: Rows | None) -> list[int]:
    assert rows is not None
    return [offset for _, _, offset in rows]


def test_each_batch_takes_what_is_new(source: str, log: ottla.Log) -> None:
    query = Query(source)
    assert offsets(query.batch()) == list(range(50))
    assert query.batch() is None
    append(log, "orders", 3)
    assert offsets(query.batch()) == [50, 51, 52]


def test_a_query_that_starts_at_the_latest_offset_has_an_empty_first_batch(
    tmp_path: Path, log: ottla.Log
) -> None:
    query = Query(str(tmp_path), startingOffsets="latest")
    assert query.batch() == []
    append(log, "orders", 3)
    assert offsets(query.restarted().batch()) == [50, 51, 52]


def test_a_first_batch_that_was_cut_off_begins_again_where_it_began(
    tmp_path: Path, log: ottla.Log
) -> None:
    query = Query(str(tmp_path), startingOffsets='{"orders": {"0": 20}}')
    assert query.plan()
    append(log, "orders", 5)
    again = query.restarted(startingOffsets="latest")
    assert offsets(again.read()) == list(range(20, 50))
    assert offsets(again.batch()) == list(range(50, 55))


def test_a_restarted_query_reads_its_last_batch_again_and_continues(
    tmp_path: Path, log: ottla.Log
) -> None:
    query = Query(str(tmp_path), maxOffsetsPerTrigger="20")
    assert offsets(query.batch()) == list(range(20))
    assert offsets(query.batch()) == list(range(20, 40))
    again = query.restarted(keep=3)
    assert offsets(again.read()) == list(range(20, 40))
    assert [offsets(rows) for rows in again.drain()] == [list(range(40, 50))]


def test_offsets_of_sparks_own_source_are_continued_but_for_a_first_batch_of_its_own(
    source: str,
) -> None:
    ends = [json.dumps({"orders": {"0": end}}) for end in (20, 30)]
    query = Query(source, ends)
    assert offsets(query.read()) == list(range(20, 30))
    assert offsets(query.batch()) == list(range(30, 50))
    # That source keeps where a query began in a file which Spark hands to no other source.
    first = Query(source, [json.dumps(Query(source).reader.initialOffset()), ends[0]])
    with pytest.raises(UserError, match="where its first batch began"):
        first.read()


def test_a_batch_waits_for_enough_offsets_or_long_enough(tmp_path: Path, log: ottla.Log) -> None:
    query = Query(str(tmp_path), minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    assert len(offsets(query.batch())) == 50
    append(log, "orders", 9)
    assert query.batch() is None
    append(log, "orders", 1)
    assert offsets(query.batch()) == list(range(50, 60))
    append(log, "orders", 1)
    assert query.batch() is None
    query.clock.advance(60_000)
    assert offsets(query.batch()) == [60]


def test_available_now_reads_what_was_there_in_limited_batches(
    tmp_path: Path, log: ottla.Log
) -> None:
    query = Query(str(tmp_path), maxOffsetsPerTrigger="30", minOffsetsPerTrigger="25")
    query.reader.prepareForTriggerAvailableNow()
    append(log, "orders", 10)
    assert [len(rows) for rows in query.drain()] == [30, 20]


def test_an_idle_query_asks_the_log_ten_times_a_second(
    tmp_path: Path, log: ottla.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(str(tmp_path))
    query.batch()
    source = query.reader._source()
    asked = []
    ask = source.partitions
    monkeypatch.setattr(
        source, "partitions", lambda **more: asked.append(query.clock.now_ms()) or ask(**more)
    )
    query.clock.advance(1000)
    for _ in range(100):
        query.clock.advance(12)
        query.reader.latestOffset(query.end, query.reader.getDefaultReadLimit())
    assert 10 <= len(asked) <= 13


def test_a_new_partition_is_read_from_its_beginning(source: str, log: ottla.Log) -> None:
    query = Query(source, startingOffsets="latest")
    query.batch()
    log.broker.admin.grow_topic(TopicGrowth(name="orders", partition_count=2))
    append(log, "orders", 4, partition=1)
    assert query.batch() == [("orders", 1, offset) for offset in range(4)]


def test_a_new_topic_that_fits_the_pattern_is_read_from_its_beginning(
    source: str, log: ottla.Log
) -> None:
    query = Query(source, subscribePattern="orders.*", startingOffsets="latest")
    query.batch()
    for name in ("orders-eu", "sales"):
        log.create_topic(name)
        append(log, name, 2)
    assert query.batch() == [("orders-eu", 0, 0), ("orders-eu", 0, 1)]


def test_a_recreated_topic_is_known_by_its_id(
    source: str, log: ottla.Log, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(source)
    query.batch()
    log.delete_topic("orders")
    log.create_topic("orders")
    append(log, "orders", 60)
    with pytest.raises(UserError, match=r"orders-0: offsets from 50 on are lost, the topic was"):
        query.batch()
    allowed = query.restarted(failOnDataLoss="false")
    assert offsets(allowed.batch()) == list(range(60))
    assert (
        "orders-0: offsets from 50 on are lost, the topic was deleted and re-created" in caplog.text
    )


def test_records_that_were_deleted_unread_are_named(
    source: str, log: ottla.Log, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(source, maxOffsetsPerTrigger="7")
    query.batch()
    log.broker.admin.delete_records({("orders", 0): 23})
    remover = "retention or DeleteRecords" if ":" in source else "DeleteRecords"
    words = f"orders-0: offsets 7 to 22 are lost, {remover} removed them"
    with pytest.raises(UserError, match=words):
        query.batch()
    allowed = query.restarted(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert offsets(allowed.batch()) == list(range(23, 30))
    assert caplog.messages == [f"{words}; reading continues at offset 23"]


def test_what_retention_took_is_distinguished_from_what_was_deleted(
    tmp_path: Path, log: ottla.Log
) -> None:
    query = Query(str(tmp_path), maxOffsetsPerTrigger="7")
    query.batch()
    directory = tmp_path / "orders-0"
    bases = sorted(int(file.stem) for file in directory.glob("*.log"))
    log.broker.admin.delete_records({("orders", 0): bases[-1]})
    words = f"orders-0: offsets 7 to {bases[-1] - 1} are lost, retention removed them"
    for base in bases[:-1]:
        (directory / f"{base:020d}.log").unlink(missing_ok=True)
    with pytest.raises(UserError, match=words):
        query.batch()


def test_a_partition_that_is_gone_is_named(source: str, log: ottla.Log) -> None:
    log.create_topic("sales")
    append(log, "sales", 5)
    query = Query(source, subscribe="orders,sales")
    assert len(offsets(query.batch())) == 55
    log.delete_topic("sales")
    append(log, "orders", 2)
    with pytest.raises(UserError, match="sales-0: offsets from 5 on are lost, the partition is"):
        query.batch()
    allowed = query.restarted(failOnDataLoss="false")
    assert allowed.batch() == [("orders", 0, 50), ("orders", 0, 51)]


def cut(path: Path, batch_count: int) -> None:
    """What a leader change with an unclean election leaves of a partition of a closed log."""
    file = path / "orders-0" / f"{0:020d}.log"
    batches = open_for_reading(str(path)).partition("orders", 0).batches.read(0)
    sizes = [batch.size for batch in batches]
    with file.open("r+b") as opened:
        opened.truncate(sum(sizes[:batch_count]))
    (path / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "ottla-boot"):
        (path / name).unlink()  # a leader's log is cut together with them


@pytest.mark.slow
@pytest.mark.parametrize("is_wire", [False, True])
def test_a_log_that_was_cut_is_known_by_its_end_and_then_by_its_epoch(
    tmp_path: Path, is_wire: bool
) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
        append(log, "orders", 50)
        first = Query(str(tmp_path))
        first.batch()
    cut(tmp_path, 3)
    with ottla.open(tmp_path) as log:
        source = log.listen("127.0.0.1:0").address if is_wire else str(tmp_path)
        query = Query(source, first.checkpoint)
        words = "orders-0: offsets 30 to 49 are lost, the log was truncated"
        with pytest.raises(UserError, match=words):
            query.restarted().batch()
        (partition,) = log.broker.topics.get("orders").partitions.values()
        partition.log.epochs.assign(1, 30)
        partition.leader_epoch = 1
        append(log, "orders", 40)
        with pytest.raises(UserError, match=words):
            query.restarted().batch()
        allowed = query.restarted(failOnDataLoss="false")
        assert offsets(allowed.batch()) == list(range(30, 70))
        assert allowed.batch() is None


@pytest.mark.slow
@pytest.mark.parametrize("is_wire", [False, True])
def test_what_compaction_takes_is_no_loss(tmp_path: Path, is_wire: bool) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders", config={"cleanup.policy": "compact", "segment.bytes": 1024})
        append(log, "orders", 60, key="same")
        source = log.listen("127.0.0.1:0").address if is_wire else str(tmp_path)
        query = Query(source, maxOffsetsPerTrigger="7")
        assert offsets(query.batch()) == list(range(7))
        log.compact("orders")
        rest = [offset for rows in query.drain() for offset in offsets(rows)]
    assert rest[-1] == 59
    assert len(rest) < 53


def test_a_task_whose_offsets_are_removed_continues_at_the_logs_start(
    source: str, log: ottla.Log, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(source, failOnDataLoss="false")
    query.plan()
    start, end = (json.loads(one) for one in query.checkpoint)
    (split,) = query.reader.partitions(start, end)
    log.broker.admin.delete_records({("orders", 0): 33})
    found = [row["offset"] for batch in query.reader.read(split) for row in batch.to_pylist()]
    assert found == list(range(33, 50))
    assert "orders-0: offsets 0 to 32 are lost" in caplog.text
    with pytest.raises(UserError, match="orders-0: offsets 0 to 32 were removed while"):
        list(Query(source).reader.read(split))


def test_progress_says_the_end_of_the_log(tmp_path: Path, log: ottla.Log) -> None:
    query = Query(str(tmp_path), maxOffsetsPerTrigger="7")
    assert query.reader.reportLatestOffset() is None
    query.batch()
    assert query.reader.reportLatestOffset() == {"orders": {"0": 50}}


def test_a_mistake_ends_the_query_before_its_first_batch(source: str, log: ottla.Log) -> None:
    with pytest.raises(UserError, match=r"no topic sales; (it has orders|create it)"):
        Query(source, subscribe="sales").batch()
    with pytest.raises(UserError, match="leave out option endingOffsets"):
        Query(source, endingOffsets="latest")


def test_a_mistake_is_told_when_spark_asks_for_offsets_and_not_before(source: str) -> None:
    """Spark would tell that it has no reader instead of why."""
    options = {**source_options(source), "subscribe": "orders", "endingOffsets": "latest"}
    reader = OttlaSource(options).streamReader(schema())
    for ask in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, reader.getDefaultReadLimit()),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(UserError, match="leave out option endingOffsets"):
            ask()
    reader.stop()
