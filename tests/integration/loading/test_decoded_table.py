"""Tables of decoded values, parted by time, some records aside, as datasets and audits see them."""

import json
from pathlib import Path

import pyarrow.parquet as pq

import ottla.table
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import FileRole
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError
from tests.integration.loading.test_decoded_load import HOUR_MS, append_values, load_into
from tests.support.auditing import audited

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


def test_the_dataset_has_the_columns_that_directories_are_named_by(tmp_path: Path) -> None:
    append_values(tmp_path / "log", values(60), step_ms=STEP_MS)
    load_into(tmp_path, HOURLY, on_error=OnError.QUARANTINE)
    append_values(tmp_path / "log", [b'{"id": 1, "more": 5}'])
    grown = Decoding(format=ValueFormat.JSON, schema=f"{SCHEMA}, more bigint")
    load_into(tmp_path, LayoutOptions(decoding=grown), on_error=OnError.QUARANTINE)
    found = ottla.table.dataset(str(tmp_path / "table")).to_table().sort_by("offset").to_pylist()
    assert {row["day"] for row in found} == {"2023-11-14", "2023-11-15"}
    assert len({row["hour"] for row in found}) == 3
    assert found[0]["value"]["id"] == 0
    assert found[0]["value"]["more"] is None
    assert found[-1]["value"]["more"] == 5


def test_a_quarantined_record_that_is_a_row_too_is_found(tmp_path: Path) -> None:
    append_values(tmp_path / "log", values(20))
    layout_options = LayoutOptions(decoding=HOURLY.decoding)
    load_into(tmp_path, layout_options, on_error=OnError.QUARANTINE)
    table = Table(str(tmp_path / "table"))
    (aside,) = [file for file in table.current_files() if file.role is FileRole.QUARANTINE]
    place = tmp_path / "table" / aside.path
    with pq.ParquetFile(place) as opened:
        changed = opened.read()
    offsets = changed["offset"].to_pylist()
    index = changed.schema.get_field_index("offset")
    pq.write_table(
        changed.set_column(index, changed.schema.field(index), [[4, *offsets[1:]]]), place
    )
    entry = next((tmp_path / "table" / "_ottla" / "ledger").glob("*.json"))
    fields = json.loads(entry.read_text())
    for file in fields["files"]:
        if file.get("role") == "quarantine":
            file["size"] = place.stat().st_size
            file["first_offset"] = 4
    entry.write_text(json.dumps(fields))
    (found,) = audited(tmp_path).differences
    assert (found.kind, "are duplicated" in found.text) == ("overlap", True)
