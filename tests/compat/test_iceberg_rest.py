"""Tables in a REST catalog whose requests Iceberg's own library in Java reads, checks and carries
out (`readers/serving.py`): `make table-readers`.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import Catalog, load_catalog

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.partitions import parse_partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.forgetting import ForgetOptions, forget
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError
from tests.compat.test_table_readers import PYTHON, READERS
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="they are not there: make table-readers"),
    pytest.mark.skipif(which("java") is None, reason="Iceberg's library needs Java"),
]

ADDRESS = "iceberg://lake/shop.orders"


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    words = [str(PYTHON), str(READERS / "serving.py"), f"file://{tmp_path}/warehouse"]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{server.stdout.readline().strip()}"}
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    yield load_catalog("lake", **properties)
    server.communicate(timeout=PATIENCE_S)


def job(path: Path, schema: str = "id bigint", at_step: Any = lambda _: None) -> LoadJob:
    layout = LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema=schema),
        partitioning=parse_partitioning("bucket(2, value.id)"),
    )
    options = LoadOptions(layout=layout, on_error=OnError.QUARANTINE)
    route = LoadRoute(str(path / "log"), "orders", ADDRESS)
    return load_job(route, LocalEngine(), at_step, options)


def append(path: Path, *numbers: int) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in numbers:
            log.append("orders", json.dumps({"id": number, "note": "n"}).encode())


def test_icebergs_own_catalog_takes_every_kind_of_commit(tmp_path: Path, catalog: Catalog) -> None:
    append(tmp_path, *range(10))
    catalog.create_namespace("shop")

    def stop(progress: Progress) -> None:
        if progress.step is Step.SYNCED:
            raise Stopped

    def overtake(progress: Progress) -> None:
        if progress.step is Step.SYNCED:
            other = catalog.load_table("shop.orders").transaction()
            other.set_properties({"of": "another program"}).commit_transaction()

    with pytest.raises(Stopped):
        load(job(tmp_path, at_step=stop))
    assert load(job(tmp_path)).row_count == 10
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", b"{")
    append(tmp_path, *range(10, 20))
    assert load(job(tmp_path, "id bigint, note string", overtake)).row_count == 10
    optimize(ADDRESS, LocalEngine())
    condition = ForgetOptions(condition="value.id in (3, 13)", by="clerk")
    assert forget(ADDRESS, LocalEngine(), condition).row_count == 2
    rerun(job(tmp_path, "id bigint, note string"), rerun_range("2", "8", "orders"))
    vacuum(ADDRESS, SystemClock(), retention_ms=0)
    source = open_log(topic_options(str(tmp_path / "log"), "orders"))
    assert audit(Table(ADDRESS), source, "orders", compare_all=True).differences == []
    found = catalog.load_table("shop.orders")
    rows = found.scan().to_arrow()["value"].combine_chunks().field("id").to_pylist()
    assert sorted(rows) == [one for one in range(20) if one not in (3, 13)]
    assert len(found.metadata.snapshots) == 1
    aside = catalog.load_table("shop.orders_quarantine").scan().to_arrow()
    assert aside["value"].to_pylist() == [b"{"]
