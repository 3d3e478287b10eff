"""Writes src/ottla/config/typed_settings.py: the settings as an editor completes them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla.client.connecting.security import SECURITY_SETTINGS
from ottla.config.broker import broker_settings
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.producer import ProducerConfig
from ottla.config.setting import Setting, settings_of
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.config.topic import TopicConfig

MODULE = Path(__file__).resolve().parents[1] / "src/ottla/config/typed_settings.py"
WIDTH = 100

HEAD = '''"""Settings by Kafka's names, for editors and type checkers.

Made by `make docs` from the rows of the other modules here: change it there. A value may also be
the text that a settings file would have.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict'''

EXAMPLES = {
    "AdminSettings": '{"request.timeout.ms": 5000}',
    "BrokerSettings": '{"log.segment.bytes": 1 << 20}',
    "ConsumerSettings": '{"auto.offset.reset": "earliest"}',
    "ProducerSettings": '{"linger.ms": 5, "compression.type": "zstd"}',
    "ShareConsumerSettings": '{"share.acknowledgement.mode": "explicit"}',
    "TopicSettings": '{"cleanup.policy": "compact"}',
}

TYPES = {
    "boolean": "bool | str",
    "double": "float | str",
    "int": "int | str",
    "list": "Sequence[str] | str",
    "long": "int | str",
    "short": "int | str",
}


def module_text() -> str:
    """The whole module."""
    security = [
        (name, "bool | str" if name.startswith("enable.") else "str") for name in SECURITY_SETTINGS
    ]
    clients: tuple[tuple[str, str, type[ClientConfig]], ...] = (
        ("ProducerSettings", "of a producer", ProducerConfig),
        ("ConsumerSettings", "of a consumer", ConsumerConfig),
        ("ShareConsumerSettings", "of a share consumer", ShareConsumerConfig),
        ("AdminSettings", "of an admin client", ClientConfig),
    )
    parts = [HEAD]
    for name, owner, config in clients:
        rows = [*_types(settings_of(config).values()), *security]
        parts.append(_definition(name, owner, rows))
    topic = _types(settings_of(TopicConfig).values())
    parts.append(_definition("TopicSettings", "of a topic", topic))
    parts.append(_definition("BrokerSettings", "of a broker", _types(broker_settings().values())))
    return "\n\n".join(parts)


def _types(rows: Iterable[Setting]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.one_of is not None and row.kind == "string":
            yield row.name, f"Literal[{', '.join(_quoted(one) for one in row.one_of)}]"
        else:
            yield row.name, TYPES.get(row.kind, "str")


def _definition(name: str, what: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [line for one in sorted(dict(rows).items()) for line in _lines(*one)]
    body = "\n".join(lines)
    return (
        f'{name} = TypedDict(\n    "{name}",\n    {{\n{body}\n    }},\n    total=False,\n)\n'
        f'{name}.__doc__ = """Settings {what} by Kafka\'s names, for editors.\n\n'
        f'    >>> settings: ottla.{name} = {EXAMPLES[name]}\n"""\n'
    )


def _lines(name: str, kind: str) -> Iterator[str]:
    line = f"        {_quoted(name)}: {kind},"
    if len(line) <= WIDTH:
        yield line
        return
    choices = kind.removeprefix("Literal[").removesuffix("]")
    yield f"        {_quoted(name)}: Literal["
    if len(choices) + 12 <= WIDTH:
        yield f"            {choices}"
    else:
        yield from (f"            {one}," for one in choices.split(", "))
    yield "        ],"


def _quoted(text: str) -> str:
    return f'"{text}"'
