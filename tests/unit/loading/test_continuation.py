"""A log that is no longer the one that was loaded, though its offsets fit."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import ottla
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError

Loaded = Callable[..., int]
pytestmark = pytest.mark.slow

RAW = LayoutOptions()
LATEST = LayoutOptions(upsert=Upsert())
JSON = LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="n bigint"))
TEXT_KEYS = LayoutOptions(key=Decoding(format=ValueFormat.TEXT, schema="string"))
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 300, "min.cleanable.dirty.ratio": 0.0}


@pytest.fixture(params=["directory", "broker"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    """Loads from a directory, at rest or served, and returns how many rows are new."""

    def from_source(source: str, table: Path, options: LoadOptions) -> int:
        place = LoadRoute(source=source, topic="t", into=str(table))
        return load(load_job(place, LocalEngine(1), options=options)).row_count

    def from_directory(directory: Path, table: Path, layout: LayoutOptions = RAW) -> int:
        options = LoadOptions(layout=layout, on_error=OnError.QUARANTINE)
        if request.param == "directory":
            return from_source(str(directory), table, options)
        with ottla.open(directory) as log:
            return from_source(log.listen("127.0.0.1:0").address, table, options)

    return from_directory


def append(
    directory: Path,
    *numbers: int,
    batch_size: int = 1,
    time_ms: int | None = None,
    text: bytes = b'{"n": %d}',
) -> None:
    """With a time for each number, if all are not to have the same."""
    with ottla.open(directory) as log:
        for first in range(0, len(numbers), batch_size):
            batch = ottla.RecordBatchBuilder()
            for number in numbers[first : first + batch_size]:
                at_ms = 1_700_000_000_000 + number if time_ms is None else time_ms
                batch.append(b"k%d" % (number % 10), text % number, at_ms)
            log.append_batch("t", 0, batch)


@pytest.mark.parametrize("time_ms", [None, 5])
@pytest.mark.parametrize("layout", [RAW, JSON, LATEST, TEXT_KEYS])
def test_a_log_that_lost_its_end_and_grew_again_is_refused(
    tmp_path: Path, layout: LayoutOptions, time_ms: int | None, loaded: Loaded
) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t")
    append(one, 0, 1, time_ms=time_ms)
    shutil.copytree(one, other)
    append(one, 2, 3, time_ms=time_ms)
    assert loaded(one, table, layout) == 4
    append(one, 4, time_ms=time_ms)
    assert loaded(one, table, layout) == 1
    append(other, 12, 13, 14, 15, 16, time_ms=time_ms)
    with pytest.raises(UserError, match="t-0: the log's record at offset 4 is not the one"):
        loaded(other, table, layout)
    append(one, 5, time_ms=time_ms)
    assert loaded(one, table, layout) == 1


def test_records_set_aside_are_compared_too(tmp_path: Path, loaded: Loaded) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t")
    append(one, 0)
    shutil.copytree(one, other)
    append(one, 1, 2, text=b"broken %d", time_ms=5)
    assert loaded(one, table, JSON) == 1
    append(other, 1, 3, 4, text=b"broken %d", time_ms=5)
    with pytest.raises(UserError, match="t-0: the log's record at offset 2 is not the one"):
        loaded(other, table, JSON)
    append(one, 3, text=b"broken %d")
    assert loaded(one, table, JSON) == 0


@pytest.mark.parametrize("layout", [RAW, JSON, LATEST])
def test_what_compaction_removed_is_not_missed_and_what_it_left_is_compared(
    tmp_path: Path, layout: LayoutOptions, loaded: Loaded
) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t", config=COMPACTED)
    append(one, 0, 1, time_ms=5)
    shutil.copytree(one, other)
    append(one, 2, 3, 4, time_ms=5)
    assert loaded(one, table, layout) == 5
    for directory, added in ((one, (14, 15, 16)), (other, (102, 103, 104, 14, 15, 16))):
        append(directory, *added, *(9, 19, 29, 39, 49), time_ms=5)
        with ottla.open(directory) as log:
            log.compact("t")
            assert 4 not in [record.offset for record in log.read("t", 0)]
    with pytest.raises(UserError, match="t-0: the log's record at offset 3 is not the one"):
        loaded(other, table, layout)
    assert loaded(one, table, layout) > 0


def test_the_same_records_in_other_batches_are_loaded_on(tmp_path: Path, loaded: Loaded) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t")
    shutil.copytree(one, other)
    append(one, 0, 1, 2, 3)
    append(other, 0, 1, 2, 3, 4, batch_size=2)
    assert loaded(one, table) == 4
    assert loaded(other, table) == 1


def test_a_load_goes_on_after_a_record_that_deleted_its_row(tmp_path: Path, loaded: Loaded) -> None:
    upsert = Upsert(key=("value.n",), version="value.n", delete_when="value.n = 2")
    layout = LayoutOptions(decoding=JSON.decoding, upsert=upsert)
    log, table = tmp_path / "log", tmp_path / "table"
    with ottla.open(log) as opened:
        opened.create_topic("t")
    append(log, 0, 1, 2)
    assert loaded(log, table, layout) == 3
    append(log, 3)
    assert loaded(log, table, layout) == 1
