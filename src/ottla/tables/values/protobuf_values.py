"""Decodes Protobuf values with the `protobuf` library: one message per value."""

import base64
import binascii
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.protobuf_schemas import MessageTypes, message_class
from ottla.tables.values.decoder import Decoded, merged
from ottla.tables.values.protobuf_columns import message_column, message_type

_BROKEN = (ValueError, TypeError, OverflowError, ArithmeticError, RecursionError)
"""Errors of Protobuf and Arrow for values that a column cannot store."""


class ProtobufDecoder:
    """See `ValueDecoder`; `schema` is a descriptor set in base64, `message` a name in it."""

    def __init__(self, schema: str, message: str) -> None:
        descriptor = descriptors_of(schema).named(message)
        self._type = outermost_type(descriptor)
        self._messages = Messages(descriptor, self._type)

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        listed = values.to_pylist()
        places = [index for index, value in enumerate(listed) if value is not None]
        faults: dict[int, str] = {}
        rows, good = self._messages.rows([listed[one] for one in places], places, faults)
        return Decoded(merged(len(listed), rows, good, self._type), faults)


class Messages:
    """Parses values of one message type, and converts them to an Arrow type."""

    def __init__(self, descriptor: Any, kind: Any) -> None:
        """Raises `UserError` if the message's fields do not match the type."""
        from google.protobuf.message import DecodeError

        self._column = message_column(descriptor, kind)
        self._parse = message_class(descriptor).FromString
        self._broken = DecodeError
        self._kind = kind
        self._name = descriptor.full_name

    def rows(
        self, values: list[bytes], places: list[int], faults: dict[int, str]
    ) -> tuple[Any, list[int]]:
        """The rows of the valid values, and their places; the other values become faults."""
        import pyarrow as pa

        try:
            messages = [self._parse(one) for one in values]
        except self._broken:
            messages, places = self._sound(values, places, faults)
        is_whole = [one.IsInitialized() for one in messages]
        if not all(is_whole):
            for place, message, is_sound in zip(places, messages, is_whole, strict=True):
                if not is_sound:
                    missing = ", ".join(message.FindInitializationErrors())
                    faults[place] = f"it has no {missing}, which {self._name} requires"
            places = [one for one, is_sound in zip(places, is_whole, strict=True) if is_sound]
            messages = [one for one, is_sound in zip(messages, is_whole, strict=True) if is_sound]
        try:
            return self._column(messages), places
        except (pa.ArrowException, *_BROKEN):
            return self._one_by_one(messages, places, faults)

    def _sound(
        self, values: list[bytes], places: list[int], faults: dict[int, str]
    ) -> tuple[list[Any], list[int]]:
        messages, good = [], []
        for place, value in zip(places, values, strict=True):
            try:
                messages.append(self._parse(value))
                good.append(place)
            except self._broken as error:
                words = str(error).rpartition(": ")[2]
                faults[place] = f"it is not a Protobuf message {self._name}: {words}"
        return messages, good

    def _one_by_one(
        self, messages: list[Any], places: list[int], faults: dict[int, str]
    ) -> tuple[Any, list[int]]:
        """Converts messages one by one if one has no Arrow representation, such as invalid text."""
        import pyarrow as pa

        found, good = [], []
        for place, message in zip(places, messages, strict=True):
            try:
                found.append(self._column([message]))
                good.append(place)
            except (pa.ArrowException, *_BROKEN) as error:
                faults[place] = f"it cannot be stored: {error}"
        return pa.concat_arrays(found) if found else pa.nulls(0, self._kind), good


def outermost_type(descriptor: Any) -> Any:
    """The struct type of a message whose fields become a table's; raises `UserError`."""
    import pyarrow.types as types

    found = message_type(descriptor)
    if not types.is_struct(found):
        raise UserError(
            f"message {descriptor.full_name} has no fields of its own that a table could have; "
            f"name another message"
        )
    return found


def descriptors_of(schema: str) -> MessageTypes:
    """The inverse of `schema_of`; raises `UserError`."""
    try:
        return MessageTypes(base64.b64decode(schema, validate=True))
    except (binascii.Error, ValueError) as error:
        reason = f"the Protobuf schema is not a descriptor set in base64: {error}"
        raise UserError(reason) from error


def schema_of(descriptors: bytes) -> str:
    """The base64 text of a descriptor set, as stored in the ledger."""
    return base64.b64encode(descriptors).decode("ascii")
