"""Rows of records: decoded, with the columns of a table but for those that a commit adds."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.record.rows import RowMaker
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.columns.rows import row_columns
from ottla.tables.values.record_decoder import (
    HEADER,
    DecodedRecords,
    RecordDecoder,
    RecordDecoding,
)

if TYPE_CHECKING:
    import pyarrow as pa


class RecordRows(NamedTuple):
    """Rows of all records, also of those with faults, and what was decoded."""

    rows: "pa.RecordBatch"
    decoded: DecodedRecords


class RowBuilder:
    """Makes rows of the records of a topic; created once for each task."""

    def __init__(
        self, topic: str, decoding: RecordDecoding, login: RegistryLogin | None = None
    ) -> None:
        """Raises `UserError` if a schema is unsuitable."""
        self._topic = topic
        self._decoder = RecordDecoder(decoding, login)
        self.columns = row_columns(self._decoder.types)
        """Those of the table."""
        self._makers: dict[int, RowMaker] = {}
        """By partition."""

    def rows(self, records: "pa.RecordBatch", partition: int) -> RecordRows:
        """The rows of records of one partition, in the columns of `record.columns`."""
        found = self._decoder.decode(records)
        decoded = records
        for name, column in found.columns.items():
            index = decoded.schema.get_field_index(name)
            if index >= 0:
                decoded = decoded.set_column(index, name, column)
        rows = self._maker(partition).rows(decoded)
        if HEADER in found.columns:
            rows = rows.append_column(HEADER, found.columns[HEADER])
        return RecordRows(rows, found)

    def _maker(self, partition: int) -> RowMaker:
        if partition not in self._makers:
            columns = columns_of_records(self.columns)
            self._makers[partition] = RowMaker(self._topic, partition, columns)
        return self._makers[partition]


def columns_of_records(schema: "pa.Schema", added: tuple[str, ...] = ()) -> Any:
    """The columns that are part of a record itself."""
    import pyarrow as pa

    others = ("commit_id", HEADER, *added)
    return pa.schema([field for field in schema if field.name not in others])
