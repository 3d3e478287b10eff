"""Segment files as a source of rows: what is offered, shared out, read and counted."""

import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.record.batch_roll_up import roll_up
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.sources.log_files import LogFiles
from ottla.sources.opening import source_options
from ottla.sources.options import Isolation, parse_options
from ottla.sources.splits import SplitOptions
from ottla.sources.topic_choice import TopicChoice
from ottla.storage.files.filenames import INTEGRITY, METADATA_MARK
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.reading.read_only_directory import LostPartitionError, open_for_reading

pytest.importorskip("pyarrow")

PLACE = TopicPartition("orders", 0)
SMALL_SEGMENTS = {"segment.bytes": 4096}


def batch_of(first: int, count: int, **fields: Any) -> RecordBatchBuilder:
    builder = RecordBatchBuilder(**fields)
    for number in range(first, first + count):
        builder.append(b"k%d" % number, b"v" * 50, number)
    return builder


def opened(path: Path, topic: str = "orders", **more: Any) -> LogFiles:
    return LogFiles([str(path)], TopicChoice(subscribed=(topic,)), **more)


def filled(path: Path, *, batch_count: int = 20, partitions: int = 1) -> LogFiles:
    """Batches of ten records, over a few segments."""
    with ottla.open(path) as log:
        log.create_topic("orders", partitions=partitions, config=SMALL_SEGMENTS)
        for partition in range(partitions):
            for number in range(batch_count):
                log.append_batch("orders", partition, batch_of(10 * number, 10))
    return opened(path)


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
            target.writer.append_as_leader(
                bytearray(marker), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR
            )
            target.writer.write_out()
        log.append_batch("orders", 0, batch_of(8, 2))
        log.append_batch("orders", 0, batch_of(10, 3, base_sequence=6, **producing))
    return opened(path)


