"""Decodes keys that are text, and headers as columns: bytes are read as UTF-8."""

from collections.abc import Callable
from typing import Any

from ottla.tables.values.decoder import Decoded, require
from ottla.tables.values.schema import parse_schema, type_text

_NOT_UTF8 = "it is not UTF-8"


class TextDecoder:
    """See `ValueDecoder`: a column of `string`."""

    @property
    def type(self) -> Any:
        import pyarrow as pa

        return pa.string()

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        faults: dict[int, str] = {}
        return Decoded(_texts(values, faults), faults)


class HeaderDecoder:
    """Decodes headers to the fields of a struct, by name; of headers with the same name the last.

    A record without a header has null. Numbers, booleans and times are parsed from the header's
    text; `binary` has its bytes.
    """

    def __init__(self, schema: str) -> None:
        self._type = parse_schema(schema)
        for field in self._type:
            _check_type(field)

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        found = [_by_name(one) for one in headers.to_pylist()]
        columns = []
        for field in self._type:
            data = pa.array([one.get(field.name) for one in found], pa.binary())
            of_field: dict[int, str] = {}
            columns.append(_converted(data, field.type, of_field))
            for index, fault in of_field.items():
                faults.setdefault(index, f"header {field.name}: {fault}")
        return Decoded(pa.StructArray.from_arrays(columns, fields=list(self._type)), faults)


def _by_name(headers: Any) -> dict[str, bytes | None]:
    return {one["key"]: one["value"] for one in headers or ()}


def _check_type(field: Any) -> None:
    import pyarrow.types as types

    kind = field.type
    is_offered = not (types.is_nested(kind) or types.is_decimal(kind) or types.is_date(kind))
    require(
        is_offered,
        f"header {field.name}: a column of {type_text(kind)} cannot be parsed from text; use "
        f"string, binary, boolean, int, bigint, double or timestamp",
    )


def _converted(data: Any, kind: Any, faults: dict[int, str]) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_binary(kind):
        return data
    texts = _texts(data, faults)
    return _each(texts, kind, lambda some: some.cast(kind), faults, pa.ArrowInvalid)


def _texts(values: Any, faults: dict[int, str]) -> Any:
    import pyarrow as pa

    return _each(values, pa.string(), lambda some: some.cast(pa.string()), faults, pa.ArrowInvalid)


def _each(
    values: Any,
    kind: Any,
    convert: Callable[[Any], Any],
    faults: dict[int, str],
    broken: type[Exception],
) -> Any:
    """Converts all values at once; if that fails, one by one, and invalid values become null."""
    import pyarrow as pa

    try:
        return convert(values)
    except broken:
        found = []
        for index in range(len(values)):
            try:
                found.append(convert(values.slice(index, 1)))
            except broken:
                words = f"it is not of type {type_text(kind)}: {values[index].as_py()!r:.40}"
                faults[index] = _NOT_UTF8 if values.type == pa.binary() else words
                found.append(pa.nulls(1, kind))
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)
