"""Tables of Iceberg in catalogs that are servers: REST, Glue and Hive."""

from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from tests.support.hive_metastore import hive_metastore
from tests.support.stores import REGION, environment_of, new_bucket, served

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import Catalog, load_catalog

from tests.support.rest_catalog import TABLE, rest_catalog

pytestmark = pytest.mark.slow

ADDRESS = "iceberg://lake/shop.orders"


def configure(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Catalog:
    """Tells pyiceberg of the catalog, as a user does by variables."""
    for name, value in properties.items():
        variable = name.upper().replace(".", "__").replace("-", "_")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{variable}", value)
    return load_catalog("lake", **properties)


def append(path: Path) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in range(10):
            log.append("orders", b"%d" % number)


def job_of(path: Path) -> LoadJob:
    return load_job(LoadRoute(str(path / "log"), "orders", ADDRESS), LocalEngine())


def check_table(path: Path, behind: Catalog) -> None:
    """A table is filled, compacted, rid of old files and audited; others read it."""
    for _ in range(2):
        append(path)
        assert load(job_of(path)).row_count == 10
    assert len(optimize(ADDRESS, LocalEngine(), options=OptimizeOptions()).after) == 1
    vacuum(ADDRESS, SystemClock(), retention_ms=0)
    found = behind.load_table(TABLE).scan().to_arrow()
    assert sorted(found["offset"].to_pylist()) == list(range(20))
    source = open_log(topic_options(str(path / "log"), "orders"))
    assert audit(Table(ADDRESS), source, "orders", compare_all=True).is_equal


def of_s3(port: int) -> dict[str, str]:
    return {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key-id": "anybody",
        "s3.secret-access-key": "anything",
        "s3.region": REGION,
    }


def test_a_table_in_a_rest_catalog_and_s3_is_filled_compacted_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        keys = of_s3(port)
        with rest_catalog(tmp_path, new_bucket(port), **keys) as (uri, behind):
            configure(monkeypatch, {**keys, "type": "rest", "uri": uri})
            check_table(tmp_path, behind)


def test_a_table_in_a_glue_catalog_and_s3_is_filled_compacted_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto.glue", reason="moto has no Glue without pyparsing")
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        keys = of_s3(port)
        glue = {
            "type": "glue",
            "warehouse": new_bucket(port),
            "glue.endpoint": keys["s3.endpoint"],
            "glue.region": REGION,
            "glue.access-key-id": keys["s3.access-key-id"],
            "glue.secret-access-key": keys["s3.secret-access-key"],
        }
        catalog = configure(monkeypatch, {**keys, **glue})
        with pytest.raises(UserError, match="create namespace shop"):
            Table(ADDRESS)
        catalog.create_namespace("shop")
        check_table(tmp_path, catalog)


def test_a_table_in_a_hive_catalog_is_filled_compacted_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("thrift", reason="pyiceberg asks Hive through thrift")
    place = tmp_path / "metastore"
    place.mkdir()
    with hive_metastore(place) as uri:
        warehouse = f"file://{tmp_path}/warehouse"
        hive = {"type": "hive", "uri": uri, "warehouse": warehouse}
        # PySpark has the metastore of Hive 2, which changes no table that has times with a zone.
        catalog = configure(monkeypatch, {**hive, "hive.hive2-compatible": "true"})
        catalog.create_namespace("shop")
        check_table(tmp_path, catalog)
