"""Other programs make rules for a table's rows, or give it features, that loads do not heed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.formats.delta_rules import refused_by_library
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.table import Table

deltalake = pytest.importorskip("deltalake")


class Orders:
    def __init__(self, path: Path, table: str) -> None:
        self.log, self.table, self.path = str(path / "log"), table, path
        self.load(0, 1)
        self.load(2)

    def job(self) -> LoadJob:
        return load_job(LoadRoute(self.log, "orders", self.table), LocalEngine())

    def load(self, *numbers: int) -> None:
        with ottla.open(self.log) as log:
            log.create_topic("orders", exist_ok=True)
            for number in numbers:
                log.append("orders", b"%d" % number)
        load(self.job())

    def rerun(self) -> None:
        rerun(self.job(), rerun_range(None, None, "orders"))

    def files(self) -> set[str]:
        return set(Table(self.table).sizes())

    def assert_refused(self, told: str) -> None:
        before = self.files()
        for act in (lambda: self.load(3), self.rerun):
            with pytest.raises(UserError, match=told) as caught:
                act()
            assert "\n" not in str(caught.value)
        assert {one for one in self.files() - before if one.endswith(".parquet")} == set()

    def assert_whole(self) -> None:
        log = open_log(topic_options(self.log, "orders"))
        assert audit(Table(self.table), log, "orders", compare_all=True).is_equal

    def change_delta(self, column: dict[str, Any], features: list[str]) -> None:
        """As another program's ALTER TABLE, of the column `timestamp_type`."""
        log = Path(self.table, "_delta_log")
        entries = sorted(log.glob("*.json"))
        actions = [json.loads(line) for one in entries for line in one.read_text().splitlines()]
        meta = [one["metaData"] for one in actions if "metaData" in one][-1]
        schema = json.loads(meta["schemaString"])
        next(one for one in schema["fields"] if one["name"] == "timestamp_type").update(column)
        meta["schemaString"] = json.dumps(schema)
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
        if features:
            protocol |= {"minWriterVersion": 7, "writerFeatures": features}
        text = "".join(
            f"{json.dumps(one)}\n" for one in ({"protocol": protocol}, {"metaData": meta})
        )
        (log / f"{len(entries):020d}.json").write_text(text)


def constrained(orders: Orders) -> None:
    deltalake.DeltaTable(orders.table).alter.add_constraint({"few": "offset < 9"})


def only_appended(orders: Orders) -> None:
    deltalake.DeltaTable(orders.table).alter.set_table_properties({"delta.appendOnly": "true"})


def changed(column: dict[str, Any], *features: str) -> Callable[[Orders], None]:
    return lambda orders: orders.change_delta(column, [*features])


INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "timestamp_type > 0"}})}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (constrained, r"constraint few \(offset < 9\).*; ALTER TABLE .* DROP CONSTRAINT few, or"),
        (
            changed({"metadata": INVARIANT}),
            "column timestamp_type the invariant timestamp",
        ),
        (changed({"nullable": False}), "column timestamp_type NOT NULL.* DROP NOT NULL, or load"),
        (
            changed({"metadata": {"delta.generationExpression": "7"}}, "generatedColumns"),
            r"timestamp_type .*GENERATED ALWAYS AS \(7\).*; load into another table",
        ),
        (
            changed({}, "rowTracking", "clustering"),
            r"features .*\(clustering, rowTracking\).*DROP",
        ),
    ],
    ids=["constraint", "invariant", "not null", "generated", "features"],
)
def test_rules_of_a_delta_table_that_loads_do_not_heed_are_refused_and_nothing_is_left(
    tmp_path: Path, change: Callable[[Orders], None], told: str
) -> None:
    orders = Orders(tmp_path, str(tmp_path / "table"))
    change(orders)
    orders.assert_refused(told)
    assert deltalake.DeltaTable(orders.table).to_pyarrow_dataset().count_rows() == 3


@pytest.mark.slow
def test_a_constraint_that_came_during_a_load_is_seen_by_its_commit(tmp_path: Path) -> None:
    orders = Orders(tmp_path, str(tmp_path / "table"))
    with ottla.open(orders.log) as log:
        log.append("orders", b"3")
    job = load_job(
        LoadRoute(orders.log, "orders", orders.table),
        LocalEngine(),
        progress=lambda one: constrained(orders) if one.step.name == "SYNCED" else None,
    )
    before = orders.files()
    with pytest.raises(UserError, match="CHECK constraint few"):
        load(job)
    assert all("_delta_log" in one for one in orders.files() - before)
    # What changes no row is made all the same.
    optimize(orders.table, LocalEngine())
    deltalake.DeltaTable(orders.table).alter.drop_constraint("few")
    orders.load(4)
    orders.assert_whole()


@pytest.mark.slow
def test_a_table_that_is_only_appended_to_is_loaded_and_not_read_again(tmp_path: Path) -> None:
    orders = Orders(tmp_path, str(tmp_path / "table"))
    only_appended(orders)
    orders.load(3)
    before = orders.files()
    with pytest.raises(UserError, match=r"'delta\.appendOnly' = 'false'"):
        orders.rerun()
    assert orders.files() == before
    orders.assert_whole()


def test_features_are_named_as_delta_names_them() -> None:
    text = 'Unsupported table features required: [Unknown("fooBar"), ClusteredTable]'
    assert "(clustering, fooBar)" in str(refused_by_library("t", text))
    assert "(fooBar)" in str(refused_by_library("t", "Unsupported: Feature 'fooBar' is not sup"))
    assert refused_by_library("t", "Generic error: no space left") is None
