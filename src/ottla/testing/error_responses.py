"""Builds a response to any request with the same error in all its places.

Kafka's counterpart: `AbstractRequest.getErrorResponse`, which is written separately for each API.
Here it is derived from the declared messages: a response has an element for each element of the
request, and common fields are copied.
"""

from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.codec.fields import Field
from ottla.codec.schema import Message, Struct
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import response_class

SAME_THING = (
    frozenset({"partition", "partition_index", "index", "partition_id"}),
    frozenset({"name", "topic", "topic_name"}),
    frozenset({"key", "coordinator_key"}),
)
"""Fields that have different names in Kafka's requests and responses."""


ERROR_FIELDS = frozenset({"error_code", "partition_error_code", "acknowledge_error_code"})


def error_response(api: ApiKey, version: int, request: Message, error: ErrorCode) -> Message:
    """Builds the response; raises `UserError` if the API's responses have no place for an error."""
    check_place(api, version)
    filled: Message = _filled(response_class(api), version, request, error)
    return filled


def check_place(api: ApiKey, version: int) -> None:
    """Raises `UserError` if a response has no place for an error."""
    if not _has_place(response_class(api), version):
        raise UserError(f"a response to {api.name} has no place for an error; drop it instead")


def _has_place(struct: type[Struct], version: int) -> bool:
    return any(
        field.name in ERROR_FIELDS
        or (field.struct is not None and _has_place(field.struct, version))
        for field in struct.FIELDS
        if field.is_in(version)
    )


def _filled(struct: type[Struct], version: int, asked: Any, error: ErrorCode) -> Any:
    values: dict[str, Any] = {}
    is_named = False
    for field in struct.FIELDS:
        if not field.is_in(version):
            continue
        if field.name in ERROR_FIELDS:
            values[field.name] = int(error)
        elif field.kind == "array" and field.struct is not None:
            if _has_place(field.struct, version):
                values[field.name] = [
                    _filled(field.struct, version, one, error)
                    for one in _elements(asked, field, version)
                ]
        elif not isinstance(asked, Struct):
            # Elements that are plain names or numbers become the first field of the response's
            # elements.
            if not is_named:
                values[field.name] = asked
                is_named = True
        elif (found := _same_field(asked, field)) is not None:
            values[field.name] = getattr(asked, found)
    return struct(**values)


def _elements(asked: Any, field: Field, version: int) -> list[Any]:
    """The elements of the request's list of the same name, or of its first list."""
    if not isinstance(asked, Struct):
        return []
    lists = [one for one in asked.FIELDS if one.kind == "array" and one.is_in(version)]
    chosen = next((one for one in lists if one.name == field.name), lists[0] if lists else None)
    return [] if chosen is None else getattr(asked, chosen.name) or []


def _same_field(asked: Struct, field: Field) -> str | None:
    names = next((one for one in SAME_THING if field.name in one), frozenset({field.name}))
    for one in asked.FIELDS:
        if one.name in names and one.kind == field.kind:
            return one.name
    return None
