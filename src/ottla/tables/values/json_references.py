"""What `$ref` names in a JSON Schema: by URI, `$id`, anchor or JSON pointer, in all its drafts.

URIs are compared without their percent escapes. A schema without `$id` has the URI of its name in
the registry; it is also found by this name where a relative URI would name another.
"""

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from ottla.base.errors import UserError
from ottla.schema_registry.registry import RegisteredSchema

_BASE: Final = "schema:///"
"""The URI of a schema that has none."""

_SCHEMAS: Final = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
    *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_LISTS: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPS: Final = (
    *("$defs", "definitions", "dependencies", "dependentSchemas"),
    *("patternProperties", "properties"),
)
"""Keywords whose values are schemas, lists of them, and objects of them."""

_NONE: Final = object()


class References:
    """The schemas of a document and of those that it references. `top` is the document's own."""

    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises `ValueError` for text that is not JSON."""
        self._bases: dict[int, str] = {}
        """By the identity of a schema: the URI to which its relative URIs relate."""
        self._resources: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self.top = json.loads(schema.text)
        self._add_document(self.top, _BASE)
        base = self._bases.get(id(self.top), _BASE)
        for name, text in schema.references.items():
            document = json.loads(text)
            self._resources.setdefault(_joined(_BASE, name), document)
            self._add_document(document, _joined(base, name))

    def _add_document(self, document: Any, uri: str) -> None:
        self._resources.setdefault(uri, document)
        self._add(document, uri, _dialect(document))

    def _add(self, schema: Any, base: str, dialect: str) -> None:
        """A schema and all within; an `$id` within constants is none."""
        if not isinstance(schema, dict):
            return
        uri, _, anchor = _identifier(schema, dialect).partition("#")
        if uri:
            base = _joined(base, uri)
            self._resources.setdefault(base, schema)
        self._bases[id(schema)] = base
        for name in (anchor, schema.get("$anchor"), schema.get("$dynamicAnchor")):
            if isinstance(name, str) and name:
                self._anchors.setdefault((base, unquote(name)), schema)
        for one in _within(schema):
            self._add(one, base, dialect)

    def found(self, reference: str, schema: Any, place: str) -> Any:
        """What `$ref` in a schema, which is at `place`, names; raises `UserError`."""
        uri, _, fragment = reference.partition("#")
        base = self._bases.get(id(schema), _BASE)
        try:
            wanted = _joined(base, uri) if uri else base
            by_name = _joined(_BASE, uri)
        except ValueError as error:
            raise UserError(f"{place}: the JSON Schema refers to {reference}: {error}") from error
        resource = self._resources.get(wanted, self._resources.get(by_name, _NONE))
        if resource is _NONE:
            raise UserError(
                f"{place}: the JSON Schema refers to {reference}, which does not exist: neither is "
                f"it the name of a reference, nor has a schema the $id {wanted.removeprefix(_BASE)}"
            )
        found = self._at(resource, unquote(fragment))
        if found is _NONE:
            raise UserError(f"{place}: the JSON Schema refers to {reference}, which does not exist")
        return found

    def _at(self, resource: Any, fragment: str) -> Any:
        base = self._bases.get(id(resource), _BASE)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((base, fragment), _NONE)
        found = resource
        for part in fragment.split("/")[1:]:
            base = self._bases.get(id(found), base)
            found = _member(found, part.replace("~1", "/").replace("~0", "~"))
        if isinstance(found, dict) and id(found) not in self._bases:  # below an unknown keyword
            self._add(found, base, _dialect(resource))
        return found


def _dialect(document: Any) -> str:
    found = document.get("$schema") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def _identifier(schema: dict[str, Any], dialect: str) -> str:
    """The `$id`, or draft 4's `id`; up to draft 7 a `$ref` stands alone."""
    if "draft-0" in dialect and "$ref" in schema:
        return ""
    found = schema.get("id" if "draft-04" in dialect or "draft-03" in dialect else "$id")
    return found if isinstance(found, str) else ""


def _within(schema: dict[str, Any]) -> Iterator[Any]:
    for word in _SCHEMAS:
        yield schema.get(word)
    for word in _LISTS:
        if isinstance(schema.get(word), list):
            yield from schema[word]
    for word in _MAPS:
        if isinstance(schema.get(word), dict):
            yield from schema[word].values()


def _member(value: Any, key: str) -> Any:
    match value:
        case dict():
            return value.get(key, _NONE)
        case list() if key.isascii() and key.isdigit() and int(key[:9]) < len(value):
            return value[int(key[:9])]
    return _NONE


def _joined(base: str, reference: str) -> str:
    """Like `urljoin`, which leaves out the base of schemes that it does not know."""
    scheme, _, rest = base.partition("://")
    if not rest or urlsplit(reference).scheme:
        return unquote(urljoin(base, reference))
    return unquote(scheme + urljoin(f"http://{rest}", reference).removeprefix("http"))
