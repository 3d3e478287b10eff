"""The columns of a table's files as Arrow types (`layout.table_schema` has the Spark types)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

NOT_DECODED: "Mapping[str, pa.DataType]" = MappingProxyType({})


def row_columns(decoded: "Mapping[str, pa.DataType]" = NOT_DECODED) -> "pa.Schema":
    """The columns of rows; `decoded` has the types of decoded columns: `value`, `key`, `header`."""
    import pyarrow as pa

    header = [("header", decoded["header"])] if "header" in decoded else []
    return pa.schema(
        [
            ("key", decoded.get("key", pa.binary())),
            ("value", decoded.get("value", pa.binary())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestamp_type", pa.int32()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            *header,
            ("topic", pa.string()),
            ("commit_id", pa.int64()),
        ]
    )


def never_null(*, is_flat: bool) -> set[str]:
    """The columns that have a value in each row, by their names in a table."""
    return {f"_{name}" if is_flat else name for name in _NEVER_NULL}


_NEVER_NULL = ("partition", "offset", "topic", "commit_id")

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"


def history_columns(version: "pa.DataType") -> "pa.Schema":
    """The columns of a table with history: from which version to which a row is valid."""
    import pyarrow as pa

    return pa.schema([(VALID_FROM, version), (VALID_TO, version), (IS_CURRENT, pa.bool_())])


def quarantine_columns(*, with_bytes: bool) -> "pa.Schema":
    """The columns of quarantined records; `with_bytes` includes keys, values and headers."""
    import pyarrow as pa

    own = row_columns()
    columns = [
        field for field in own if with_bytes or field.name not in ("key", "value", "headers")
    ]
    return pa.schema([*columns, ("reason", pa.string())])
