"""Tables that ottla loads and Spark changes, in any order, with kills in between, as in
`tests/property/test_tables_changed_by_others.py`: `make table-readers`.

Spark writes with Iceberg's own runtime. Of Delta's there is no package.
"""

import random
import subprocess
from pathlib import Path
from shutil import which
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog

from tests.compat.test_table_readers import PYTHON, READERS
from tests.property.test_tables_changed_by_others import Model, Others, check_every_step
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="they are not there: make table-readers"),
    pytest.mark.skipif(which("java") is None, reason="Spark 3.5 needs a Java 17"),
]

TABLE = "lake.shop.orders"
SEED = 0
STEPS = 6
JOBS = ("load", "rerun", "merge", "sort", "vacuum", "forget", *["others"] * 6)


def by_spark(uri: str) -> Others:
    def ask(statement: str) -> None:
        try:
            with urlopen(f"{uri}/sql", statement.encode(), timeout=PATIENCE_S) as answer:
                answer.read()
        except HTTPError as error:
            said = error.read().decode()
            if "already exists" not in said:  # A column is added once.
                pytest.fail(f"{statement}: {said}")

    def change(chance: random.Random) -> None:
        where = f"partition = {chance.randrange(2)} and offset >= {chance.randrange(10)}"
        mode = chance.choice(["copy-on-write", "merge-on-read"])
        modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
        ask(f"alter table {TABLE} set tblproperties ({modes})")
        statement = chance.choice(
            [
                f"delete from {TABLE} where {where}",
                f"update {TABLE} set timestamp = null where {where}",
                f"merge into {TABLE} t using (select 1 as o) s on t.offset = s.o "
                "when matched then delete",
                f"insert overwrite {TABLE} select * from {TABLE}",
                f"insert into {TABLE} select * from {TABLE} where {where}",
                "call lake.system.rewrite_data_files(table => 'shop.orders', "
                "options => map('rewrite-all', 'true'))",
                "call lake.system.rewrite_manifests('shop.orders')",
                f"alter table {TABLE} add column note string",
            ]
        )
        ask(statement)

    return change


def test_an_audit_is_equal_exactly_if_duckdb_finds_what_the_log_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(PYTHON), str(READERS / "serving.py"), f"file://{tmp_path}/warehouse", "--spark"]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{server.stdout.readline().strip()}"}
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    load_catalog("lake", **properties).create_namespace("shop")
    try:
        model = Model(tmp_path, "iceberg://lake/shop.orders", SEED)
        check_every_step(model, by_spark(properties["uri"]), JOBS, STEPS)
    finally:
        server.communicate(timeout=PATIENCE_S)
