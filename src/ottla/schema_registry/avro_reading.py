"""Reads Avro data with fastavro, within the bounds of its bytes.

fastavro believes the counts and depths that data claims: a block of 2^62 items without bytes (an
array of nulls) keeps it busy for years, as does a record of two records of two records of nulls,
forty levels deep, and a value of a recursive type overflows the stack. Data of schemas in which
this can happen, which are rare, is walked through first. It also takes negative
indexes of unions and enums, as Python's lists do: where a schema has some, data is read with one in
which unions and symbols are not lists, and then, if there is another reader's schema, again.
"""

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final

from ottla.base.values import dataclass
from ottla.schema_registry.avro_schemas import AvroSchema

_MOST_READ_LEVELS: Final = 500
MOST_SKIPPED_LEVELS: Final = 10_000
"""Levels of recursion for which the stack of a thread is sufficient."""

_MOST_EMPTY: Final = 1_000
"""Items without bytes that a value may have besides one for each of its bytes."""

_FEW_EMPTY: Final = 16
"""Of one value of a type: with fewer, a value is not much larger than its bytes."""

Bound = Callable[[bytes], None]
"""Raises `ValueError` for data that claims more than it contains."""

# Errors of fastavro for bytes that do not match the schema.
BROKEN = (EOFError, IndexError, KeyError, ValueError, OverflowError, TypeError, ArithmeticError)


@dataclass(slots=True, eq=False)
class _Step:
    """How to pass one type: a number of bytes, a number, a text, or what is within.

    `inner` has a record's fields, a union's types or an array's items. An enum is passed as a union
    of types without bytes, a map as an array of pairs.
    """

    kind: str
    size: int = 0
    inner: "tuple[_Step, ...]" = ()


_SIZES: Mapping[str, int] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = ("int", "long")
_VARIABLE = ("string", "bytes")


class _Compiler:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._named: dict[str, _Step] = {}
        self._open: set[str] = set()
        self.is_needed = False
        """Whether a type is recursive."""
        self.has_indexes = False
        """Of unions or enums."""

    def of(self, schema: Any) -> _Step:
        if isinstance(schema, str) and schema in self._schema.named:
            return self._of_name(schema)
        if isinstance(schema, list):
            self.has_indexes = True
            return _Step("union", 0, tuple(self.of(one) for one in schema))
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in _SIZES:
            return _Step("size", _SIZES[kind])
        if kind in _NUMBERS:
            return _Step("number")
        if kind in _VARIABLE:
            return _Step("text")
        if kind == "map":
            return _Step("blocks", 0, (_record(_Step("text"), self.of(schema["values"])),))
        return _Step("blocks", 0, (self.of(schema["items"]),))

    def _of_name(self, name: str) -> _Step:
        if name in self._named:
            self.is_needed |= name in self._open
            return self._named[name]
        definition = self._schema.named[name]
        if definition["type"] == "fixed":
            found = _Step("size", definition["size"])
        elif definition["type"] == "enum":
            self.has_indexes = True
            found = _Step("union", 0, (_Step("size"),) * len(definition["symbols"]))
        else:
            self._named[name] = found = _record()
            self._open.add(name)
            found.inner = tuple(self.of(one["type"]) for one in definition["fields"])
            self._open.discard(name)
        self._named[name] = found
        return found


def _record(*fields: _Step) -> _Step:
    return _Step("record", 0, fields)


class _Emptiness:
    """How many items without bytes, such as nulls, the values of types may have."""

    def __init__(self, top: _Step) -> None:
        self._known: dict[int, tuple[bool, int]] = {}
        self.is_large = False
        """Whether some type has many of them, or items of blocks have no bytes."""
        self._measure(top)

    def of_empty(self, step: _Step) -> int:
        """How many items without bytes a value has that has no bytes itself; 0 for another."""
        is_empty, count = self._known[id(step)]
        return count if is_empty else 0

    def _measure(self, step: _Step) -> tuple[bool, int]:
        """Whether a value has no bytes, and how many items without bytes it may have at most,
        besides those in blocks; a type within itself has none.
        """
        found = self._known.get(id(step))
        if found is not None:
            return found
        self._known[id(step)] = (False, 0)
        inner = [self._measure(one) for one in step.inner]
        match step.kind:
            case "size":
                found = (step.size == 0, int(step.size == 0))
            case "record":
                is_empty = all(one for one, _ in inner)
                found = (is_empty, is_empty + sum(count for _, count in inner))
            case "union":
                found = (False, max((count for _, count in inner), default=0))
            case _:
                self.is_large |= any(is_empty for is_empty, _ in inner)
                found = (False, 0)
        self.is_large |= found[1] > _FEW_EMPTY
        self._known[id(step)] = found
        return found


def _index_check(top: _Step) -> Bound:
    """Reads data that is not recursive; in C, which takes a fraction of the time of `_Walk`."""
    from fastavro import schemaless_reader

    schema = _indexed(_record(top), {}) | {"__fastavro_parsed": True, "__named_schemas": {}}

    def check(data: bytes) -> None:
        schemaless_reader(BytesIO(data), schema, None)

    return check


