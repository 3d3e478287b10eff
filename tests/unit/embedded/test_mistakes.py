"""Mistakes in calls of a log are answered with one line that names the fix."""

import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ottla
from ottla.base.extras import install_command
from tests.support.mistakes import Call, check_unknown_argument, open_log, refusal

__all__ = ["open_log"]

NOW = datetime.now(UTC)


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[ottla.FollowedLog]:
    with ottla.open(tmp_path) as writer:
        writer.create_topic("orders", partitions=2)
        writer.append("orders", b"tea", partition=0)
    with ottla.open(tmp_path, read_only=True) as opened:
        yield opened


TOPIC = "a topic's name is a str, not int"
PARTITION = "a partition is a whole number such as 0, not "
PARTITIONS = "partitions are a list of numbers such as [0, 1], not "
OFFSET = "an offset is a whole number, not "
NEGATIVE = "an offset is not negative: -1"
OFFSETS = "offsets are a dictionary of partitions and offsets such as {0: 17}, not "
TIME = "a time is a whole number of milliseconds since 1970, not "
DATETIME = "a time is in milliseconds since 1970: int(time.timestamp() * 1000)"
SECONDS = "a time to wait is a number of seconds, not "
NOT_THERE = "topic orders has 2 partitions; 9 is not one of them"
PLACE = 'a partition is (TOPIC, NUMBER), such as ("orders", 0)'

READS: list[tuple[Call, str]] = [
    (lambda log: log.read(5), TOPIC),
    (lambda log: log.read(["orders"]), "a topic's name is a str, not list"),
    (lambda log: log.read("orders", "0"), PARTITION + "'0'"),
    (lambda log: log.read("orders", 1.5), PARTITION + "1.5"),
    (lambda log: log.read("orders", 9), NOT_THERE),
    (lambda log: log.read("orders", from_offset="0"), OFFSET + "str"),
    (lambda log: log.read("orders", from_offset=-1), NEGATIVE),
    (lambda log: log.read("orders", from_offset=None), OFFSET + "NoneType"),
    (lambda log: log.read("orders", until=NOW), OFFSET + "datetime"),
    (lambda log: log.read("order"), "there is no topic order; did you mean orders?"),
    (lambda log: log.scan(5), TOPIC),
    (lambda log: log.scan("orders", partitions=0), PARTITIONS + "0"),
    (lambda log: log.scan("orders", partitions="0"), PARTITIONS + "'0'"),
    (lambda log: log.scan("orders", partitions=["0"]), PARTITION + "'0'"),
    (lambda log: log.scan("orders", partitions=[9]), NOT_THERE),
    (lambda log: log.scan("orders", from_offset="0"), OFFSET + "str"),
    (lambda log: log.scan("orders", from_offset=-1), NEGATIVE),
    (lambda log: log.scan("orders", from_offset={"0": 1}), PARTITION + "'0'"),
    (lambda log: log.scan("orders", from_offset={0: "1"}), OFFSET + "str"),
    (lambda log: log.scan("orders", from_offset={9: 1}), "from_offset has partition 9"),
    (lambda log: log.scan("orders", from_time_ms=NOW), DATETIME),
    (lambda log: log.scan("orders", from_time_ms=1.5), TIME + "float"),
    (lambda log: log.scan("orders", until_time_ms="now"), TIME + "str"),
    (lambda log: log.tail(5), TOPIC),
    (lambda log: log.tail("orders", partitions=0), PARTITIONS + "0"),
    (lambda log: log.tail("orders", from_offset="0"), OFFSET + "str"),
    (lambda log: log.tail("orders", from_offset={("orders", 0): 0}), PARTITION),
    (lambda log: log.tail("orders", from_offset={0: -1}), NEGATIVE),
    (lambda log: log.tail("orders", partitions=[1], from_offset={0: 0}), "are read: 1"),
    (lambda log: log.tail("orders", timeout_s="1"), SECONDS + "'1'"),
    (lambda log: log.tail("orders", timeout_s=-1), "a time to wait is not negative: -1"),
    (lambda log: log.tail("orders", timeout_s=timedelta(0)), "timeout.total_seconds()"),
    (lambda log: log.offsets(5), TOPIC),
    (lambda log: log.offsets_for_time(5, 0), TOPIC),
    (lambda log: log.offsets_for_time("orders", NOW), DATETIME),
    (lambda log: log.offsets_for_time("orders", "now"), TIME + "str"),
    (lambda log: log.offsets_for_time("orders", -1), "a time is not negative: -1"),
    (lambda log: log.stable_ends("orders", 0), PARTITIONS + "0"),
    (lambda log: log.wait_for_records("orders", [0], 0), OFFSETS + "[0]"),
    (lambda log: log.wait_for_records("orders", {9: 0}, 0), NOT_THERE),
    (lambda log: log.wait_for_records("orders", {0: 0}, "0"), SECONDS + "'0'"),
    (lambda log: next(log.regions("orders", 0, 5)), PLACE),
]


