"""Segment files as a source of rows: what is offered, shared out, read and counted."""

from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import CorruptionError, UserError
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.spark.batch_roll_up import roll_up
from ottla.spark.log_files import LogFiles
from ottla.spark.log_source import source_options
from ottla.spark.manifest import OffsetRange
from ottla.storage.producer_state import AppendOrigin

pytest.importorskip("pyarrow")

SMALL_SEGMENTS = {"segment.bytes": 4096}


def batch_of(first: int, count: int, **fields: Any) -> RecordBatchBuilder:
    builder = RecordBatchBuilder(**fields)
    for number in range(first, first + count):
        builder.append(b"k%d" % number, b"v" * 50, number)
    return builder


def filled(path: Path, *, batch_count: int = 20, partitions: int = 1) -> LogFiles:
    """Batches of ten records, over a few segments."""
    with ottla.open(path) as log:
        log.create_topic("orders", partitions=partitions, config=SMALL_SEGMENTS)
        for partition in range(partitions):
            for number in range(batch_count):
                log.append_batch("orders", partition, batch_of(10 * number, 10))
    return LogFiles(str(path), "orders")


def with_transactions(path: Path) -> LogFiles:
    """0-2 committed, 4-6 aborted, 8-9 without a transaction, 10-12 still open."""
    with ottla.open(path) as log:
        log.create_topic("orders")
        (topic,) = log.broker.topics
        target = topic.partitions[0].log
        for first, sequence, is_commit in ((0, 0, True), (4, 3, False)):
            producing = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
            log.append_batch("orders", 0, batch_of(first, 3, base_sequence=sequence, **producing))
            marker = build_end_transaction_marker(
                EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
                producer_id=7,
                producer_epoch=0,
                timestamp_ms=0,
            )
            target.append_as_leader(
                bytearray(marker), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR
            )
            target.write_out()
        log.append_batch("orders", 0, batch_of(8, 2))
        log.append_batch("orders", 0, batch_of(10, 3, base_sequence=6, **producing))
    return LogFiles(str(path), "orders")


def offsets_read(log: LogFiles, wanted: OffsetRange, min_count: int | None = None) -> list[int]:
    return [
        offset
        for split in log.splits({0: wanted}, min_count)
        for batch in log.read(split, ["offset"])
        for offset in batch.column(0).to_pylist()
    ]


def span(from_offset: int, until_offset: int) -> OffsetRange:
    return OffsetRange(from_offset=from_offset, until_offset=until_offset)


def test_partitions_are_offered_with_their_ids_and_offsets(tmp_path: Path) -> None:
    offered = filled(tmp_path, partitions=2).partitions()
    assert [(one.partition, one.start_offset, one.end_offset) for one in offered] == [
        (0, 0, 200),
        (1, 0, 200),
    ]
    assert offered[0].topic_id is not None
    assert offered[0].topic_id == offered[1].topic_id


@pytest.mark.parametrize("min_count", [None, 1, 7, 1000])
@pytest.mark.parametrize("wanted", [span(0, 200), span(13, 178), span(199, 200), span(50, 50)])
def test_splits_read_every_offset_once(
    tmp_path: Path, wanted: OffsetRange, min_count: int | None
) -> None:
    log = filled(tmp_path)
    assert offsets_read(log, wanted, min_count) == list(
        range(wanted.from_offset, wanted.until_offset)
    )


def test_as_many_tasks_as_asked_for(tmp_path: Path) -> None:
    log = filled(tmp_path, partitions=2)
    splits = log.splits({0: span(0, 200), 1: span(0, 200)}, 8)
    assert [split.partition for split in splits] == [0] * 4 + [1] * 4


def test_only_what_is_committed_is_offered_read_and_counted(tmp_path: Path) -> None:
    log = with_transactions(tmp_path)
    (offered,) = log.partitions()
    assert (offered.start_offset, offered.end_offset) == (0, 10)
    assert offsets_read(log, span(0, 10)) == [0, 1, 2, 8, 9]
    assert offsets_read(log, span(1, 9)) == [1, 2, 8]
    assert log.count_records(0, span(0, 10)) == 5
    assert log.count_records(0, span(1, 9)) == 3


def test_records_are_counted_from_the_middle_of_batches(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert log.count_records(0, span(0, 200)) == 200
    assert log.count_records(0, span(13, 178)) == 165
    assert log.count_records(0, span(14, 15)) == 1


def test_a_roll_up_takes_every_batch_that_a_range_touches_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    whole = log.roll_up(0, span(0, 200))
    assert whole.batch_count == 20
    assert log.roll_up(0, span(30, 50)) == log.roll_up(0, span(35, 41))
    assert log.roll_up(0, span(35, 41)).batch_count == 2
    batches = list(ottla.open_for_reading(str(tmp_path)).partition("orders", 0).batches(0))
    assert whole == roll_up(batches)


def test_a_damaged_batch_is_named_by_its_file(tmp_path: Path) -> None:
    log = filled(tmp_path)
    first = tmp_path / "orders-0" / f"{0:020d}.log"
    damaged = bytearray(first.read_bytes())
    damaged[200] ^= 1
    first.write_bytes(damaged)
    with pytest.raises(CorruptionError, match=r"orders-0/0{20}\.log at byte 0: CRC"):
        offsets_read(log, span(0, 200))


def test_a_topic_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(UserError, match="has no topic sales; it has orders"):
        LogFiles(str(tmp_path), "sales").partitions()


def test_records_that_retention_took_while_they_were_read_are_an_error(tmp_path: Path) -> None:
    log = filled(tmp_path)
    splits = log.splits({0: span(0, 200)}, None)
    (tmp_path / "orders-0" / f"{0:020d}.log").unlink()
    with pytest.raises(UserError, match=r"orders-0: records were removed .* run it again"):
        list(log.read(splits[0], ["offset"]))


def test_a_directory_is_told_from_an_address(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b:1").mkdir()
    assert source_options("b:1") == {"path": str(tmp_path / "b:1")}
    assert source_options("b-1.local:9092,[::1]:9093") == {
        "kafka.bootstrap.servers": "b-1.local:9092,[::1]:9093"
    }


@pytest.mark.parametrize("source", ["nowhere", "host:", "host:port", "", "a:1,b", "s3://a/b"])
def test_what_is_neither_is_refused(source: str) -> None:
    with pytest.raises(UserError, match="neither a directory that exists nor HOST:PORT"):
        source_options(source)
