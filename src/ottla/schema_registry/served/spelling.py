"""What a schema says, whatever its spelling: by this it is found again and has one id.

Spaces, the order of attributes, a name with or without its namespace, and attributes that Avro
ignores make no difference; documentation, defaults and properties of one's own do, as in the
canonical string of Confluent's `AvroSchema`.
"""

import json
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from ottla.base.patterns import lazy_pattern
from ottla.schema_registry.registry import AVRO, JSON
from ottla.schema_registry.served.faults import invalid_schema

MOST_NESTED = 200
"""Levels of lists and objects: far below what Python's stack has room for."""
NO_NAMESPACE = "_"
"""In bare schemas: a name must not be taken into the namespace that surrounds it."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
_RESERVED = frozenset(
    {"aliases", "doc", "fields", "items", "name", "namespace", "size", "symbols", "type", "values"}
)
"""Attributes that are never a property, and say nothing where they do not belong."""
_OF_FIELDS = frozenset({"aliases", "default", "doc", "name", "order", "type"})

_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_PROTO = lazy_pattern(
    r"(?s)//[^\n]*|/\*.*?(?:\*/|\Z)|\s+"
    r"|(\"(?:\\.|[^\"\\])*(?:\"|\\?\Z)|'(?:\\.|[^'\\])*(?:'|\\?\Z)|[A-Za-z0-9_.]+|.)"
)
"""Comments, space, and tokens. One without an end has the rest, so that all is read only once."""


def parsed_json(text: str) -> Any:
    """Raises `RegistryError` for text that is not JSON, or too deeply nested for what follows."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error
    except ValueError as error:
        raise invalid_schema(str(error)) from error
    if "\\u" in text and not _is_text(found):
        raise invalid_schema("it has half of a character (a lone surrogate)")
    level, nested = [found] if isinstance(found, dict | list) else [], 0
    while level:
        if nested == MOST_NESTED:
            raise invalid_schema(f"it is nested more than {MOST_NESTED} levels deep")
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for some in inner for one in some if isinstance(one, dict | list)]
        nested += 1
    return found


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def meaning(text: str, kind: str) -> str:
    """What a schema says, as a key; raises `RegistryError` for a schema that is not JSON."""
    if kind == AVRO:
        return _key(avro_forms(parsed_json(text)).full)
    if kind == JSON:
        return _key(parsed_json(text))
    return " ".join(found[1] for found in _PROTO.finditer(text) if found[1])


