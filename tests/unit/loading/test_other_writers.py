"""Other programs rewrite a table's files and clean up in between, by `OPTIMIZE` and `VACUUM`."""

import json
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.compaction import compact
from ottla.loading.job import LoadJob, LoadOptions, LoadPlace
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.layout import LayoutOptions, Partitioning, PartitionUnit
from ottla.tables.table_directory import TableDirectory
from ottla.tables.vacuum import vacuum
from ottla.tables.values.decoder import Decoding, ValueFormat

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow

LAYOUTS = [
    LayoutOptions(),
    LayoutOptions(is_latest=True),
    LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="id bigint"),
        partitioning=Partitioning(unit=PartitionUnit.HOUR),
    ),
]


class Orders:
    def __init__(self, path: Path, layout: LayoutOptions) -> None:
        self._log, self.table, self._layout = str(path / "log"), str(path / "table"), layout
        self.delta = lambda: deltalake.DeltaTable(self.table)
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=2)

    def job(self) -> LoadJob:
        place = LoadPlace(self._log, "orders", self.table)
        return load_job(place, LocalEngine(), options=LoadOptions(layout=self._layout))

    def load(self, *numbers: int) -> None:
        with ottla.open(self._log) as log:
            for number in numbers:
                value = json.dumps({"id": number}).encode()
                log.append("orders", value, key=b"k%d" % (number % 3), partition=number % 2)
        load(self.job())

    def assert_whole(self) -> None:
        log = open_log(topic_options(self._log, "orders"))
        assert audit(TableDirectory(self.table), log, "orders", compare_all=True).is_equal


@pytest.mark.parametrize("layout", LAYOUTS, ids=["rows", "latest", "by-hour"])
def test_a_table_that_others_optimize_and_vacuum_is_loaded_and_kept_in_order(
    tmp_path: Path, layout: LayoutOptions
) -> None:
    orders = Orders(tmp_path, layout)
    orders.load(0, 1)
    orders.load(2, 3, 4)
    orders.delta().optimize.compact()
    orders.load(5, 6)
    orders.assert_whole()
    orders.delta().optimize.z_order(["offset"])
    rerun(orders.job(), rerun_range("1", None, "orders"))
    orders.assert_whole()
    orders.load(7)
    compact(orders.table, LocalEngine())
    orders.assert_whole()
    orders.delta().optimize.compact()
    orders.delta().vacuum(0, dry_run=False, enforce_retention_duration=False)
    orders.load(8)
    vacuum(orders.table, SystemClock(), kept_ms=0)
    orders.assert_whole()


def test_a_table_with_a_file_of_no_table_is_left_alone(tmp_path: Path) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0)
    Path(orders.table, "notes.txt").write_bytes(b"mine")
    with pytest.raises(
        UserError, match=r"files that ottla did not load \(notes\.txt\); move them elsewhere"
    ):
        vacuum(orders.table, SystemClock(), kept_ms=0)
