"""Spark over the files of a log that grows, rolls, is cleaned and cut at the same time."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming import StreamingQuery

import ottla
from ottla.base.errors import TaskError
from ottla.loading.job import LoadOptions
from ottla.loading.load import LoadReport
from ottla.sources.log_source import OffsetsGoneError
from ottla.spark.load import load
from ottla.spark.restarts import run_to_end
from ottla.spark.session import LocalSession
from tests.support.auditing import audited
from tests.support.busy_broker import BusyBroker, value_of
from tests.support.topics import table_rows

SECONDS = 2.0
QUIET_SHARE = 8000
"""Appends to each deletion: with fewer, hardly anything is left to be read."""
SEGMENT_BYTES = 1 << 16


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BusyBroker]:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with ottla.open(tmp_path / "log") as log:
        broker = BusyBroker(log, seed, quiet_share=QUIET_SHARE, segment_bytes=SEGMENT_BYTES)
        yield broker
        broker.join()


@pytest.mark.parametrize("topic", ["plain", "compacted"])
def test_a_stream_reads_once_all_that_was_not_removed(
    topic: str,
    local_session: LocalSession,
    broker: BusyBroker,
    tmp_path: Path,
    crash_seconds: float,
) -> None:
    may_lose = "false" if topic == "plain" else "true"
    options = {"path": str(tmp_path / "log"), "subscribe": topic, "failOnDataLoss": may_lose}
    rows = local_session.spark.readStream.format("ottla").options(
        **options, startingOffsets="earliest"
    )
    writer = rows.load().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = run_to_end(
        lambda: writer.start(str(tmp_path / "table")), StreamingQuery.processAllAvailable
    )[-1]
    broker.start(max(SECONDS, crash_seconds))
    broker.join()
    query.processAllAvailable()
    batches = [one["batchId"] for one in query.recentProgress if one["numInputRows"]]
    query.stop()
    table = local_session.spark.read.parquet(str(tmp_path / "table"))
    found = {row.offset: bytes(row.value) for row in table.select("offset", "value").collect()}
    assert table.count() == len(found)
    assert found == {offset: value_of(topic, offset) for offset in found}
    assert len(set(batches)) > 1
    assert found
    if topic == "compacted":
        assert broker.last_of_each_key(topic) <= found.keys()


@pytest.mark.parametrize("topic", ["plain", "compacted"])
def test_loads_leave_out_nothing_that_was_not_removed(
    topic: str,
    local_session: LocalSession,
    broker: BusyBroker,
    tmp_path: Path,
    crash_seconds: float,
) -> None:
    log, table = str(tmp_path / "log"), str(tmp_path / "table")
    options = LoadOptions(min_partitions=4, allow_gaps=topic == "plain")
    reports = [load(log, topic, table, spark=local_session.spark, options=options)]
    broker.start(max(SECONDS, crash_seconds))
    was_over = False
    while not was_over:
        was_over = broker.is_over
        try:
            reports.append(load(log, topic, table, spark=local_session.spark, options=options))
        except (OffsetsGoneError, TaskError) as error:
            # It has begun again by itself, and each time something was deleted under it.
            assert str(error).endswith("were removed while they were read; run it again")  # noqa: PT017
            was_over = False
    rows = table_rows(local_session.spark, tmp_path / "table")
    found = {row[1]: row[3] for row in rows}
    assert len(rows) == len(found) == sum(one.row_count for one in reports)
    assert found == {offset: value_of(topic, offset) for offset in found}
    assert sum(not one.nothing_new for one in reports) > 1
    missing = set(range(len(broker.keys[topic]))) - found.keys()
    if topic == "plain":
        assert missing == {offset for one in reports for offset in lost(one)}
        assert audited(tmp_path, topic=topic).differences == []
    else:
        assert broker.last_of_each_key(topic) <= found.keys()


def lost(report: LoadReport) -> Iterator[int]:
    """The offsets that a load says were gone before it came."""
    for partition in report.partitions:
        if partition.lost is not None:
            yield from range(partition.lost.from_offset, partition.lost.until_offset)
