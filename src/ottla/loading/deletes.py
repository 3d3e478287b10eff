"""`--delete-when`: which records delete their row, by a condition in the language of `--where`.

Its fields are the columns of the table's rows, as they are decoded: `value.op = delete`. Of a value
that is not decoded, fields are looked up in its JSON.
"""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.search.fields import Entry, Field, FieldReader, item_at
from ottla.search.filters import Filter, parse_filter
from ottla.tables import TableLayout

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

OPTION = "--delete-when"


@dataclass(frozen=True, slots=True)
class DeleteWhen:
    """The condition; called with rows, it returns a mask of those that are deletes."""

    text: str

    def parsed(self) -> Filter:
        """Raises `UserError` with the position of a mistake."""
        return parse_filter(self.text, 0, OPTION)

    def __call__(self, rows: "pa.RecordBatch") -> "np.ndarray[Any, Any]":
        """Raises `UserError` if the rows lack a column of the condition."""
        import numpy as np

        test, reader = self.parsed(), _RowReader(rows)
        return np.fromiter(
            (test(reader, cast(Entry, number)) for number in range(rows.num_rows)),
            bool,
            rows.num_rows,
        )


def deletes_of(layout: TableLayout) -> DeleteWhen | None:
    """The condition of a table, if it has one."""
    upsert = layout.upsert
    return DeleteWhen(upsert.delete_when) if upsert is not None and upsert.delete_when else None


class _RowReader(FieldReader):
    """Looks fields up in rows, whose numbers are the entries; each column is converted once."""

    def __init__(self, rows: "pa.RecordBatch") -> None:
        super().__init__()
        self._rows = rows
        self._columns: dict[Field, list[Any]] = {}

    def get(self, entry: Entry, field: Field) -> Any:
        if field not in self._columns:
            self._columns[field] = self._column(field)
        return self._columns[field][cast(int, entry)]

    def _column(self, field: Field) -> list[Any]:
        import pyarrow.compute as pc
        import pyarrow.types as types

        if field.root == "header":
            return [_header(one, field) for one in self._rows.column("headers").to_pylist()]
        column, steps = self._rows.column(field.root), list(field.steps)
        while steps and types.is_struct(column.type):
            index = column.type.get_field_index(str(steps[0]))
            if index < 0:
                there = ", ".join(one.name for one in column.type)
                raise UserError(
                    f"{OPTION}: the table has no {field.root}.{steps[0]}; there are {there}"
                )
            column = pc.struct_field(column, [index])
            steps = steps[1:]
        values = [_plain(one) for one in column.to_pylist()]
        if steps and types.is_binary(column.type):
            values = [_parsed(one) for one in values]
        for step in steps:
            values = [item_at(one, step) for one in values]
        return values


def _header(headers: list[dict[str, Any]], field: Field) -> Any:
    name, place = field.steps if len(field.steps) == 2 else (*field.steps, -1)
    return item_at([one["value"] for one in headers if one["key"] == name], place)


def _plain(value: Any) -> Any:
    """Times as the language has them: the milliseconds since 1970."""
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def _parsed(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
