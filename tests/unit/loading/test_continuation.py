"""A log that is no longer the one that was loaded, though its offsets fit."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import ottla
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions, LoadPlace
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.layout import LayoutOptions
from ottla.tables.values.decoder import Decoding, ValueFormat

RAW = LayoutOptions()
JSON = LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="n bigint"))


def append(directory: Path, *numbers: int, batch_size: int = 1) -> None:
    with ottla.open(directory) as log:
        for first in range(0, len(numbers), batch_size):
            batch = ottla.RecordBatchBuilder()
            for number in numbers[first : first + batch_size]:
                batch.append(b"k", b'{"n": %d}' % number, 1_700_000_000_000 + number)
            log.append_batch("t", 0, batch)


def loaded(directory: Path, table: Path, layout: LayoutOptions = RAW) -> int:
    place = LoadPlace(source=str(directory), topic="t", into=str(table))
    job = load_job(place, LocalEngine(1), options=LoadOptions(layout=layout))
    return sum(one.row_count for one in load(job).partitions)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [RAW, JSON])
def test_a_log_that_lost_its_end_and_grew_again_is_refused(
    tmp_path: Path, layout: LayoutOptions
) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t")
    append(one, 0, 1)
    shutil.copytree(one, other)
    append(one, 2, 3)
    assert loaded(one, table, layout) == 4
    append(one, 4)
    assert loaded(one, table, layout) == 1
    append(other, 12, 13, 14, 15, 16)
    with pytest.raises(UserError, match="t-0: the log's record at offset 4 is not the one"):
        loaded(other, table, layout)
    append(one, 5)
    assert loaded(one, table, layout) == 1


@pytest.mark.slow
def test_the_same_records_in_other_batches_are_loaded_on(tmp_path: Path) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table"
    with ottla.open(one) as log:
        log.create_topic("t")
    shutil.copytree(one, other)
    append(one, 0, 1, 2, 3)
    append(other, 0, 1, 2, 3, 4, batch_size=2)
    assert loaded(one, table) == 4
    assert loaded(other, table) == 1
