"""A record that cannot be sent is refused by the call it is passed to, and harms no other."""

import asyncio
from array import array
from collections.abc import Callable, Iterator
from ctypes import c_int64
from datetime import UTC, datetime
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ottla
import ottla.aio
from ottla.testing import LocalBroker

HALF = "\ud800"


class Whole(int):
    """Not an `int` itself."""


PAIRS = "headers are a list of pairs"
VALUE = "bytes or None, not"
BUFFERS: list[Any] = [
    np.int64(5),
    np.float32(5),
    np.bool_(True),
    np.datetime64(5, "ms"),
    np.str_("tea"),
    np.frombuffer(b"tea", np.uint8),
    np.array(["tea"], dtype=object),
    array("q", [5]),
    c_int64(5),
    pa.py_buffer(b"tea"),
    mmap(-1, 8),
]
"""Objects that have a buffer, of which they are not the bytes."""
BAD: dict[str, list[tuple[Any, str]]] = {
    "topic": [
        (b"t", "topic"),
        (None, "topic"),
        (HALF, "topic"),
        ([], "topic"),
        (5, "topic"),
        ("", "topic "),
    ],
    "key": [("k", "a key"), (5, "a key"), (True, "a key"), *((one, "a key") for one in BUFFERS)],
    "value": [
        ("k", "a value"),
        ({}, "a value"),
        (1.5, "a value"),
        *((one, "a value") for one in BUFFERS),
    ],
    "partition": [
        ("0", "a partition"),
        (0.0, "a partition"),
        (True, "a partition"),
        (np.float64(0), "a partition"),
        (-1, "partitions; -1"),
        (1 << 70, "is not one of them"),
    ],
    "timestamp_ms": [
        (1.5, "a time is"),
        ("1", "a time is"),
        (1 << 70, "64 bits"),
        (1 << 63, "64 bits"),
        (True, "a time is"),
        (float("nan"), "a time is"),
        (np.float64(5), "a time is"),
        (datetime(2024, 1, 1), "a time is"),
        (datetime(2024, 1, 1, tzinfo=UTC), "a time is"),
        (np.datetime64(5, "ms"), "a time is"),
    ],
    "headers": [
        (5, PAIRS),
        ("ab", PAIRS),
        (b"ab", PAIRS),
        ({"a": b"b"}, PAIRS),
        ({"ab": b"b"}, PAIRS),
        ((one for one in [("a", b"b")]), PAIRS),
        (iter([("a", b"b")]), PAIRS),
        ([("a", "b")], VALUE),
        ([("a", 5)], VALUE),
        ([("é", "b")], VALUE),
        ([(b"a", b"b")], "name is a str, not bytes"),
        ([(None, b"b")], "name is a str, not NoneType"),
        ([("a",)], "a header is a pair"),
        ([("a", b"b", 1)], "a header is a pair"),
        (["ab"], "a header is a pair"),
        ([(HALF, b"b")], "cannot be encoded as UTF-8"),
        *(([("a", one)], VALUE) for one in BUFFERS),
    ],
}
ONLY_SENT: dict[str, list[tuple[Any, str]]] = {
    "key": [(bytearray(b"k"), "a key"), (memoryview(b"abcd")[::2], "a key")],
    "value": [(bytearray(b"k"), "a value")],
    "timestamp_ms": [(-1, "not negative"), (-(1 << 63), "not negative")],
    "headers": [([("a", bytearray(b"b"))], VALUE), ([("a", memoryview(b"b"))], VALUE)],
}
GOOD: dict[str, list[Any]] = {
    "key": [None, b""],
    "partition": [np.int64(0), Whole(0), None],
    "timestamp_ms": [0, np.int64(5), Whole(5), (1 << 63) - 1, None],
    "headers": [None, [["a", b"b"]], (("é", None),), [("a", b"b"), ("a", b"c")]],
}