def offsets_read(log: LogFiles, wanted: OffsetRange, min_count: int | None = None) -> list[int]:
    return [
        offset
        for split in log.splits({PLACE: wanted}, SplitOptions(min_count=min_count))
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
    other = TopicPartition("orders", 1)
    splits = log.splits(dict.fromkeys([PLACE, other], span(0, 200)), SplitOptions(min_count=8))
    assert [split.place for split in splits] == [PLACE] * 4 + [other] * 4


def test_only_what_is_committed_is_offered_read_and_counted(tmp_path: Path) -> None:
    log = with_transactions(tmp_path)
    (offered,) = log.partitions()
    assert (offered.start_offset, offered.end_offset) == (0, 10)
    assert offsets_read(log, span(0, 10)) == [0, 1, 2, 8, 9]
    assert offsets_read(log, span(1, 9)) == [1, 2, 8]
    assert log.count_records(PLACE, span(0, 10)) == 5
    assert log.count_records(PLACE, span(1, 9)) == 3


def test_records_are_counted_from_the_middle_of_batches(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert log.count_records(PLACE, span(0, 200)) == 200
    assert log.count_records(PLACE, span(13, 178)) == 165
    assert log.count_records(PLACE, span(14, 15)) == 1


def test_a_roll_up_takes_every_batch_that_a_range_touches_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    whole = log.roll_up(PLACE, span(0, 200))
    assert whole.batch_count == 20
    assert log.roll_up(PLACE, span(30, 50)) == log.roll_up(PLACE, span(35, 41))
    assert log.roll_up(PLACE, span(35, 41)).batch_count == 2
    batches = list(open_for_reading(str(tmp_path)).partition("orders", 0).batches.read(0))
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
        opened(tmp_path, "sales").partitions()


def test_records_that_retention_took_while_they_were_read_are_an_error(tmp_path: Path) -> None:
    log = filled(tmp_path)
    splits = log.splits({PLACE: span(0, 200)})
    first, second = sorted((tmp_path / "orders-0").glob("*.log"))[:2]
    with ottla.open(tmp_path) as written:
        written.broker.admin.delete_records({("orders", 0): int(second.stem)})
    first.unlink()
    with pytest.raises(UserError, match=r"orders-0: offsets 0 to \d+ were removed"):
        list(log.read(splits[0], ["offset"]))


def test_uncommitted_reads_go_up_to_the_logs_end(tmp_path: Path) -> None:
    with_transactions(tmp_path)
    log = opened(tmp_path, isolation=Isolation.READ_UNCOMMITTED)
    (offered,) = log.partitions()
    assert offered.end_offset == 13
    assert offsets_read(log, span(0, 13)) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12]


def test_a_task_takes_no_more_offsets_than_allowed(tmp_path: Path) -> None:
    splits = filled(tmp_path).splits({PLACE: span(5, 200)}, SplitOptions(max_offsets=60))
    assert [one.until_offset - one.from_offset for one in splits] == [48, 49, 49, 49]


def test_tasks_are_cut_by_the_bytes_that_the_offset_index_says(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders", config={"index.interval.bytes": 100})
        for number in range(20):
            heavy = RecordBatchBuilder()
            heavy.append(None, b"v" * (10_000 if number < 10 else 10), number)
            log.append_batch("orders", 0, heavy)
    splits = opened(tmp_path).splits({PLACE: span(0, 20)}, SplitOptions(min_count=2))
    assert [(one.from_offset, one.until_offset) for one in splits] == [(0, 5), (5, 20)]


def test_directories_of_one_broker_are_read_together(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    with ottla.open(tmp_path / "b") as log:
        log.create_topic("sales")
        log.append("sales", b"v", partition=0)
    choice = TopicChoice(pattern=re.compile("orders|sal.*"))
    files = LogFiles([str(tmp_path / "a"), str(tmp_path / "b")], choice)
    assert [(str(one.place), one.end_offset) for one in files.partitions()] == [
        ("orders-0", 200),
        ("sales-0", 1),
    ]


def test_a_partition_that_is_in_two_directories_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    filled(tmp_path / "b")
    files = LogFiles(
        [str(tmp_path / "a"), str(tmp_path / "b")], TopicChoice(subscribed=("orders",))
    )
    with pytest.raises(UserError, match=r"orders-0 is in .*; name directories of one broker"):
        files.partitions()


def test_a_task_refuses_a_topic_that_was_recreated(tmp_path: Path) -> None:
    log = filled(tmp_path)
    splits = log.splits({PLACE: span(0, 200)})
    with ottla.open(tmp_path) as embedded:
        embedded.delete_topic("orders")
        embedded.create_topic("orders")
    with pytest.raises(UserError, match="orders-0: the topic was re-created since"):
        list(opened(tmp_path).read(splits[0], ["offset"]))


def test_a_task_of_another_process_opens_the_files_itself(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        log.append_many("t", [b"first"])
        source = LogFiles([str(tmp_path)], TopicChoice(subscribed=("t",)))
        assert source.partitions()[0].end_offset == 1
        log.append_many("t", [b"second"])
        elsewhere = pickle.loads(pickle.dumps(source))
        assert elsewhere.partitions()[0].end_offset == 2


def test_of_apache_kafkas_directories_only_what_is_replicated_is_offered(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / METADATA_MARK).unlink()
    for path in tmp_path.glob(f"*/{INTEGRITY}"):  # as Kafka does
        path.unlink()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    checkpoint = tmp_path / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 150\n")
    assert [one.end_offset for one in opened(tmp_path).partitions()] == [150]


@pytest.mark.parametrize("time_ms", [0, 1, 57, 63, 100, 199])
def test_an_offset_is_found_by_its_time(tmp_path: Path, time_ms: int) -> None:
    log = filled(tmp_path)
    assert log.offsets_for_times({PLACE: time_ms}) == {PLACE: time_ms}
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert opened(tmp_path).offsets_for_times({PLACE: time_ms}) == {PLACE: time_ms}
    for index in (tmp_path / "orders-0").glob("*.timeindex"):
        index.unlink()
    assert opened(tmp_path).offsets_for_times({PLACE: time_ms}) == {PLACE: time_ms}


def test_there_is_no_offset_for_a_time_after_all_records(tmp_path: Path) -> None:
    assert filled(tmp_path).offsets_for_times({PLACE: 200}) == {PLACE: None}


def test_the_first_of_several_records_as_late_is_found(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders", config={"segment.bytes": 300, "index.interval.bytes": 0})
        for timestamp_ms in (5, 9, 7, 9, 3, 9, 9, 12):
            builder = RecordBatchBuilder()
            builder.append(None, b"v" * 60, timestamp_ms)
            log.append_batch("orders", 0, builder)
    found = {ms: opened(tmp_path).offsets_for_times({PLACE: ms})[PLACE] for ms in (6, 9, 10, 13)}
    assert found == {6: 1, 9: 1, 10: 7, 13: None}


def test_a_directory_is_distinguished_from_an_address(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b:1").mkdir()
    assert source_options("b:1") == {"path": str(tmp_path / "b:1")}
    assert source_options("b-1.local:9092,[::1]:9093") == {
        "kafka.bootstrap.servers": "b-1.local:9092,[::1]:9093"
    }


@pytest.mark.parametrize("address", ["hdfs://namenode/data", "s3://a/b", "file:/data"])
def test_an_address_is_no_directory_of_a_log(address: str) -> None:
    with pytest.raises(UserError, match=f"^{address}: logs are read from local directories and "):
        source_options(address)
    with pytest.raises(UserError, match=f"^{address}: logs are read from local directories and "):
        parse_options({"path": address, "subscribe": "orders"})


@pytest.mark.parametrize("source", ["nowhere", "host:", "host:port", "", "a:1,b"])
def test_what_is_neither_is_refused(source: str) -> None:
    with pytest.raises(UserError, match="neither a directory that exists nor HOST:PORT"):
        source_options(source)


def test_what_comes_before_damage_is_read_though_small_segments_are_decoded_together(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path)
    segments = sorted((tmp_path / "orders-0").glob("*.log"))
    assert len(segments) > 3
    damaged = bytearray(segments[2].read_bytes())
    damaged[200] ^= 1
    segments[2].write_bytes(damaged)
    (split,) = log.splits({PLACE: span(0, 200)}, SplitOptions(min_count=1))
    offsets: list[int] = []

    def read() -> None:
        for batch in log.read(split, ["offset"]):
            offsets.extend(batch.column("offset").to_pylist())

    with pytest.raises(CorruptionError, match=rf"{segments[2].name} at byte 0: CRC"):
        read()
    assert offsets == list(range(int(segments[2].stem)))


def test_a_roll_up_tells_of_the_batches_that_were_read_and_then_of_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    whole = span(0, log.partitions()[0].end_offset)
    place = log.partitions()[0].place
    expected = log.roll_up(place, whole)
    noting = opened(tmp_path)
    noting.note_batches()
    assert offsets_read(noting, whole, min_count=7) == list(range(whole.count))
    for path in tmp_path.glob("orders-0/*.log"):
        path.rename(path.with_suffix(".away"))
    assert noting.roll_up(place, whole) == expected
    for path in tmp_path.glob("orders-0/*.away"):
        path.rename(path.with_suffix(".log"))
    assert noting.roll_up(place, whole) == expected


def test_assigned_partitions_that_a_topic_lacks_are_left_out_and_lost_ones_are_not(
    tmp_path: Path,
) -> None:
    filled(tmp_path, batch_count=1, partitions=3)

    def assigned(topic: str, *numbers: int) -> list[int]:
        places = tuple(TopicPartition(topic, number) for number in numbers)
        found = LogFiles([str(tmp_path)], TopicChoice(assigned=places)).partitions()
        return [one.place.partition for one in found]

    assert assigned("orders", 9) == []
    assert assigned("orders", 2, 9, 0) == [0, 2]
    with pytest.raises(UserError, match="has no topic nothing; it has orders"):
        assigned("nothing", 0)
    shutil.rmtree(tmp_path / "orders-1")
    assert assigned("orders", 0) == [0]
    for numbers in ((1,), (0, 1)):
        with pytest.raises(LostPartitionError, match="orders-1 is not there"):
            assigned("orders", *numbers)
