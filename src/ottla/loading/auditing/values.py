"""Decoded values of a table beside the log's bytes, decoded again as the table's ledger says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogSource, read_ranges
from ottla.tables.data_files import read_columns, read_part
from ottla.tables.ledger_entries import DataFile, FileRole
from ottla.tables.store import TableStore
from ottla.tables.table_directory import TableDirectory
from ottla.tables.values.decoder import open_decoder

if TYPE_CHECKING:
    import pyarrow as pa


def wrong_values(
    table: TableDirectory,
    file: DataFile,
    log: LogSource,
    place: TopicPartition,
    wanted: OffsetRange,
    login: RegistryLogin | None = None,
) -> Iterator[tuple[int, str]]:
    """Offset and fault of rows whose value is not the log's, one for each commit in the file.

    In quarantine that is a record that can be decoded. Only offsets within `wanted` are looked at.
    """
    import pyarrow.compute as pc

    layout = table.layout()
    rows = _rows(table.store, file) if layout.decodings else None
    if rows is None:
        return
    for commit_id in pc.unique(rows["commit_id"]).to_pylist():
        decoding = layout.decoding_of(commit_id)
        part = rows.filter(pc.equal(rows["commit_id"], commit_id))
        if decoding is None or not part.num_rows:
            continue
        stored, there = _beside(part, log, place, wanted)
        values, headers = (there[name].combine_chunks() for name in ("value", "headers"))
        decoded = open_decoder(decoding, login).decode(values, headers)
        if file.role is FileRole.QUARANTINE:
            found = _sound_one(stored, decoded.faults)
        else:
            found = _other_value(stored, decoded.rows)
        if found is not None:
            yield found


def _rows(store: TableStore, file: DataFile) -> "pa.Table | None":
    """Offsets, commits and values, in order of offset; `None` for a file of raw values."""
    import pyarrow.types as types

    there = read_columns(store, file)
    is_aside = file.role is FileRole.QUARANTINE
    if "commit_id" not in there.names or not (
        is_aside or types.is_struct(there.field("value").type)
    ):
        return None
    columns = ["offset", "commit_id", *([] if is_aside else ["value"])]
    return read_part(store, file, columns).sort_by("offset")


def _beside(
    rows: "pa.Table", log: LogSource, place: TopicPartition, wanted: OffsetRange
) -> tuple["pa.Table", "pa.Table"]:
    """The rows within the range that the log has too, and what the log has of them."""
    import pyarrow.compute as pc

    there = read_ranges(log, {place: wanted}, ("offset", "value", "headers"))
    there = there.filter(pc.is_in(there["offset"], rows["offset"].combine_chunks()))
    rows = rows.filter(pc.is_in(rows["offset"], there["offset"].combine_chunks()))
    return rows, there.combine_chunks()


def _sound_one(stored: "pa.Table", faults: Any) -> tuple[int, str] | None:
    for index, offset in enumerate(stored["offset"].to_pylist()):
        if index not in faults:
            return offset, "it is in quarantine, but its value can be decoded"
    return None


def _other_value(stored: "pa.Table", decoded: Any) -> tuple[int, str] | None:
    ours = stored["value"].combine_chunks()
    theirs = decoded.cast(ours.type)
    if ours.equals(theirs):
        return None
    pairs = zip(stored["offset"].to_pylist(), ours.to_pylist(), theirs.to_pylist(), strict=True)
    for offset, mine, its in pairs:
        # As text, in which NaN is NaN.
        if repr(mine) != repr(its):
            return offset, f"value is {mine!r:.60}, in the log {its!r:.60}"
    return None