@pytest.mark.parametrize(("call", "answer"), READS)
def test_a_log_that_is_read_says_how_to_write_what_was_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    assert answer in refusal(call, log)


@pytest.mark.parametrize(("call", "answer"), READS)
def test_a_followed_log_gives_the_same_answers(
    followed: ottla.FollowedLog, call: Call, answer: str
) -> None:
    assert answer in refusal(call, followed)


SETTINGS = "settings are a dictionary of Kafka's names and values, not "
COUNT = "a number of partitions is a whole number from 1 on, not "
BUILDER = "append_batch takes an ottla.RecordBatchBuilder that has records"

CHANGES: list[tuple[Call, str]] = [
    (lambda log: log.create_topic(5), TOPIC),
    (lambda log: log.create_topic("a", partitions="3"), COUNT + "'3'"),
    (lambda log: log.create_topic("a", partitions=0), COUNT + "0"),
    (lambda log: log.create_topic("a", config=[("retention.ms", 1)]), SETTINGS + "list"),
    (lambda log: log.create_topic("a", config={1: 2}), "a setting's name is a str, not 1"),
    (lambda log: log.delete_topic(["orders"]), "a topic's name is a str, not list"),
    (lambda log: log.topic_settings(5), TOPIC),
    (lambda log: log.alter_topic("orders", "retention.ms=1"), SETTINGS + "str"),
    (lambda log: log.create_partitions("orders", "4"), COUNT + "'4'"),
    (lambda log: log.compact(5), TOPIC),
    (lambda log: log.append(5, b"tea"), TOPIC),
    (lambda log: log.append(["orders"], b"tea"), "a topic's name is a str, not list"),
    (lambda log: log.append("orders", b"tea", partition="0"), PARTITION + "'0'"),
    (lambda log: log.append("orders", b"tea", partition=1.0), PARTITION + "1.0"),
    (lambda log: log.append("orders", b"tea", timestamp_ms=NOW), DATETIME),
    (lambda log: log.append("orders", b"tea", timestamp_ms=1.5), TIME + "float"),
    (lambda log: log.append("orders", b"tea", timestamp_ms=1 << 70), "a time has 64 bits"),
    (
        lambda log: log.append("orders", b"tea", headers={"waiter": b"Eva"}),
        "headers are a list of pairs",
    ),
    (lambda log: log.append_many(5, [b"tea"]), TOPIC),
    (lambda log: log.append_many("orders", [b"tea"], partition="0"), PARTITION + "'0'"),
    (lambda log: log.append_many("orders", [b"tea"], partition=1.5), PARTITION + "1.5"),
    (lambda log: log.append_many("orders", [b"tea"], compression=["gzip"]), "there is no codec"),
    (lambda log: log.append_many("orders", b"tea"), "for one, use append"),
    (lambda log: log.append_batch("orders", 0, b"tea"), BUILDER),
    (lambda log: log.append_batch("orders", 0, ottla.RecordBatchBuilder()), BUILDER),
    (lambda log: log.append_built("orders", 0, "tea"), "takes a batch's bytes, not str"),
    (lambda log: log.append_built("orders", 0, 61), "takes a batch's bytes, not int"),
    (lambda log: log.delete_records("orders", 5), OFFSETS + "5"),
    (lambda log: log.delete_records("orders", {"0": 1}), PARTITION + "'0'"),
    (lambda log: log.delete_records("orders", {0: 0.5}), OFFSET + "float"),
    (lambda log: log.delete_records("orders", {0: -2}), "an offset is not negative: -2"),
    (lambda log: log.delete_records("orders", {9: 0}), NOT_THERE),
    (lambda log: log.listen(9092), "an address is HOST:PORT, such as 127.0.0.1:9092, not 9092"),
]


@pytest.mark.parametrize(("call", "answer"), CHANGES)
def test_a_log_that_is_changed_says_how_to_write_what_was_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    assert answer in refusal(call, log)
    assert log.offsets("orders") == {0: (0, 1), 1: (0, 0)}


