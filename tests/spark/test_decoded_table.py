"""Tables of decoded values, parted by time, some records aside: read again, compacted, audited."""

import json
from pathlib import Path
from typing import Any

from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.rerun_plan import rerun_range
from ottla.spark.load import load, optimize, rerun
from ottla.spark.session import LocalSession
from ottla.spark.table import read_table
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import FileRole
from ottla.tables.layout import LayoutOptions
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError
from tests.support.auditing import audited
from tests.support.following import HOUR_MS, append_values

SCHEMA = "id bigint, tags struct<n: string>"
HOURLY = LayoutOptions(
    decoding=Decoding(format=ValueFormat.JSON, schema=SCHEMA),
    partitioning=Partitioning.by_time("hour"),
)
STEP_MS = HOUR_MS // 20


def values(count: int) -> list[bytes | None]:
    """Every seventh one cannot be decoded."""
    return [
        b"broken" if number % 7 == 3 else json.dumps({"id": number, "tags": {"n": "x"}}).encode()
        for number in range(count)
    ]


def rows(path: Path, session: LocalSession) -> list[dict[str, Any]]:
    found = read_table(session.spark, str(path / "table")).toArrow()
    return list(found.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist())


def test_decoded_hourly_tables_are_rerun_and_compacted_with_their_quarantine(
    tmp_path: Path, local_session: LocalSession
) -> None:
    for _ in range(2):
        append_values(tmp_path / "log", values(60), step_ms=STEP_MS)
        load(
            str(tmp_path / "log"),
            "orders",
            str(tmp_path / "table"),
            spark=local_session.spark,
            options=LoadOptions(layout=HOURLY, on_error=OnError.QUARANTINE, min_partitions=4),
        )
    before = rows(tmp_path, local_session)
    assert 0 < len(before) < 120
    path = str(tmp_path / "table")
    report = optimize(path, spark=local_session.spark)
    assert len(report.after) < len(report.before)
    assert {file.role for file in report.after} == {FileRole.ROWS, FileRole.QUARANTINE}
    assert rows(tmp_path, local_session) == before
    assert audited(tmp_path).differences == []

    place = LoadRoute(str(tmp_path / "log"), "orders", path)
    again = rerun(
        place,
        rerun_range("0:25", "0:75", "orders"),
        spark=local_session.spark,
        options=LoadOptions(on_error=OnError.QUARANTINE),
    )
    assert again.partitions[0].record_count == 50
    assert again.partitions[0].copied_count > 0
    optimize(path, spark=local_session.spark)
    found = audited(tmp_path)
    assert found.differences == []
    assert (found.rows, found.quarantined) == (len(before), 120 - len(before))
    kept = [{**row, "commit_id": None} for row in rows(tmp_path, local_session)]
    assert kept == [{**row, "commit_id": None} for row in before]
