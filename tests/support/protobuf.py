"""Protobuf messages for tests: schemas compiled from text, and values written by them."""

from typing import Any

from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.protobuf_schemas import MessageTypes, compiled, message_class
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.protobuf_values import schema_of


def proto(body: str, imports: str = "") -> str:
    """A text in the package `shop`."""
    return f'syntax = "proto3"; package shop; {imports}\n{body}'


def message(text: str, name: str = "", **references: str) -> Any:
    """The class of a message."""
    return message_class(MessageTypes(compiled(text, references)).named(name))


def given(text: str, name: str = "", **references: str) -> Decoding:
    """Values of that schema, without a registry."""
    schema = schema_of(compiled(text, references))
    return Decoding(format=ValueFormat.PROTOBUF, schema=schema, message=name)


def registered(value: Any, schema_id: int = 1, indexes: bytes = b"\0") -> bytes:
    """A message in the framing of registries."""
    return PREFIX.pack(0, schema_id) + indexes + bytes(value.SerializeToString())
