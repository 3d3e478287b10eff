"""Compares a table's decoded values with the log's bytes, decoded as the ledger describes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogSource, read_ranges
from ottla.tables import (
    HEADER,
    KEY,
    VALUE,
    DataFile,
    DataFiles,
    FileRole,
    RecordDecoder,
    Table,
    TableLayout,
    as_read,
)

if TYPE_CHECKING:
    import pyarrow as pa


def wrong_values(
    table: Table,
    file: DataFile,
    log: LogSource,
    place: TopicPartition,
    wanted: OffsetRange,
    login: RegistryLogin | None = None,
) -> Iterator[tuple[int, str]]:
    """Yields offset and fault of wrong values, at most one for each commit in the file.

    A quarantined record is wrong if it can be decoded. Only offsets within `wanted` are checked.
    """
    import pyarrow.compute as pc

    layout = table.layout()
    rows = _rows(table.files, file) if layout.decodings else None
    if rows is None:
        return
    for commit_id in pc.unique(rows["commit_id"]).to_pylist():
        decoding = layout.record_decoding_of(commit_id)
        part = rows.filter(pc.equal(rows["commit_id"], commit_id))
        if decoding.is_raw or not part.num_rows:
            continue
        stored, there = _beside(part, log, place, wanted)
        decoded = RecordDecoder(decoding, login).decode(_one_batch(there))
        if file.role is FileRole.QUARANTINE:
            found = _sound_one(stored, decoded.faults)
        elif decoded.faults:
            index = min(decoded.faults)
            text = f"its record cannot be decoded any more: {decoded.faults[index]}"
            found = stored["offset"][index].as_py(), text
        else:
            columns = decoded.columns.items()
            if layout.is_flat:
                columns = {**decoded.columns, VALUE: as_read(decoded.columns[VALUE])}.items()
            stored = _without_fields_of_others(stored, dict(columns), layout)
            others = (_other_value(stored, name, column) for name, column in columns)
            found = next((one for one in others if one is not None), None)
        if found is not None:
            yield found


def _one_batch(rows: "pa.Table") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [one.combine_chunks() for one in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _rows(files: DataFiles, file: DataFile) -> "pa.Table | None":
    """Offsets, commits and values, in order of offset; `None` for a file of raw values."""
    import pyarrow as pa

    there = files.columns(file)
    is_quarantined = file.role is FileRole.QUARANTINE
    decoded = [
        name
        for name in (VALUE, KEY, HEADER)
        if not is_quarantined and name in there.names and there.field(name).type != pa.binary()
    ]
    if "commit_id" not in there.names or not (is_quarantined or decoded):
        return None
    return files.rows(file, ["offset", "commit_id", *decoded]).sort_by("offset")


def _beside(
    rows: "pa.Table", log: LogSource, place: TopicPartition, wanted: OffsetRange
) -> tuple["pa.Table", "pa.Table"]:
    """The rows within the range that the log still has, and their records."""
    import pyarrow.compute as pc

    there = read_ranges(log, {place: wanted}, ("offset", "key", "value", "headers"))
    there = there.filter(pc.is_in(there["offset"], rows["offset"].combine_chunks()))
    rows = rows.filter(pc.is_in(rows["offset"], there["offset"].combine_chunks()))
    return rows, there.combine_chunks()


def _sound_one(stored: "pa.Table", faults: Any) -> tuple[int, str] | None:
    for index, offset in enumerate(stored["offset"].to_pylist()):
        if index not in faults:
            return offset, "it is in quarantine, but its value can be decoded"
    return None


def _without_fields_of_others(
    stored: "pa.Table", decoded: Mapping[str, Any], layout: TableLayout
) -> "pa.Table":
    """The rows without fields that another program has added, also as columns of a flat table."""
    import pyarrow as pa
    import pyarrow.types as types

    for name, column in decoded.items():
        index = stored.schema.get_field_index(name)
        kind: Any = stored.schema.types[index] if index >= 0 else pa.null()
        if not types.is_struct(kind) or not types.is_struct(column.type):
            continue
        if {one.name for one in kind} <= {one.name for one in column.type}:
            continue
        # A commit before a column was added has nulls there, which are compared.
        known = {one.name for one in layout.columns.field(name).type}
        values = stored.column(index).combine_chunks()
        left = [one for one in kind if one.name in known]
        parts = [
            part for part, one in zip(values.flatten(), kind, strict=True) if one.name in known
        ]
        kept = pa.StructArray.from_arrays(parts, fields=left, mask=values.is_null())
        is_flat_value = layout.is_flat and name == VALUE
        stored = stored.set_column(index, name, as_read(kept) if is_flat_value else kept)
    return stored


def _other_value(stored: "pa.Table", name: str, decoded: Any) -> tuple[int, str] | None:
    if name not in stored.column_names:
        return None
    ours = stored[name].combine_chunks()
    theirs = decoded.cast(ours.type)
    if ours.equals(theirs):
        return None
    pairs = zip(stored["offset"].to_pylist(), ours.to_pylist(), theirs.to_pylist(), strict=True)
    for offset, mine, its in pairs:
        # Compared as text, because NaN is not equal to itself.
        if repr(mine) != repr(its):
            return offset, f"{name} is {mine!r:.60}, in the log {its!r:.60}"
    return None
