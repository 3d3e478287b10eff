"""A table in a store that speaks as Azure's does, from the first load to a reader's query."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.loading.job import LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.maintenance.vacuum import vacuum
from tests.support import azure_store
from tests.support.auditing import audited

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(azure_store.absence() is not None, reason=str(azure_store.absence())),
]


@pytest.fixture
def into(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with azure_store.served() as port:
        for name, value in azure_store.environment_of(port).items():
            monkeypatch.setenv(name, value)
        yield f"{azure_store.new_container(port)}/orders"


def append(path: Path, *numbers: int) -> None:
    with ottla.open(path) as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in numbers:
            log.append("orders", json.dumps({"id": number}).encode())


def test_a_table_in_azure_is_loaded_rerun_compacted_cleaned_audited_and_read(
    tmp_path: Path, into: str
) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = LoadRoute(str(tmp_path / "log"), "orders", into)
    for numbers in ((0, 1, 2), (3, 4)):
        append(tmp_path / "log", *numbers)
        assert not load(load_job(place, LocalEngine())).nothing_new
    assert load(load_job(place, LocalEngine())).nothing_new
    rerun(load_job(place, LocalEngine()), rerun_range("1", "3", "orders"))
    optimize(into, LocalEngine())
    vacuum(into, SystemClock(), retention_ms=0)
    assert audited(tmp_path, table=into).differences == []
    rows = deltalake.DeltaTable(into).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [json.loads(row["value"])["id"] for row in rows] == [0, 1, 2, 3, 4]
