"""The schemas with which values were written, by the ids and GUIDs in the values."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.base.errors import UserError
from ottla.schema_registry.registry import RegisteredSchema, SchemaRegistry, UnknownSchemaError

Schema = TypeVar("Schema")

UNFRAMED = (
    "it does not begin with the prefix of Confluent's wire format (0, schema id), and no header "
    "names its schema"
)


class Writers(Generic[Schema]):
    """Looks each schema up in the registry once, and parses it once."""

    def __init__(
        self, registry: SchemaRegistry, kind: str, parse: Callable[[RegisteredSchema], Schema]
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._parse = parse
        self._known: dict[int | str, tuple[Schema | None, str]] = {}

    def of(self, schema: int | str) -> tuple[Schema | None, str]:
        """The parsed schema, or `None` and the fault; raises `UserError` if the registry is
        unreachable.
        """
        if schema not in self._known:
            self._known[schema] = self._find(schema)
        return self._known[schema]

    def _find(self, schema: int | str) -> tuple[Schema | None, str]:
        written = f"it was written with schema {schema}"
        try:
            if isinstance(schema, int):
                found = self._registry.schema(schema)
            else:
                found = self._registry.schema_of_guid(schema)
        except UnknownSchemaError as error:
            return None, f"{written}: {error}"
        if found.kind != self._kind:
            return None, f"{written}, which is {found.kind}, not {self._kind}"
        try:
            return self._parse(found), ""
        except UserError as error:
            return None, f"{written}: {error}"