def _key(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class AvroForms(NamedTuple):
    """A schema in two forms: `full` is what it says, `bare` what decides how values are read.

    The bare form has full names, and neither logical types nor anything else that the library's
    checks are stricter about than Java's.
    """

    full: Any
    bare: Any


def avro_forms(schema: Any, known: Container[str] = ()) -> AvroForms:
    """`known` are the full names of referenced types. Raises `RegistryError`."""
    return _Avro(known).forms(schema, "")


class _Avro:
    def __init__(self, known: Container[str]) -> None:
        self._known = known
        self._defined: set[str] = set()

    def forms(self, node: Any, namespace: str) -> AvroForms:
        if isinstance(node, str):
            return self._reference(node, namespace)
        if isinstance(node, list):
            members = [self.forms(one, namespace) for one in node]
            return AvroForms([one.full for one in members], [one.bare for one in members])
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise invalid_schema(f"no type: {_shown(node)}")
        kind = node["type"]
        kept = _properties(node, _RESERVED | ({"default"} if kind == "enum" else set()))
        if kind in PRIMITIVES:
            return AvroForms({"type": kind, **kept} if kept else kind, kind)
        if kind in NAMED:
            return self._named(kind, node, namespace, kept)
        for wanted, name in (("array", "items"), ("map", "values")):
            if kind == wanted:
                if name not in node:
                    raise invalid_schema(f"an {kind} without {name}: {_shown(node)}")
                inner = self.forms(node[name], namespace)
                return AvroForms(
                    {"type": kind, name: inner.full, **kept}, {"type": kind, name: inner.bare}
                )
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroForms:
        if name in PRIMITIVES:
            return AvroForms(name, name)
        full = name.removeprefix(".") if "." in name else _joined(namespace, name)
        if full not in self._defined and full not in self._known:
            is_global = "." not in name and (name in self._defined or name in self._known)
            full = name if is_global else full
        return AvroForms(full, _bare(full))

    def _named(
        self, kind: str, node: Mapping[str, Any], namespace: str, kept: dict[str, Any]
    ) -> AvroForms:
        full = _full_name(node, namespace)
        space, _, simple = full.rpartition(".")
        if not _NAME.fullmatch(simple) or full in PRIMITIVES:
            raise invalid_schema(f"{simple!r} is not a name")
        if full in self._defined:
            raise invalid_schema(f"{full} is defined twice")
        self._defined.add(full)
        aliases = _aliases(node, lambda one: one if "." in one else _joined(space, one))
        said: dict[str, Any] = {"type": kind, "name": full, **_said(node, "doc"), **kept}
        bare: dict[str, Any] = {"type": kind, "name": _bare(full)}
        if aliases:
            said["aliases"], bare["aliases"] = aliases, list(map(_bare, aliases))
        inner = {"enum": self._enum, "fixed": self._fixed}.get(kind, self._record)
        forms = inner(node, space)
        return AvroForms(said | forms.full, bare | forms.bare)

    def _enum(self, node: Mapping[str, Any], space: str) -> AvroForms:
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
            raise invalid_schema(f"an enum without symbols: {_shown(node)}")
        content = {"symbols": symbols} | ({"default": node["default"]} if "default" in node else {})
        return AvroForms(content, content)

    def _fixed(self, node: Mapping[str, Any], space: str) -> AvroForms:
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise invalid_schema(f"a fixed without a size: {_shown(node)}")
        return AvroForms({"size": size}, {"size": size})

    def _record(self, node: Mapping[str, Any], space: str) -> AvroForms:
        if not isinstance(node.get("fields"), list):
            raise invalid_schema(f"a record without fields: {_shown(node)}")
        fields = [self._field(one, space) for one in node["fields"]]
        return AvroForms(
            {"fields": [one.full for one in fields]}, {"fields": [one.bare for one in fields]}
        )

    def _field(self, node: Any, space: str) -> AvroForms:
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str) or "type" not in node:
            raise invalid_schema(f"a field without a name or a type: {_shown(node)}")
        if not _NAME.fullmatch(name):
            raise invalid_schema(f"{name!r} is not a name")
        inner = self.forms(node["type"], space)
        given = {"default": node["default"]} if "default" in node else {}
        aliases = _aliases(node, str)
        if aliases:
            given["aliases"] = aliases
        order = node.get("order", "ascending")
        said = {**_said(node, "doc"), **({} if order == "ascending" else {"order": order})}
        return AvroForms(
            {"name": name, "type": inner.full, **given, **said, **_properties(node, _OF_FIELDS)},
            {"name": name, "type": inner.bare, **given},
        )


def _properties(node: Mapping[str, Any], reserved: Container[str]) -> dict[str, Any]:
    return {f"@{name}": value for name, value in node.items() if name not in reserved}


def _said(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: node[name]} if isinstance(node.get(name), str) else {}


def _full_name(node: Mapping[str, Any], namespace: str) -> str:
    name = node.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_schema(f"no name: {_shown(node)}")
    if "." in name:
        return name.removeprefix(".")
    own = node.get("namespace")
    return _joined(own if isinstance(own, str) else namespace, name)


def _joined(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


def _bare(full: str) -> str:
    return full if "." in full else f"{NO_NAMESPACE}.{full}"


def _aliases(node: Mapping[str, Any], full: Callable[[str], str]) -> list[str]:
    given = node.get("aliases", [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise invalid_schema(f"aliases are not a list of names: {_shown(node)}")
    return sorted(map(full, given))


def _shown(node: Any) -> str:
    text = json.dumps(node)
    return text if len(text) <= 100 else f"{text[:100]}…"
