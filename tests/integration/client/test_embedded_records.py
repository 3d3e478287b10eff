"""Many records into an open log, and out of it as records, columns, and as they come."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.codec.compression import Compression
from ottla.embedded.log import Log
from ottla.record import list_packing
from ottla.record.partitioner import partition_for_key
from tests.support.patience import PATIENCE_S

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create_topic("t", partitions=3)
    log.create_topic("one")


def values(log: Log, topic: str = "one", **wanted: Any) -> list[bytes | None]:
    return [one.value for one in log.scan(topic, **wanted)]


def test_lists_are_appended_as_values_pairs_and_records(log: Log) -> None:
    assert log.append_many("one", [b"a", None, (b"k", b"b")]) == {
        0: OffsetRange(from_offset=0, until_offset=3)
    }
    log.append("one", b"c", b"x", headers=[("h", b"1")], timestamp_ms=5)
    copies = list(log.read("one"))
    log.append_many("one", copies)
    again = list(log.read("one", from_offset=4))
    assert [(one.key, one.value, one.headers, one.timestamp_ms) for one in again] == [
        (one.key, one.value, one.headers, one.timestamp_ms) for one in copies
    ]
    assert copies[0].value == b"a"
    assert copies[2].key == b"k"
    assert copies[3].headers == (("h", b"1"),)


@pytest.mark.parametrize("compression", [Compression.NONE, "lz4"])
def test_keys_choose_the_partitions_of_a_list(log: Log, compression: Compression | str) -> None:
    rows = [(b"%d" % (number % 7), b"%d" % number) for number in range(5_000)]
    written = log.append_many("t", rows, compression=compression)
    assert sum(one.count for one in written.values()) == 5_000
    for record in log.scan("t"):
        assert record.partition == partition_for_key(record.key or b"", 3)
    assert sorted(int(one.value or 0) for one in log.scan("t")) == list(range(5_000))


HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
COLUMNS: dict[str, Any] = {
    "key": pa.array([b"a", None, b"c"], pa.binary()),
    "value": pa.array([b"1", b"2", None], pa.binary()),
    "headers": pa.array([[], [("h", b"x")], [("h", None)]], pa.list_(HEADER)),
    "timestamp": pa.array([3_000_999, 1_000_000, 2_000_000], pa.timestamp("us")),
    "partition": pa.array([2, 2, 2]),
}


@pytest.mark.parametrize(
    "frame",
    [
        pa.table,
        pa.RecordBatch.from_pydict,
        lambda columns: pa.table(columns).to_reader(),
        lambda columns: pa.table(columns).to_pandas(),
        lambda columns: pytest.importorskip("polars").DataFrame(columns),
        lambda columns: pytest.importorskip("polars").LazyFrame(columns),
        dict,
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "lazy polars", "columns"],
)
def test_a_table_comes_back_as_it_went_in(log: Log, frame: Callable[[Any], Any]) -> None:
    log.append_many("t", frame(COLUMNS))
    found = log.scan("t").to_arrow()
    assert found.column("partition").to_pylist() == [2, 2, 2]
    assert found.column("offset").to_pylist() == [0, 1, 2]
    assert found.column("timestamp_ms").to_pylist() == [3_000, 1_000, 2_000]
    assert found.column("key").to_pylist() == [b"a", None, b"c"]
    assert found.column("value").to_pylist() == [b"1", b"2", None]
    headers = found.column("headers").to_pylist()
    assert headers == [[], [{"key": "h", "value": b"x"}], [{"key": "h", "value": None}]]


def test_a_row_without_a_partition_goes_where_its_key_belongs(log: Log) -> None:
    keys = [b"%d" % number for number in range(20)]
    log.append_many("t", {"key": keys, "value": keys, "partition": [None] * 19 + [1]})
    where = {one.value: one.partition for one in log.scan("t")}
    assert where == {key: partition_for_key(key, 3) for key in keys[:-1]} | {keys[-1]: 1}


def test_frames_go_in_and_come_out(log: Log) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    log.append_many("one", pandas.DataFrame({"value": [b"a", b"b"]}))
    log.append_many("one", polars.DataFrame({"key": ["k"], "value": ["c"]}))
    scan = log.scan("one")
    assert list(scan.to_pandas()["value"]) == [b"a", b"b", b"c"]
    assert scan.to_polars()["value"].to_list() == [b"a", b"b", b"c"]
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        assert relation.filter("key is not null").fetchall()[0][4] == b"c"


def test_a_scan_takes_some_partitions_offsets_and_times(log: Log) -> None:
    for number in range(10):
        log.append("t", b"%d" % number, partition=number % 2, timestamp_ms=1_000 * number)
    assert values(log, "t", partitions=[1]) == [b"1", b"3", b"5", b"7", b"9"]
    assert values(log, "t", from_offset={0: 4, 1: 3}) == [b"8", b"7", b"9"]
    assert values(log, "t", from_time_ms=4_000, until_time_ms=7_000) == [b"4", b"6", b"5"]
    assert log.offsets_for_time("t", 7_500) == {0: 4, 1: 4, 2: None}
    assert values(log, "t", from_time_ms=99_000) == []


def test_a_scan_leaves_out_what_was_aborted(log: Log) -> None:
    with ottla.Producer(log, settings={"transactional.id": "x"}) as producer:
        with producer.transaction():
            producer.send("one", b"kept")
        producer.begin_transaction()
        producer.send("one", b"dropped")
        producer.abort_transaction()
    log.append("one", b"last")
    assert values(log) == [b"kept", b"last"]
    assert log.scan("one").to_arrow().column("value").to_pylist() == [b"kept", b"last"]


def test_deleted_records_are_gone(log: Log) -> None:
    log.append_many("one", [b"a", b"b", b"c"])
    assert log.delete_records("one", {0: 2}) == {0: 2}
    assert values(log) == [b"c"]
    with pytest.raises(ApiError):
        log.delete_records("one", {0: 9})


def test_a_tail_waits_for_what_comes(log: Log) -> None:
    log.append("t", b"before", partition=0)
    tail = log.tail("t", timeout_s=PATIENCE_S)

    def append() -> None:
        for number in range(5):
            log.append("t", b"%d" % number, partition=number % 3)

    thread = threading.Thread(target=append)
    thread.start()
    found = {one.value for _, one in zip(range(5), tail, strict=False)}
    thread.join()
    assert found == {b"0", b"1", b"2", b"3", b"4"}
    assert list(log.tail("t", timeout_s=0)) == []
    earlier = log.tail("t", partitions=[0], from_offset={0: 0}, timeout_s=0)
    assert next(iter(earlier)).value == b"before"


def test_a_tail_waits_in_an_event_loop(log: Log) -> None:
    async def deed() -> list[bytes | None]:
        found = []
        asyncio.get_running_loop().call_soon(lambda: log.append("one", b"late"))
        async for record in log.tail("one", from_offset={0: 0}, timeout_s=PATIENCE_S):
            found.append(record.value)
            if len(found) == 1:
                break
        return found

    assert asyncio.run(deed()) == [b"late"]


def test_a_tail_that_is_cancelled_leaves_no_thread_that_waits(log: Log) -> None:
    """The loop's end awaits its threads, and would wait forever."""

    async def deed() -> None:
        tail = aiter(log.tail("one"))
        waiting = asyncio.ensure_future(anext(tail))
        before = threading.active_count()
        while threading.active_count() == before:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(deed())


