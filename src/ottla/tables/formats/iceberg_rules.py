"""What another program asks of an Iceberg table's writers that no load does."""

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table
from pyiceberg.table.metadata import SUPPORTED_TABLE_FORMAT_VERSION
from pyiceberg.types import MapType

from ottla.tables.columns.flat import is_flat
from ottla.tables.columns.rows import never_null
from ottla.tables.formats.transaction_log import RefusedError


def check_version(address: str, table: Table) -> None:
    """Raises `RefusedError` if the library cannot write tables of this version."""
    version = table.metadata.format_version
    if version > SUPPORTED_TABLE_FORMAT_VERSION:
        raise RefusedError(
            f"{address}: another program has made it a table of format version {version}, which "
            f"pyiceberg reads and cannot write; load into another table"
        )


def check_rules(address: str, schema: Schema) -> None:
    """Raises `RefusedError` if rows need a value in a column that may have none."""
    fields = index_by_id(schema)
    kinds = [one.field_type for one in fields.values()]
    keys = {one.key_id for one in kinds if isinstance(one, MapType)}
    filled = never_null(is_flat=is_flat(schema.column_names))
    for number, field in fields.items():
        name = schema.find_column_name(number) or field.name
        if field.required and number not in keys and name not in filled:
            raise RefusedError(
                f"{address}: another program requires a value in each row of column {name}, which "
                f"loads may leave null; ALTER TABLE ... ALTER COLUMN {name} DROP NOT NULL, or load "
                f"into another table"
            )
