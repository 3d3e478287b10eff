"""The fields of a record by name, as `--where` and `--format` write them.

`key`, `value.customer.id`, `.items[0].price` (short for `value.items[0].price`),
`header.trace-id`, `header["a b"]`, `topic`, `partition`, `offset`, `timestamp`. Of several headers
with a name this is the last; `header.trace-id[0]` is the first.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.texts import whole_number
from ottla.base.values import dataclass

if TYPE_CHECKING:
    from ottla.record.record import Record

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

ROOTS = ("topic", "partition", "offset", "timestamp", "key", "value", "header", "headers")

_ROOT = lazy_pattern(r"[A-Za-z_]+|(?=\.)")
_STEP = lazy_pattern(r"""\.(?P<name>[\w-]+)|\[(?P<index>-?\d+)\]|\[(?P<text>"[^"]*"|'[^']*')\]""")

Step = str | int


class Entry(NamedTuple):
    """A record and the place where it was read."""

    topic: str
    partition: int
    record: "Record"


Decoder = Callable[[bytes], Any]
"""Decodes a key or a value for the paths into it; raises `ValueError`."""


@dataclass(frozen=True, slots=True)
class Field:
    """A root and the steps below it, which only `key`, `value` and `header` have."""

    root: str
    steps: tuple[Step, ...] = ()


def parse_field(text: str, position: int = 0) -> tuple[Field, int]:
    """The field that begins at a position, and where it ends; raises `UserError`."""
    found = _ROOT.match(text, position)
    if found is None:
        raise UserError(f"{text[position:]!r} begins with no field; there are {_names()}")
    root, end = found[0] or "value", found.end()
    if root not in ROOTS:
        raise UserError(f"there is no field {root!r}; there are {_names()}, and paths like .id")
    steps: list[Step] = []
    while (step := _STEP.match(text, end)) is not None:
        steps.append(_step(step))
        end = step.end()
    field = Field("header" if root == "headers" and steps else root, tuple(steps))
    _check_steps(field)
    return field, end


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        index = whole_number(found["index"].removeprefix("-"))
        if index is None:
            raise UserError(f"[{found['index']}] is no index of an array")
        return -index if found["index"].startswith("-") else index
    return found["name"] if found["name"] is not None else found["text"][1:-1]


def _check_steps(field: Field) -> None:
    if field.root == "header":
        match field.steps:
            case (str(),) | (str(), int()):
                return
        raise UserError(
            'a header is named as header.trace-id or header["trace id"], its first value '
            "header.trace-id[0]"
        )
    if field.steps and field.root not in ("key", "value"):
        raise UserError(f"{field.root} has no fields of its own; key and value may have")


def _names() -> str:
    return ", ".join(ROOTS[:-1])


def with_header(data: bytes, headers: Sequence[tuple[str, bytes | None]], name: str) -> bytes:
    """Returns a key or a value with the last header of that name as its prefix."""
    if not name:
        return data
    found = next((value for header, value in reversed(headers) if header == name), None)
    return data if found is None else found + data


class FieldReader:
    """Looks fields up; a key or value is decoded once, however many paths lead into it."""

    def __init__(
        self,
        key: Decoder = json.loads,
        value: Decoder = json.loads,
        schema_headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """`schema_headers`: the header with the schema id, for `key` and `value`."""
        self._decoders = {"key": key, "value": value}
        self._schema_headers = schema_headers
        self._of: Record | None = None
        self._decoded: dict[str, Any] = {}

    def get(self, entry: Entry, field: Field) -> Any:
        """The field's value; `None` if the record has no such field."""
        record = entry.record
        match field.root:
            case "topic":
                return entry.topic
            case "partition":
                return entry.partition
            case "offset":
                return record.offset
            case "timestamp":
                return None if record.timestamp_type is None else record.timestamp_ms
            case "headers":
                return record.headers
            case "header":
                name, place = field.steps if len(field.steps) == 2 else (*field.steps, -1)
                values = [value for key, value in record.headers if key == name]
                return item_at(values, place)
        data: bytes | None = getattr(record, field.root)
        return data if not field.steps else self._follow(record, field, data)

    def _follow(self, record: "Record", field: Field, data: bytes | None) -> Any:
        if self._of is not record:
            self._of = record
            self._decoded = {}
        if field.root not in self._decoded:
            header = self._schema_headers.get(field.root, "")
            framed = None if data is None else with_header(data, record.headers, header)
            self._decoded[field.root] = self._decode(field.root, framed)
        found = self._decoded[field.root]
        for step in field.steps:
            found = item_at(found, step)
        return found

    def _decode(self, root: str, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return self._decoders[root](data)
        except (ValueError, RecursionError):  # The latter: JSON that is nested too deeply.
            return None


def item_at(found: Any, step: Step) -> Any:
    """The member or element of a value; `None` if there is none."""
    try:
        return found[step]
    except (KeyError, IndexError, TypeError):
        return None
