"""Tables of Iceberg in a catalog that is asked by REST, with their files in an object store."""

from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.loading.auditing.audit import audit
from ottla.loading.compaction import CompactOptions, compact
from ottla.loading.job import LoadPlace
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.table_directory import TableDirectory
from ottla.tables.vacuum import vacuum
from tests.support.stores import REGION, environment_of, new_bucket, served

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from tests.support.rest_catalog import TABLE, rest_catalog

pytestmark = pytest.mark.slow

ADDRESS = "iceberg://lake/shop.orders"


def test_a_table_in_a_rest_catalog_and_s3_is_filled_compacted_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        keys = {
            "s3.endpoint": f"http://127.0.0.1:{port}",
            "s3.access-key-id": "anybody",
            "s3.secret-access-key": "anything",
            "s3.region": REGION,
        }
        with rest_catalog(tmp_path, new_bucket(port), **keys) as (uri, behind):
            for name, value in {**keys, "type": "rest", "uri": uri}.items():
                variable = name.upper().replace(".", "__").replace("-", "_")
                monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{variable}", value)
            for _ in range(2):
                with ottla.open(tmp_path / "log") as log:
                    if "orders" not in log.topics():
                        log.create_topic("orders")
                    for number in range(10):
                        log.append("orders", b"%d" % number)
                place = LoadPlace(str(tmp_path / "log"), "orders", ADDRESS)
                assert load(load_job(place, LocalEngine())).row_count == 10
            assert len(compact(ADDRESS, LocalEngine(), options=CompactOptions()).after) == 1
            vacuum(ADDRESS, SystemClock(), kept_ms=0)
            found = behind.load_table(TABLE).scan().to_arrow()
            assert sorted(found["offset"].to_pylist()) == list(range(20))
            source = open_log(topic_options(str(tmp_path / "log"), "orders"))
            assert audit(TableDirectory(ADDRESS), source, "orders", compare_all=True).is_equal