def _indexed(step: _Step, known: dict[int, Any]) -> Any:
    """As fastavro is given it; a union is an object by index, which it allows of `error_union`."""
    match step.kind:
        case "size":
            return {"type": "fixed", "name": "f", "size": step.size} if step.size else "null"
        case "number":
            return "long"
        case "text":
            return "bytes"
        case "blocks":
            return {"type": "array", "items": _indexed(step.inner[0], known)}
    if id(step) not in known:
        inner = [_indexed(one, known) for one in step.inner]
        if step.kind == "union":
            known[id(step)] = {"type": "error_union", **dict(enumerate(inner))}
        else:
            fields = [{"name": str(place), "type": one} for place, one in enumerate(inner)]
            known[id(step)] = {"type": "record", "name": "r", "fields": fields}
    return known[id(step)]


class _Walk:
    """Passes data of a type without recursion."""

    def __init__(self, top: _Step, emptiness: _Emptiness, most_levels: int) -> None:
        self._top = top
        self._emptiness = emptiness
        self._most_levels = most_levels
        self._end = _Step("end")

    def check(self, data: bytes) -> None:
        """See `Bound`."""
        left: list[tuple[_Step, int]] = [(self._top, 1)]
        position, levels, empty = 0, 0, 0
        while left:
            step, count = left.pop()
            if step is self._end:
                levels -= 1
                continue
            if count > 1:
                left.append((step, count - 1))
            match step.kind:
                case "size":
                    position += step.size
                case "number":
                    _, position = _number(data, position)
                case "text":
                    size, position = _number(data, position)
                    position += _counted(size, len(data) - position)
                case "record":
                    levels += 1
                    # A union's null has the bytes of its index.
                    empty += sum(one.kind == "size" and not one.size for one in step.inner)
                    empty += not step.inner
                    left.append((self._end, 1))
                    left += [(one, 1) for one in reversed(step.inner)]
                case "union":
                    index, position = _number(data, position)
                    levels += 1
                    left += [(self._end, 1), (step.inner[_counted(index, len(step.inner) - 1)], 1)]
                case _:
                    count, position = _block(data, position)
                    items = step.inner[0]
                    of_each = self._emptiness.of_empty(items)
                    empty += count * of_each
                    _counted(count, _MOST_EMPTY + len(data) if of_each else len(data) - position)
                    if count:
                        left.append((step, 1))
                    if count and not of_each:
                        left.append((items, count))
            if position > len(data):
                raise ValueError("it ends too early")
            if levels > self._most_levels:
                raise ValueError(f"it is nested more than {self._most_levels} levels deep")
            if empty > _MOST_EMPTY + len(data):
                raise ValueError(f"it has {empty} items without bytes")


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number and the position after it."""
    found = shift = 0
    for place in range(position, min(position + 10, len(data))):
        found |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
    raise ValueError("it ends too early")


def _block(data: bytes, position: int) -> tuple[int, int]:
    """The count of a block's items, and their position; a negative count precedes a size."""
    count, position = _number(data, position)
    if count < 0:
        size, position = _number(data, position)
        _counted(size, len(data) - position)
    return abs(count), position


def _counted(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise ValueError(f"it claims {count} where at most {most} can be")
    return count


def _without_lists(schema: Any) -> Any:
    """A parsed schema in which unions and symbols are objects by index."""
    match schema:
        case list():
            members = dict(enumerate(map(_without_lists, schema)))
            return {"type": "error_union", **members}
        case {"fields": fields}:
            inner = [{**one, "type": _without_lists(one["type"])} for one in fields]
            known = {
                name: _without_lists({**one, "__named_schemas": {}})
                for name, one in schema.get("__named_schemas", {}).items()
            }
            return {**schema, "fields": inner, "__named_schemas": known}
        case {"items": items}:
            return {**schema, "items": _without_lists(items)}
        case {"values": values}:
            return {**schema, "values": _without_lists(values)}
        case {"symbols": symbols}:
            return {**schema, "symbols": dict(enumerate(symbols))}
    return schema


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads one datum of the parsed schema `written`, in the fields of `shown` if given."""

    written: Any
    bound: Bound | None
    shown: Any = None

    def read(self, data: bytes) -> Any:
        """Raises one of `BROKEN`, or fastavro's `SchemaResolutionError`."""
        from fastavro import schemaless_reader

        stream = BytesIO(data)
        try:
            if self.bound is not None:
                self.bound(data)
            found = schemaless_reader(stream, self.written, self.shown)
        except KeyError as error:
            raise ValueError(f"it has the index {error} of a union or an enum") from error
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow its Avro datum")
        return found


def avro_reader(
    schema: AvroSchema, written: Any, shown: Any = None, most_levels: int = _MOST_READ_LEVELS
) -> AvroReader:
    """Reads data of `schema`, which is `written` as parsed, in the fields of `shown` if given."""
    compiler = _Compiler(schema)
    top = compiler.of(schema.top)
    emptiness = _Emptiness(top)
    if compiler.is_needed or emptiness.is_large:
        return AvroReader(written, _Walk(top, emptiness, most_levels).check, shown)
    if not compiler.has_indexes:
        return AvroReader(written, None, shown)
    if shown is None and isinstance(written, dict) and "fields" in written:
        return AvroReader(_without_lists(written), None)
    # Between two schemas fastavro wants lists.
    return AvroReader(written, _index_check(top), shown)
