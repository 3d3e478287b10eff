"""`ottla.open`: the log in one's own process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.files import OsFileSystem
from ottla.codec.compression import Compression
from ottla.record.partitioner import partition_for_key
from ottla.storage.diagnosis.directory_check import check

INVALID_TIMESTAMP = ErrorCode.INVALID_TIMESTAMP


def test_what_is_appended_is_read_back_also_after_a_restart(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders", partitions=2)
        first = log.append("orders", b"one", key=b"a", headers=[("source", b"test")])
        assert (first.offset, first.topic) == (0, "orders")
        assert first.partition == partition_for_key(b"a", 2)
        log.append("orders", None, key=b"a")
    with ottla.open(tmp_path / "data") as log:
        assert log.topics() == {"orders": 2}
        records = list(log.read("orders", first.partition))
        assert [(one.offset, one.key, one.value) for one in records] == [
            (0, b"a", b"one"),
            (1, b"a", None),
        ]
        assert records[0].headers == (("source", b"test"),)
        assert log.offsets("orders")[first.partition] == (0, 2)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"value": "tea"}, "a value must be bytes or None, not str"),
        ({"value": b"tea", "key": 4}, "a key must be bytes or None, not int"),
        (
            {"value": b"tea", "headers": [("waiter", "Eva")]},
            "the value of header waiter must be bytes or None, not str",
        ),
        (
            {"value": b"tea", "headers": {"waiter": b"Eva"}},
            "headers are a list of pairs such as",
        ),
    ],
)
def test_what_is_not_bytes_is_refused_and_nothing_of_it_appended(
    record: dict[str, Any], said: str
) -> None:
    with ottla.open(":memory:") as log:
        log.create_topic("orders")
        with pytest.raises(UserError, match=said):
            log.append("orders", **record)
        assert log.append("orders", b"tea").offset == 0


def test_keyless_records_spread_over_the_partitions(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t", partitions=3)
        assert {log.append("t", b"x").partition for _ in range(6)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("config", "record", "code"),
    [
        ({"cleanup.policy": "compact"}, {}, ErrorCode.INVALID_RECORD),
        ({"message.timestamp.after.max.ms": 1}, {"timestamp_ms": 1 << 60}, INVALID_TIMESTAMP),
        ({"message.timestamp.before.max.ms": 1}, {"timestamp_ms": 1}, INVALID_TIMESTAMP),
        ({"max.message.bytes": 70}, {}, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_a_topic_refuses_it_refuses_of_a_single_record_too(
    config: dict[str, Any], record: dict[str, Any], code: ErrorCode
) -> None:
    with ottla.open(":memory:") as log:
        log.create_topic("t", config=config)
        with pytest.raises(ApiError) as refused:
            log.append("t", b"a value", **record)
        assert refused.value.code is code
        assert log.offsets("t") == {0: (0, 0)}


def test_a_single_record_takes_the_codec_and_the_time_of_its_topic(tmp_path: Path) -> None:
    config = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    with ottla.open(tmp_path) as log:
        log.create_topic("t", config=config)
        log.append("t", b"v" * 1000, b"k", timestamp_ms=1)
        (record,) = log.read("t")
        assert (record.key, record.value) == (b"k", b"v" * 1000)
        assert record.timestamp_ms > 1
    assert (tmp_path / "t-0" / f"{0:020}.log").stat().st_size < 200
    assert check(OsFileSystem(), str(tmp_path), deep=True).is_sound


def test_a_read_starts_and_ends_where_it_is_told(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.segment.bytes": 1000}) as log:
        log.create_topic("t")
        builder = ottla.RecordBatchBuilder(compression=Compression.ZSTD)
        for number in range(10):
            builder.append(None, b"%d" % number, 1)
        assert log.append_batch("t", 0, builder) == 0
        for number in range(10, 100):
            log.append("t", b"%d" % number)
        offsets = [one.offset for one in log.read("t", from_offset=7, until=93)]
        assert offsets == list(range(7, 93))


def test_settings_reach_the_topics(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"message.max.bytes": 100}) as log:
        log.create_topic("small")
        log.create_topic("large", config={"max.message.bytes": 1000})
        log.append("large", b"x" * 500)
        with pytest.raises(ottla.ApiError, match=r"max\.message\.bytes"):
            log.append("small", b"x" * 500)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda log: log.append("nowhere", b"x"), "no topic nowhere; there is t"),
        (lambda log: log.append("t", b"x", partition=5), "has 1 partition; 5 is not one"),
        (lambda log: list(log.read("t", 9)), "has 1 partition; 9 is not one"),
        (lambda log: log.listen("nonsense"), "HOST:PORT"),
    ],
)
def test_mistakes_are_reported_in_one_line_with_the_fix(
    tmp_path: Path, mistake: object, told: str
) -> None:
    assert callable(mistake)
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        with pytest.raises(ottla.UserError, match=told):
            mistake(log)


def test_a_directory_is_open_once_at_a_time(tmp_path: Path) -> None:
    with (
        ottla.open(tmp_path),
        pytest.raises(ottla.UserError, match="in use by this process; use the open log"),
    ):
        ottla.open(tmp_path)
    with ottla.open(tmp_path) as log:
        assert log.topics() == {}


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ottla.UserError, match=r"no Kafka log \(letter.txt\)"):
        ottla.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_unknown_setting_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    with pytest.raises(ottla.UserError, match=r"did you mean"):
        ottla.open(tmp_path, {"log.segment.byte": 5})
    with pytest.raises(ottla.UserError, match=r"log.segment.bytes=5: at least 14"):
        ottla.open(tmp_path, {"log.segment.bytes": 5})


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = ottla.open(tmp_path)
    log.close()
    log.close()
    with pytest.raises(ottla.UserError, match="closed"):
        log.topics()


def test_partitions_are_recovered_side_by_side_and_in_the_same_order(tmp_path: Path) -> None:
    settings = {"num.recovery.threads.per.data.dir": 3}
    log = ottla.open(tmp_path, settings)
    log.create_topic("t", partitions=8)
    for partition in range(8):
        log.append("t", b"%d" % partition, partition=partition)
    log.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with ottla.open(tmp_path, settings) as again:
        assert [key for directory in again.broker.directories for key in directory.logs] == [
            ("t", partition) for partition in range(8)
        ]
        for partition in range(8):
            assert [one.value for one in again.read("t", partition)] == [b"%d" % partition]


def test_a_read_that_retention_passes_by_continues_where_the_log_then_starts(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        for number in range(4):
            log.append("t", b"%d" % number * 600_000)
        records = log.read("t")
        assert next(records).offset == 0
        log.broker.admin.delete_records({("t", 0): 3})
        # Of a megabyte that was read at once, whole batches would still come.
        assert [one.offset for one in records] == [3]
        records = log.read("t")
        log.broker.admin.delete_records({("t", 0): 4})
        assert list(records) == []


def test_a_read_says_that_its_topic_was_deleted_or_recreated(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        for is_recreated in (False, True):
            log.create_topic("t")
            for number in range(4):
                log.append("t", b"%d" % number * 600_000)
            records = log.read("t")
            next(records)
            log.delete_topic("t")
            if is_recreated:
                log.create_topic("t")
            told = "was created again while it was read" if is_recreated else "there is no topic t"
            with pytest.raises(ottla.UserError, match=told):
                list(records)
        log.append("t", b"the directory is online")


def test_a_log_that_begins_in_the_middle_of_a_batch_is_compacted(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t", config={"cleanup.policy": "compact,delete", "segment.bytes": 200})
        log.append_many("t", [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"c", b"2")])
        log.append("t", bytes(100), key=b"d")
        log.delete_records("t", {0: 2})
        assert log.compact("t")[0].end_offset == 4
        assert [one.value for one in log.read("t")][:-1] == [b"2"]


def test_offsets_of_a_topic_that_was_created_again_stay_when_those_of_the_old_one_go() -> None:
    place = ottla.TopicPartition("orders", 0)
    with ottla.open(":memory:") as log, ottla.Admin(log) as admin:
        for offset in (1, 2):
            log.create_topic("orders")
            admin.alter_group_offsets("billing", {place: offset})
            if offset == 1:
                log.delete_topic("orders")
        log.run_due_jobs()
        assert admin.group_offsets("billing")[place].offset == 2


def test_a_server_beside_a_log_ends_with_its_block(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        with log.listen("127.0.0.1:0") as listening:
            assert listening.is_open
        assert not listening.is_open


@pytest.mark.slow
def test_public_rooms_are_there_without_an_import_of_their_own() -> None:
    code = "import ottla; ottla.aio.Consumer, ottla.testing.LocalBroker, ottla.table.files"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"aio", "table", "testing", "Log"} <= set(dir(ottla))


def test_settings_of_a_topic_are_shown_changed_and_taken_back(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.segment.bytes": 1 << 20}) as log:
        log.create_topic("orders", config={"retention.ms": 60_000})
        assert log.topic_settings("orders")["retention.ms"] == "60000"
        log.alter_topic("orders", {"retention.ms": None, "cleanup.policy": "compact"})
    with ottla.open(tmp_path) as log:
        found = log.topic_settings("orders")
        assert (found["retention.ms"], found["cleanup.policy"]) == ("604800000", "compact")
        with pytest.raises(ottla.ApiError, match="retention"):
            log.alter_topic("orders", {"retention.ms": "soon"})
        with pytest.raises(ottla.UserError, match="there is no topic order; did you mean orders"):
            log.alter_topic("order", {"retention.ms": 1})
        log.create_partitions("orders", 3)
        assert log.topics() == {"orders": 3}
        with pytest.raises(ottla.ApiError):
            log.create_partitions("orders", 2)


def test_a_directory_that_cannot_be_locked_is_refused_once_and_not_logged_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(UserError, match="name a directory that can be written"):
        ottla.open(tmp_path)
    assert not caplog.records


@pytest.mark.parametrize("has_keys", [True, False])
def test_many_records_of_all_sizes_come_back_in_order(tmp_path: Path, has_keys: bool) -> None:
    values = [bytes([number % 251]) * (number * 37 % 5000) for number in range(2500)]
    records = [(b"%d" % number, one) for number, one in enumerate(values)] if has_keys else values
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
        log.append_many("orders", [None, b"x" * 1_000_000], partition=0)
        log.append_many("orders", records, partition=0)
        found = list(log.scan("orders"))
    assert [one.value for one in found[2:]] == values
    assert [one.offset for one in found] == list(range(len(values) + 2))
    # Nothing looks at batches of the log's own making when they are appended.
    assert check(OsFileSystem(), str(tmp_path), deep=True).is_sound


def test_a_log_of_more_segments_than_open_files_is_opened_and_scanned(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
        for number in range(40):
            log.append("orders", b"%d" % number)
            log.broker.topics.partition("orders", 0).log.writer.roll(1_700_000_000_000)
    with ottla.open(tmp_path) as log:
        files = log.broker.open_files
        assert files.count < 10
        files.limit = 20
        assert [one.value for one in log.scan("orders")] == [b"%d" % one for one in range(40)]
        assert files.count < 30
