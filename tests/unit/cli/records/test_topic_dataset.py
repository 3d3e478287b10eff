"""What a query of `ottla sql` reads of a topic: no more than it needs, and never less."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import ottla  # noqa: E402
from ottla.base.partitions import OffsetRange, TopicPartition  # noqa: E402
from ottla.cli.records.arrow_export import open_range, open_source  # noqa: E402
from ottla.cli.records.sql import register_topic  # noqa: E402
from ottla.cli.records.topic_dataset import TopicDataset  # noqa: E402
from ottla.cli.target import parse_target  # noqa: E402
from ottla.search.positions import FROM_START, Position, PositionKind  # noqa: E402
from ottla.sources.log_source import ANY_TASKS, LogSource, Split  # noqa: E402
from ottla.sources.splits import SplitOptions  # noqa: E402

FIRST_MS = 1_700_000_000_000
COUNT = 1000


class Noting:
    """A source that notes which offsets and columns were asked for, and which rows were taken."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.ranges: dict[int, tuple[int, int]] = {}
        self.columns: set[str] = set()
        self.row_count = 0

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        for place, one in ranges.items():
            self.ranges[place.partition] = (one.from_offset, one.until_offset)
        return self._source.splits(ranges, options)

    def read(self, split: Split, columns: Sequence[str]) -> Iterator[Any]:
        self.columns.update(columns)
        for batch in self._source.read(split, columns):
            self.row_count += batch.num_rows
            yield batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three partitions, in segments of a few hundred records, one of them a second apart."""
    path = tmp_path_factory.mktemp("sql") / "d"
    with ottla.open(path) as log:
        log.create_topic("orders", partitions=3, config={"segment.bytes": "16384"})
        for partition in range(3):
            for number in range(COUNT):
                time_ms = FIRST_MS + (number * 1000 if partition == 0 else 0)
                value = b"%d" % (number % 7)
                log.append("orders", value, partition=partition, timestamp_ms=time_ms)
    return str(path)


def asked(directory: str, query: str) -> tuple[list[Any], Noting]:
    target = parse_target(directory)
    source: Any = Noting(open_source(target, "orders"))
    end = Position(PositionKind.END)
    found = open_range(target, "orders", start=FROM_START, until=end)
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        database.register("orders", TopicDataset(found, lambda: source))
        return database.execute(query).fetchall(), source


def at(seconds: int) -> str:
    return f"make_timestamp({FIRST_MS + seconds * 1000} * 1000)::timestamptz"


@pytest.mark.parametrize(
    ("condition", "count", "ranges"),
    [
        ("partition = 0 and o.offset < 100", 100, {0: (0, 100)}),
        ("partition > 0 and o.offset between 10 and 19", 20, {1: (10, 20), 2: (10, 20)}),
        ("o.offset in (3, 990) and partition = 2", 2, {2: (3, 991)}),
        (
            "(partition = 0 and o.offset >= 995) or (partition = 1 and o.offset = 7)",
            6,
            {0: (995, 1000), 1: (7, 8)},
        ),
        (f"o.timestamp >= {at(990)}", 10, {0: (990, 1000)}),
        (f"o.timestamp > {at(997)} and o.offset < 999", 1, {0: (998, 999)}),
        ("partition = 9", 0, {}),
        ("o.offset >= 1000", 0, {}),
        ("value = '3' and partition = 1 and o.offset < 14", 2, {1: (0, 14)}),
        ("partition <> 1 and o.offset < 3", 6, {0: (0, 3), 2: (0, 3)}),
    ],
)
def test_bounds_on_places_and_times_are_all_that_is_read(
    directory: str, condition: str, count: int, ranges: dict[int, tuple[int, int]]
) -> None:
    found, source = asked(directory, f"select partition from orders o where {condition}")
    assert len(found) == count
    assert source.ranges == ranges


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("o.timestamp is null", 0),
        ("o.timestamp is null or o.offset = 5", 3),
        (f"o.timestamp < {at(5)}", 2005),
        ("o.offset % 500 = 1", 6),
        ("value = '3' or partition = 1", 1000 + 2 * 143),
        ("not (o.offset > 3)", 12),
    ],
)
def test_other_conditions_find_what_they_should(directory: str, condition: str, count: int) -> None:
    found, _ = asked(directory, f"select partition from orders o where {condition}")
    assert len(found) == count


def test_a_limit_stops_reading(directory: str) -> None:
    found, source = asked(directory, "select * from orders limit 10")
    assert len(found) == 10
    assert source.row_count < COUNT


def test_columns_that_no_query_names_are_not_decoded(directory: str) -> None:
    found, source = asked(directory, "select max(o.offset), min(partition) from orders o")
    assert (found, source.columns) == ([(999, 0)], {"offset"})


def test_rows_are_counted_by_their_offsets_alone(directory: str) -> None:
    found, source = asked(directory, "select count(*) from orders")
    assert (found, source.columns) == ([(3 * COUNT,)], {"offset"})


def test_a_topic_may_be_read_twice(directory: str) -> None:
    query = (
        "select count(*) from orders a join orders b on a.offset = b.offset "
        "where a.partition = 0 and b.partition = 1 and b.offset < 5"
    )
    found, _ = asked(directory, query)
    assert found == [(5,)]


def test_times_that_sql_has_no_date_for_are_null(tmp_path: Path) -> None:
    times = [FIRST_MS, FIRST_MS * 1000, 2**63 - 1, -(2**62)]
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("far")
        for one in times:
            log.append("far", b"x", timestamp_ms=one)
    target = parse_target(str(tmp_path / "d"))
    there = open_range(target, "far", start=FROM_START, until=Position(PositionKind.END))
    found = TopicDataset(there, lambda: open_source(target, "far"))
    with duckdb.connect() as database:
        database.register("far", found)
        rows = database.sql('select epoch_ms("timestamp") from far order by "offset"').fetchall()
        since = database.sql("select count(*) from far where timestamp > '2023-01-01'").fetchall()
    assert rows == [(FIRST_MS,), (None,), (None,), (None,)]
    assert since == [(1,)]


@pytest.mark.parametrize(
    ("value_as", "values"),
    [
        ("text", [None, "7", "ä", None]),
        ("json", [None, "7", None, None]),
        ("raw", [None, b"7", "ä".encode(), b"\xff"]),
    ],
)
def test_bytes_are_text_where_they_are_utf_8(
    tmp_path: Path, value_as: str, values: list[str | bytes | None]
) -> None:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t")
        for one in (None, b"7", "ä".encode(), b"\xff"):
            log.append("t", one, key=one)
    with duckdb.connect() as database:
        register_topic(database, parse_target(str(tmp_path / "d")), "t", value_as)
        found = database.sql("select key, value from t order by t.offset").fetchall()
        assert found == list(zip([None, "7", "ä", None], values, strict=True))
        chosen = "select t.offset from t where key = 'ä' or key > '8'"
        assert database.sql(chosen).fetchall() == [(2,)]
        without = "select t.offset from t where key is null order by 1"
        assert database.sql(without).fetchall() == [(0,), (3,)]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of four partitions the first is cut short, the third lost, and the fourth unreadable."""
    path = tmp_path_factory.mktemp("sql") / "d"
    with ottla.open(path) as log:
        log.create_topic("orders", partitions=4)
        for partition in range(4):
            for _ in range(5):
                log.append("orders", b"v", partition=partition)
    (name,) = [one.name for one in (path / "orders-0").glob("*.log")]
    with (path / "orders-0" / name).open("r+b") as file:
        file.truncate(70)
    shutil.rmtree(path / "orders-2")
    (path / "orders-3" / name).unlink()
    (path / "orders-3" / name).mkdir()
    return str(path)


