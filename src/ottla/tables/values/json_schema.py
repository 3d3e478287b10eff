"""Converts JSON Schema to columns, using only what determines the types of values.

Values are not validated: `pattern`, `minimum` and other keywords are ignored. Parts with several
types, without a type, or that are recursive get no column, and are kept in the rescued column.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegisteredSchema
from ottla.tables.values.decoder import require
from ottla.tables.values.growth import ConflictError, merged_type
from ottla.tables.values.json_references import References
from ottla.tables.values.schema import is_column_name, struct_type

_MOST_NESTED = 100
_MOST_PARTS = 20_000
"""References to a part repeat all of it: twenty that each refer twice to the next are a million."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of an object, and the required ones."""

    fields: Mapping[str, "Node"]
    required: frozenset[str]


@dataclass(frozen=True, slots=True)
class Repeated:
    """An array, or with `is_map` an object whose names are keys."""

    inner: "Node"
    is_map: bool = False


Node = Shape | Repeated | Any
"""Or an Arrow type; `None` for a part without a column."""


def is_json_schema(text: str) -> bool:
    """Whether the text is JSON Schema rather than Spark's notation."""
    return text.lstrip().startswith("{")


def json_schema_type(schema: RegisteredSchema) -> Any:
    """The Arrow struct type of a schema's values; raises `UserError`."""
    return _column_type(_shape(schema))


def type_of_versions(versions: Sequence[RegisteredSchema]) -> Any:
    """The columns for all versions, oldest first; versions that conflict with earlier ones are left
    out. Raises `UserError`.
    """
    accepted: list[Shape] = []
    kind: Any = None
    for version in versions:
        shape = _shape(version)
        if any(_seems_renamed(one, shape) for one in accepted):
            continue
        try:
            now = _column_type(shape)
            kind = now if kind is None else merged_type(kind, now)
        except ConflictError:
            continue
        accepted.append(shape)
    return kind


def _seems_renamed(before: Node, now: Node) -> bool:
    """Whether a required field was removed while another field was added."""
    match before, now:
        case Shape(fields=of_before), Shape(fields=of_now):
            gone = before.required - of_now.keys()
            return bool(gone and of_now.keys() - of_before.keys()) or any(
                _seems_renamed(of_before[name], of_now[name])
                for name in of_before.keys() & of_now.keys()
            )
        case Repeated(inner=one), Repeated(inner=other):
            return _seems_renamed(one, other)
    return False


def _shape(schema: RegisteredSchema) -> Shape:
    try:
        references = References(schema)
        node = _Reader(references).node(references.top, "value")
    except (ValueError, RecursionError) as error:
        raise UserError(f"the JSON Schema is not JSON: {error}") from error
    except (TypeError, AttributeError) as error:
        raise UserError(f"this is not a JSON Schema: {error}") from error
    if not isinstance(node, Shape) or _column_type(node) is None:
        raise UserError("the JSON Schema's outermost type must be an object with properties")
    return node


def _column_type(node: Node) -> Any:
    """The Arrow type of a node; `None` if it cannot be a column; raises `UserError`."""
    import pyarrow as pa

    match node:
        case Shape():
            kinds = {name: _column_type(one) for name, one in node.fields.items()}
            known = [
                (name, kind)
                for name, kind in kinds.items()
                if kind is not None and is_column_name(name)
            ]
            return struct_type(known) if known else None
        case Repeated():
            inner = _column_type(node.inner)
            if inner is None:
                return None
            return pa.map_(pa.string(), inner) if node.is_map else pa.list_(inner)
    return node


