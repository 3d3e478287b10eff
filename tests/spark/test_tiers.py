"""Spark's source and a load on Spark read a log whose first segments lie in a remote tier."""

from pathlib import Path

import pytest

import ottla
import ottla.table
from ottla.cli.main import main
from ottla.mirror.endpoints import Access
from ottla.mirror.mirror import MirrorOptions
from ottla.spark.mirror import mirror_with_spark
from ottla.spark.session import LocalSession
from tests.support.tiered import TieredPlace, uploaded

ALL = [*range(26)]


@pytest.fixture
def place(tmp_path: Path) -> TieredPlace:
    return TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))


def test_the_source_reads_the_tier_and_then_the_files(
    place: TieredPlace, local_session: LocalSession
) -> None:
    options = {"path": str(place.data), "subscribe": "orders", "tier": str(place.tier)}
    rows = local_session.spark.read.format("ottla").options(**options).load()
    found = sorted(
        (row.offset, bytes(row.value)) for row in rows.select("offset", "value").collect()
    )
    assert found == [(offset, b"%d" % offset) for offset in ALL]
    later = {**options, "startingOffsets": '{"orders": {"0": 7}}', "minPartitions": "3"}
    rows = local_session.spark.read.format("ottla").options(**later).load()
    assert sorted(row.offset for row in rows.select("offset").collect()) == ALL[7:]


def test_a_load_on_spark_has_what_lies_in_the_tier(
    place: TieredPlace, local_session: LocalSession, tmp_path: Path
) -> None:
    table = str(tmp_path / "table")
    words = ["load", str(place.data), "orders", "--into", table, "--tier", str(place.tier)]
    with pytest.raises(SystemExit) as end:
        main([*words, "--engine", "spark"])
    assert not end.value.code
    rows = ottla.table.dataset(table).to_table(columns=["offset"])
    assert sorted(rows["offset"].to_pylist()) == ALL


def test_a_mirror_on_spark_has_the_whole_log(
    place: TieredPlace, local_session: LocalSession, tmp_path: Path
) -> None:
    copy = str(tmp_path / "copy")
    options = MirrorOptions(with_groups=False)
    access = Access(tier=place.place)
    report = mirror_with_spark(
        str(place.data), copy, options, access=access, spark=local_session.spark
    )
    assert report.task_count == 1
    with ottla.open(copy, read_only=True) as log:
        assert [one.offset for one in log.read("orders")] == ALL