def test_numbers_of_numpy_are_whole_numbers(log: ottla.Log) -> None:
    zero: Any = np.int64(0)
    assert log.append("orders", b"cake", partition=zero).partition == 0
    assert log.append_many("orders", [b"milk"], partition=zero)[0].until_offset == 3
    assert [one.offset for one in log.read("orders", zero, from_offset=np.int64(1))] == [1, 2]  # type: ignore[arg-type]
    assert log.delete_records("orders", {zero: zero}) == {0: 0}


def test_a_tail_begins_at_one_offset_of_all_partitions(log: ottla.Log) -> None:
    log.append("orders", b"milk", partition=1)
    tail = log.tail("orders", from_offset=0, timeout_s=0)
    assert [record.value for record in tail] == [b"tea", b"milk"]


PATHS: list[tuple[Any, str]] = [
    (5, "a log's path is a str, a Path or a list of them, not 5"),
    (None, "a log's path is a str, a Path or a list of them, not None"),
    (b"data", "a log's path is a str or a Path, not 100"),
    ([5], "a log's path is a str or a Path, not 5"),
    ({"log.dirs": "data"}, "a log's path is a str, a Path or a list of them, not {"),
]


@pytest.mark.parametrize(("path", "answer"), PATHS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_log_is_opened_by_its_path(path: Any, answer: str, read_only: bool) -> None:
    assert answer in refusal(lambda _: ottla.open(path, read_only=read_only), None)  # type: ignore[call-overload]


@pytest.mark.parametrize("settings", [5, "log.segment.bytes=5"])
def test_a_log_is_opened_with_settings_by_name(settings: Any) -> None:
    assert SETTINGS in refusal(lambda _: ottla.open(":memory:", settings), None)


@pytest.mark.parametrize("address", ["localhost:9092", "[::1]:9092", "one:9092,two:9092"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_brokers_address_is_not_made_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, read_only: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = refusal(lambda _: ottla.open(address, read_only=read_only), None)  # type: ignore[call-overload]
    assert "ottla.Consumer, ottla.Producer and ottla.Admin" in answer
    assert f"./{address}" in answer
    assert os.listdir(tmp_path) == []


def test_a_directory_may_be_named_as_a_brokers_address_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ottla.open("./localhost:9092") as log:
        log.create_topic("orders")
    with ottla.open("localhost:9092") as log, ottla.Admin(log) as admin:
        assert admin.list_topics() == ["orders"]
    for target in ("localhost:9092", "./localhost:9092", Path("localhost:9092")):
        with ottla.Admin(target) as admin:
            assert admin.list_topics() == ["orders"]


KEYWORDS: list[tuple[Call, str]] = [
    (lambda log: log.create_topic("a", configs={}), "'configs': did you mean config?"),
    (lambda log: log.create_topic("a", num_partitions=3), "did you mean partitions?"),
    (lambda log: log.tail("orders", timeout=1), "did you mean timeout_s?"),
    (lambda log: log.scan("orders", from_timestamp=1), "did you mean from_time_ms?"),
    (lambda log: log.read("orders", offset=1), "did you mean from_offset?"),
    (lambda log: ottla.open(":memory:", readonly=True), "did you mean read_only?"),  # type: ignore[call-overload]
    (
        lambda log: ottla.open(":memory:", log_segment_bytes=5),  # type: ignore[call-overload]
        'settings={"log.segment.bytes": VALUE}',
    ),
]


@pytest.mark.parametrize(("call", "answer"), KEYWORDS)
def test_an_unknown_argument_is_answered_with_the_one_that_was_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    check_unknown_argument(call, log, answer)


ARROW = f"pyarrow is not installed: {install_command('arrow')}"


@pytest.mark.parametrize(
    ("package", "call", "line"),
    [
        ("pyarrow", lambda log: log.scan("orders").to_arrow(), f"a scan by columns: {ARROW}"),
        ("pyarrow", lambda log: log.scan("orders").to_pandas(), f"a scan by columns: {ARROW}"),
        ("pyarrow", lambda log: list(log.scan("orders").batches()), f"a scan by columns: {ARROW}"),
        (
            "pyarrow",
            lambda log: log.append_many("orders", {"value": [b"tea"]}),
            f"append_many of columns: {ARROW}",
        ),
        (
            "polars",
            lambda log: log.scan("orders").to_polars(),
            "to_polars: polars is not installed: pip install polars",
        ),
        (
            "duckdb",
            lambda log: log.scan("orders").to_duckdb(),
            f"to_duckdb: duckdb is not installed: {install_command('sql')}",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    log: ottla.Log, monkeypatch: pytest.MonkeyPatch, package: str, call: Call, line: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ottla.UserError, match=f"^{re.escape(line)}$"):
        call(log)