class _Reader:
    """Reads one schema; a place is the path of what it describes, such as `value.a[]`."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._open: set[int] = set()
        self._count = 0

    def node(self, schema: Any, place: str) -> Node:
        """The node of a schema; `None` within itself."""
        if not isinstance(schema, dict):
            return None
        if id(schema) in self._open or len(self._open) > _MOST_NESTED:
            return None
        self._count += 1
        require(
            self._count <= _MOST_PARTS,
            f"the JSON Schema has more than {_MOST_PARTS:,} parts, each reference counted with all "
            "that it refers to",
        )
        self._open.add(id(schema))
        try:
            return self._node(schema, place)
        finally:
            self._open.discard(id(schema))

    def _node(self, schema: Mapping[str, Any], place: str) -> Node:
        for word in ("$dynamicRef", "$recursiveRef"):
            require(
                word not in schema,
                f"{place}: the JSON Schema has a {word}, which is not supported: use $ref",
            )
        if "$ref" in schema:
            found = self._references.found(str(schema["$ref"]), schema, place)
            return self.node(found, place)
        for word in ("oneOf", "anyOf"):
            if word in schema and isinstance(schema[word], list):
                return _one_of([self.node(one, place) for one in _not_null(schema[word])])
        if isinstance(schema.get("allOf"), list):
            parts = [self.node(one, place) for one in schema["allOf"]]
            return _all_of(
                [*parts, *([self._typed(schema, place)] if "properties" in schema else [])]
            )
        return self._typed(schema, place)

    def _typed(self, schema: Mapping[str, Any], place: str) -> Node:
        import pyarrow as pa

        match _type_word(schema):
            case "object":
                return self._object(schema, place)
            case "array":
                inner = self.node(schema.get("items"), f"{place}[]")
                return None if inner is None else Repeated(inner)
            case "string" if schema.get("format") == "date-time":
                return pa.timestamp("us", "UTC")
            case "string":
                return pa.string()
            case "integer":
                return pa.int64()
            case "number":
                return pa.float64()
            case "boolean":
                return pa.bool_()
        return None

    def _object(self, schema: Mapping[str, Any], place: str) -> Node:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            required = schema.get("required")
            return Shape(
                {name: self.node(one, f"{place}.{name}") for name, one in properties.items()},
                frozenset(map(str, required)) if isinstance(required, list) else frozenset(),
            )
        inner = self.node(schema.get("additionalProperties"), f"{place}{{}}")
        return None if inner is None else Repeated(inner, is_map=True)


def _type_word(schema: Mapping[str, Any]) -> str | None:
    """The only type besides null; without `type` that of the constants."""
    word = schema.get("type")
    if word is None and ("properties" in schema or "additionalProperties" in schema):
        return "object"
    if word is None and "items" in schema:
        return "array"
    if word is None:
        constants = schema.get("enum", [schema["const"]] if "const" in schema else [])
        word = [_word_of(one) for one in constants] if isinstance(constants, list) else []
    words = {one for one in ([word] if isinstance(word, str) else word) if one != "null"}
    if words == {"integer", "number"}:
        return "number"
    return str(words.pop()) if len(words) == 1 else None


def _word_of(constant: Any) -> str:
    match constant:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
    return ""


def _not_null(schemas: Iterable[Any]) -> list[Any]:
    return [one for one in schemas if not (isinstance(one, dict) and one.get("type") == "null")]


def _one_of(nodes: Sequence[Node]) -> Node:
    """The common type; for objects one with all fields; `None` for other combinations."""
    import pyarrow as pa

    if not nodes or any(one is None for one in nodes):
        return None
    if len(nodes) == 1:
        return nodes[0]
    shapes = [one for one in nodes if isinstance(one, Shape)]
    if len(shapes) == len(nodes):
        always = frozenset.intersection(*(one.required for one in shapes))
        return Shape(_both_fields(shapes), always)
    if all(one == nodes[0] for one in nodes):
        return nodes[0]
    return pa.float64() if {*map(str, nodes)} == {"int64", "double"} else None


def _all_of(nodes: Sequence[Node]) -> Node:
    """The combination of objects; otherwise the first known type."""
    shapes = [one for one in nodes if isinstance(one, Shape)]
    if not shapes:
        return next((one for one in nodes if one is not None), None)
    return Shape(_both_fields(shapes), frozenset().union(*(one.required for one in shapes)))


def _both_fields(shapes: Sequence[Shape]) -> dict[str, Node]:
    """The fields of all shapes; `None` for a field with two types."""
    found: dict[str, Node] = {}
    for shape in shapes:
        for name, node in shape.fields.items():
            found[name] = node if found.get(name, node) == node else None
    return found
