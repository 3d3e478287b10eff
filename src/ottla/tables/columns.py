"""The columns of a table's files, in Arrow's words (`layout.table_schema` has them in Spark's)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def row_columns(value: "pa.DataType | None" = None) -> "pa.Schema":
    """Of rows; `value` is the type of decoded values."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", value or pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestamp_type", pa.int32()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("topic", pa.string()),
            ("commit_id", pa.int64()),
        ]
    )


def change_columns(value: "pa.DataType | None" = None) -> "pa.Schema":
    """Of rows that are still to be merged; one without a key says that all before it went."""
    import pyarrow as pa

    return row_columns(value).append(pa.field("is_deleted", pa.bool_()))


def aside_columns(*, with_bytes: bool) -> "pa.Schema":
    """Of records that are no rows: where they are and why, `with_bytes` also what they hold."""
    import pyarrow as pa

    own = row_columns()
    kept = [field for field in own if with_bytes or field.name not in ("key", "value", "headers")]
    return pa.schema([*kept, ("reason", pa.string())])