def calls(kinds: dict[str, list[Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
    for name, found in kinds.items():
        for one in found:
            value, answer = one if isinstance(one, tuple) and kinds is not GOOD else (one, "")
            record = {"topic": "t", "value": b"tea", "key": b"k", "partition": 0, name: value}
            yield record, answer


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open(":memory:") as log:
        log.create_topic("t", partitions=2)
        yield log


def check_refused(call: Callable[..., object], kinds: dict[str, list[Any]]) -> None:
    for record, answer in calls(kinds):
        with pytest.raises(ottla.UserError) as caught:
            call(record.pop("topic"), record.pop("value"), **record)
        assert answer in str(caught.value), record


SETTINGS = [{}, {"transactional.id": "waiter"}, {"enable.idempotence": False}]


@pytest.mark.parametrize("settings", SETTINGS, ids=["idempotent", "transactional", "plain"])
@pytest.mark.parametrize("is_served", [False, True])
def test_a_bad_record_is_refused_and_others_of_its_batch_are_sent(
    log: ottla.Log, is_served: bool, settings: dict[str, Any]
) -> None:
    target = log.listen("127.0.0.1:0").address if is_served else log
    with ottla.Producer(target, settings={"linger.ms": 60_000, **settings}) as producer:
        if settings.get("transactional.id"):
            producer.begin_transaction()
        before = producer.send("t", b"before", partition=0)
        for kinds in (BAD, ONLY_SENT):
            check_refused(producer.send, kinds)
        with pytest.raises(ottla.UserError, match="on_delivery is a function"):
            producer.produce("t", b"tea", on_delivery=5)  # type: ignore[arg-type]
        good = [
            producer.send(record.pop("topic"), record.pop("value"), **record)
            for record, _ in calls(GOOD)
        ]
        headers = [("a", b"b")]
        changed = producer.send("t", b"last", partition=0, headers=headers)
        headers.append(("a", 5))  # type: ignore[arg-type]
        assert producer.flush(10) == 0
        assert [one.exception(0) for one in (before, *good, changed)] == [None] * (len(good) + 2)
        if settings.get("transactional.id"):
            producer.commit_transaction()


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=["idempotent", "transactional", "plain"])
def test_a_producer_in_an_event_loop_refuses_the_same(
    log: ottla.Log, settings: dict[str, Any]
) -> None:
    async def send() -> None:
        asked = {"linger.ms": 60_000, **settings}
        async with ottla.aio.Producer(log, settings=asked) as producer:
            if settings.get("transactional.id"):
                await producer.begin_transaction()
            before = await producer.send("t", b"before", partition=0)
            for kinds in (BAD, ONLY_SENT):
                for record, answer in calls(kinds):
                    with pytest.raises(ottla.UserError) as caught:
                        await producer.send(record.pop("topic"), record.pop("value"), **record)
                    assert answer in str(caught.value), record
            with pytest.raises(ottla.UserError, match="on_delivery is a function"):
                await producer.produce("t", b"tea", on_delivery=5)  # type: ignore[arg-type]
            assert await producer.flush(10) == 0
            await before
            if settings.get("transactional.id"):
                await producer.commit_transaction()

    asyncio.run(send())


@pytest.mark.parametrize("name", ["key", "value"])
def test_a_serializer_that_cannot_write_says_which_field(log: ottla.Log, name: str) -> None:
    for kind, bad in (("str", HALF), ("str", 5), ("json", {1}), ("json", {"a": HALF})):
        with (
            ottla.Producer(log, **{f"{name}_serializer": kind}) as producer,  # type: ignore[arg-type]
            pytest.raises(ottla.UserError, match=f"the {name} cannot be serialized"),
        ):
            producer.send("t", **{name: bad})


def test_an_open_log_refuses_the_same(log: ottla.Log) -> None:
    check_refused(log.append, BAD)
    for record, _ in calls(GOOD):
        log.append(record.pop("topic"), record.pop("value"), **record)
    for kind in (memoryview, bytearray, np.bytes_):
        log.append("t", kind(b"tea"), kind(b"k"), headers=[("a", kind(b"b"))], partition=1)
    log.append("t", memoryview(b"abcd")[::2], partition=1)
    *same, last = log.read("t", 1)
    assert {(one.key, one.value, one.headers) for one in same} == {(b"k", b"tea", (("a", b"b"),))}
    assert last.value == b"ac"


def test_a_builder_of_batches_refuses_the_same_and_stays_as_it_was(log: ottla.Log) -> None:
    builder = ottla.RecordBatchBuilder()
    builder.append(b"k", b"tea", 5)
    good = {"key": b"k", "value": b"tea", "timestamp_ms": 5, "headers": ()}
    for name in ("key", "value", "timestamp_ms", "headers"):
        for bad, answer in BAD[name]:
            with pytest.raises(ottla.UserError) as caught:
                builder.append(**good | {name: bad})
            assert answer in str(caught.value), bad
    log.append_batch("t", 0, builder)
    assert [one.value for one in log.read("t", 0)] == [b"tea"]


def test_a_bad_record_among_many_is_named_and_none_is_appended(log: ottla.Log) -> None:
    def row(**fields: Any) -> Any:
        good = {"key": b"k", "value": b"tea", "timestamp_ms": 5, "headers": ()}
        return SimpleNamespace(**good | fields)

    for name in ("key", "value", "timestamp_ms", "headers"):
        for bad, answer in BAD[name]:
            with pytest.raises(ottla.UserError, match="record 2: ") as caught:
                log.append_many("t", [row(), (b"k", b"v"), row(**{name: bad}), row()])
            assert answer in str(caught.value) or VALUE in str(caught.value)
    with pytest.raises(ottla.UserError, match="too far apart"):
        log.append_many("t", [row(timestamp_ms=-(1 << 63)), row(timestamp_ms=(1 << 63) - 1)])
    for bad in ("tea", 5, (b"k", "v"), (b"k", b"v", b"w"), [b"v"]):
        with pytest.raises(ottla.UserError, match="record 1: "):
            log.append_many("t", [b"tea", bad], partition=0)
    assert log.offsets("t") == {0: (0, 0), 1: (0, 0)}


def test_bad_columns_are_named(log: ottla.Log) -> None:
    for columns, answer in (
        ({"value": [1, 2]}, "column value"),
        ({"value": [b"a"], "timestamp": ["soon"]}, "column timestamp"),
        ({"value": [b"a"], "partition": [7]}, "7 is not one of them"),
        ({"value": [b"a"], "headers": [5]}, "column headers"),
        ({"value": [b"a"], "headers": [[{"key": None, "value": b"x"}]]}, "headers"),
        ({"value": [b"a", b"b"], "timestamp": [-(1 << 63), (1 << 63) - 1]}, "too far apart"),
    ):
        with pytest.raises(ottla.UserError, match=answer):
            log.append_many("t", pa.table(columns))
    assert log.offsets("t") == {0: (0, 0), 1: (0, 0)}


def test_the_broker_of_tests_refuses_the_same(tmp_path: Path) -> None:
    with LocalBroker(tmp_path) as broker:
        broker.create_topic("t", partitions=2)
        kinds = {name: BAD[name] for name in ("partition", "timestamp_ms", "headers")}
        check_refused(broker.produce, kinds)
        with pytest.raises(ottla.UserError, match="cannot be encoded"):
            broker.produce("t", HALF)
