"""How `ottla console` decodes keys and values: a registry, and schema files by topic."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.cli.settings_files import REGISTRY_URL, registry_login, registry_options
from ottla.cli.terminal import with_options

if TYPE_CHECKING:
    from ottla.console.decoding import Decodings, SchemaFile

PATIENCE_S = 5.0
"""How long a page waits for the registry."""


def _by_topic(option: str, metavar: str, words: str) -> Callable[[Any], Any]:
    return click.option(option, metavar=metavar, multiple=True, help=words)


decoding_options = with_options(
    *registry_options("which keys and values name by id"),
    _by_topic(
        "--schema",
        "TOPIC=FILE",
        "Schema of a topic's values: Avro, or a .proto file; repeatable.",
    ),
    _by_topic("--message", "TOPIC=NAME", "Message type of a topic's Protobuf values; repeatable."),
    _by_topic("--key-schema", "TOPIC=FILE", "Schema of a topic's keys; repeatable."),
    _by_topic(
        "--key-message", "TOPIC=NAME", "Message type of a topic's Protobuf keys; repeatable."
    ),
)


def decodings(given: Mapping[str, Any], settings: Mapping[str, str]) -> "Decodings":
    """The decodings of a target, of the options and its registry's settings; raises `UserError`."""
    from ottla.console.decoding import Decodings
    from ottla.schema_registry.opening import open_registry

    address = given["registry"] or settings.get(REGISTRY_URL)
    registry = None
    if address:
        login = registry_login(given["registry_config"], settings, address)
        registry = open_registry(address, login, patience_s=PATIENCE_S)
    return Decodings(registry, dict(_files(given)))


def _files(given: Mapping[str, Any]) -> "Iterable[tuple[tuple[str, str], SchemaFile]]":
    from ottla.console.decoding import SchemaFile

    for side, prefix in (("value", ""), ("key", "key_")):
        messages = dict(_pairs(f"{prefix}message", given))
        for topic, path in _pairs(f"{prefix}schema", given):
            yield (topic, side), SchemaFile(path=path, message=messages.pop(topic, ""))
        for topic in messages:
            option = f"{prefix}message".replace("_", "-")
            wanted = f"{prefix}schema".replace("_", "-")
            raise UserError(
                f"--{option} {topic}=... names a type of a schema: add --{wanted} {topic}=FILE"
            )


def _pairs(name: str, given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for text in given[name]:
        topic, _, what = text.partition("=")
        if not topic or not what:
            option, example = name.replace("_", "-"), "orders=orders.avsc"
            if name.endswith("message"):
                example = "orders=shop.Order"
            raise UserError(f"--{option} {text}: name the topic too, such as {example}")
        yield topic, what