def test_a_query_that_leaves_unreadable_partitions_out_is_answered(damaged: str) -> None:
    for condition in ("partition = 1", "partition in (1, 9)", "partition = 1 and o.offset >= 0"):
        found, _ = asked(damaged, f"select count(*) from orders o where {condition}")
        assert found == [(5,)]


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ("true", "orders-0/"),
        ("partition < 2", "orders-0/"),
        ("o.offset > 4", "orders-0/"),
        ("value = 'none'", "orders-0/"),
        ("partition = 2", "is not there, though"),
        ("partition = 3", "orders-3/"),
    ],
)
def test_a_query_that_may_need_an_unreadable_partition_fails_with_its_fault(
    damaged: str, condition: str, fault: str
) -> None:
    with pytest.raises(duckdb.Error, match=fault):
        asked(damaged, f"select partition from orders o where {condition}")


def test_an_export_of_some_partitions_asks_nothing_of_the_others(damaged: str) -> None:
    bounds = {"start": FROM_START, "until": Position(PositionKind.END)}
    target = parse_target(damaged)
    found = open_range(target, "orders", partitions=[1], **bounds)
    assert sum(one.num_rows for one in found.batches()) == 5
    for partitions in ([], [1, 2]):
        with pytest.raises(ottla.OttlaError):
            list(open_range(target, "orders", partitions=partitions, **bounds).batches())
