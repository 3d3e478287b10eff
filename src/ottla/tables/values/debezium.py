"""Decodes Debezium's change events to the rows after the changes.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html describes the fields.
A delete (`op` d) is a null row, as is the tombstone after it. JSON is read with and without the
schema with which Kafka Connect's converter may wrap values (`{"schema": ..., "payload": ...}`).
"""

from dataclasses import replace
from typing import Any

from ottla.base.json_texts import read_last, write
from ottla.tables.values.decoder import (
    Decoded,
    Decoding,
    Envelope,
    ValueDecoder,
    ValueFormat,
    require,
)
from ottla.tables.values.json_rest import RESCUED_COLUMN, with_rescued
from ottla.tables.values.schema import parse_schema, schema_text

_WITH_ROW = ("c", "r", "u")
"""Created, read by a snapshot, updated."""

_DELETE, _TRUNCATE = "d", "t"


def envelope_decoding(decoding: Decoding) -> Decoding:
    """The decoding of envelopes; a given JSON schema is that of the rows in them."""
    import pyarrow as pa

    bare = replace(decoding, envelope=Envelope.NONE)
    if decoding.format is not ValueFormat.JSON or decoding.subject:
        return bare  # a subject's schema is that of the envelopes
    fields = [("op", pa.string()), ("after", parse_schema(decoding.schema))]
    return replace(bare, schema=schema_text(pa.struct([*fields, ("payload", pa.struct(fields))])))


def bare_row(value: bytes | None) -> bytes | None:
    """The JSON of the row in an envelope; `None` if it has none."""
    try:
        envelope = read_last((value or b"null").decode())
        row = envelope.get("payload", envelope)["after"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return None if row is None else write(row).encode()


class DebeziumDecoder:
    """See `ValueDecoder`; `inner` decodes the envelopes.

    Of rescued fields only those of the row are kept.
    """

    def __init__(self, inner: ValueDecoder) -> None:
        import pyarrow.types as types

        self._inner = inner
        index = inner.type.get_field_index("after")
        require(
            inner.type.get_field_index("op") >= 0
            and index >= 0
            and types.is_struct(inner.type.field(index).type),
            "--envelope debezium: the values' schema lacks op or a record after",
        )
        self._type = inner.type.field(index).type
        self._is_rescuing = inner.type.get_field_index(RESCUED_COLUMN) >= 0
        if self._is_rescuing:
            self._type = with_rescued(self._type)

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        decoded = self._inner.decode(values, headers)
        op, after = self._fields(decoded.rows)
        if self._is_rescuing:
            rescued = _of_rows(pc.struct_field(decoded.rows, RESCUED_COLUMN))
            after = pa.StructArray.from_arrays(
                [*after.flatten(), rescued], fields=list(self._type), mask=pc.is_null(after)
            )
        is_row = pc.and_(
            pc.fill_null(pc.is_in(op, pa.array(_WITH_ROW, op.type)), False), pc.is_valid(after)
        )
        others = np.flatnonzero(~is_row.to_numpy(False)).tolist()
        if not others:
            return replace(decoded, rows=after)
        faults, truncations = dict(decoded.faults), []
        for index in others:
            if index in faults or not values[index].is_valid:
                continue
            kind = op[index].as_py()
            if kind == _TRUNCATE:
                truncations.append(index)
            elif kind != _DELETE:
                faults[index] = _fault(kind)
        return Decoded(
            pc.if_else(is_row, after, pa.scalar(None, after.type)), faults, frozenset(truncations)
        )

    def _fields(self, rows: Any) -> tuple[Any, Any]:
        """The operations and the rows of envelopes."""
        import pyarrow.compute as pc

        op, after = pc.struct_field(rows, "op"), pc.struct_field(rows, "after")
        if self._inner.type.get_field_index("payload") < 0:
            return op, after
        payload = pc.struct_field(rows, "payload")
        if payload.null_count == len(payload):
            return op, after
        return (
            pc.coalesce(op, pc.struct_field(payload, "op")),
            pc.coalesce(after, pc.struct_field(payload, "after")),
        )


def _of_rows(rescued: Any) -> Any:
    """The rescued fields of rows, from texts with the rescued fields of envelopes."""
    import pyarrow as pa

    found: list[str | None] = []
    for text in rescued.to_pylist():
        left = {} if text is None else read_last(text)
        # A field of another kind may also be called payload.
        payload = left.get("payload")
        row = (payload if isinstance(payload, dict) else left).get("after")
        found.append(None if row is None else write(row))
    return pa.array(found, pa.string())


def _fault(kind: str | None) -> str:
    if kind is None:
        return "it is not a Debezium envelope: it has no op"
    if kind in _WITH_ROW:
        return f"it is a change with op {kind}, but has no row (after)"
    return f"it is an event with op {kind}, not a change of a row"