def test_what_was_scanned_stays_when_its_topic_goes(log: Log) -> None:
    log.append_many("one", [b"a", b"b"])
    scan = iter(log.scan("one"))
    assert next(scan).value == b"a"
    log.delete_topic("one")
    assert next(scan).value == b"b"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (["text"], "not str"),
        ([("a", "b")], "bytes or None"),
        ({"values": [b"a"]}, "columns are key, value"),
        ({"value": [b"a"], "partition": [3]}, "has 3 partitions"),
        ({"value": [b"a"], "partition": ["x"]}, "column partition"),
        ({"value": [b"a"], "headers": [["h"]]}, "column headers"),
        ({"value": [b"a"], "key": []}, "columns of one length"),
        (pa.array([b"a"]), "columns of one length"),
        (5, "a table, a frame or an iterable of records, not int"),
    ],
)
def test_mistakes_are_named(log: Log, records: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        log.append_many("t", records)
    with pytest.raises(UserError, match="no topic nope"):
        log.append_many("nope", [b"a"])
    with pytest.raises(UserError, match="no codec brotli; there are none, gzip, snappy"):
        log.append_many("t", [b"a"], compression="brotli")


def test_threads_append_and_read_together(log: Log, tmp_path: Path) -> None:
    def append(name: int) -> None:
        for number in range(20):
            log.append_many("t", [b"%d-%d" % (name, number)] * 50)

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        for partition in range(3):
            offsets = [one.offset for one in log.scan("t", partitions=[partition])]
            assert offsets == list(range(len(offsets)))
    assert len(values(log, "t")) == 4_000


def test_a_log_in_memory_keeps_nothing() -> None:
    with ottla.open(":memory:") as log:
        log.create_topic("t")
        log.append("t", b"x")
        path = Path(log.broker.directories[0].path)
        assert values(log, "t") == [b"x"]
        assert path.is_dir()
    assert not path.exists()
    with ottla.open(":memory:") as log:
        assert log.topics() == {}
    with pytest.raises(UserError):
        ottla.open(":memory:", {"no.such.setting": 1})


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_batches_of_one_call_share_memory_and_nothing_else(log: Log, compression: str) -> None:
    """Of different sizes, and one record that is larger than the memory for a batch."""
    log.alter_topic("t", {"max.message.bytes": 4 << 20})
    sent = [b"%d " % number * (number * 37 % 2000) for number in range(2000)]
    sent[1000] = b"large " * 300_000
    written = log.append_many("t", sent, partition=1, compression=compression)
    assert written[1].count == len(sent)
    assert [record.value for record in log.read("t", 1)] == sent


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_batches_of_a_list_fill_what_the_topic_allows(
    log: Log, has_keys: bool, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the rows of one partition, however they are packed; some have no key or no value."""
    if not is_compiled:
        monkeypatch.setattr(list_packing, "IS_COMPILED", False)
    log.alter_topic("t", {"max.message.bytes": 1000})
    contents = [None if number % 7 == 0 else b"x" * (number * 37 % 200) for number in range(500)]
    rows = list(zip(contents[::-1], contents, strict=True)) if has_keys else contents
    log.append_many("t", rows, partition=2)
    found = [(record.key, record.value) for record in log.read("t", 2)]
    assert found == (rows if has_keys else [(None, value) for value in contents])
    sizes = [
        batch.size
        for region in log.regions(TopicPartition("t", 2), 0, len(rows))
        for batch in region.checked
    ]
    assert max(sizes) <= 1000
    assert sum(sizes) / len(sizes) > 500
