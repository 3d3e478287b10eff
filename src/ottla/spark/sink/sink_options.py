"""The options of the sink `ottla`, read once and checked, before any task runs.

Names and meanings are those of Spark's own Kafka sink, and after `kafka.` those of Kafka's
producer, as far as Ottla's client has them. As in Spark's sink, other columns are left out and
unknown options do not end a job; each is named in a warning. Settings that would be missed (TLS,
logins, serializers) are refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base.addresses import Address
from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.security import SECURITY_SETTINGS, parse_security, split_security
from ottla.codec.compression import CODECS, Compression
from ottla.sources.client_options import BOOTSTRAP_OPTION, CLIENT_PREFIX, SECURITY
from ottla.sources.option_texts import (
    Fields,
    parse_addresses,
    parse_count,
    parse_plain,
    parse_seconds,
    parse_truth,
    read_fields,
)
from ottla.sources.options import given_options

BATCH_SIZE = 1_000_000
"""Maximum bytes of a batch: just under Kafka's default of `max.message.bytes`."""

MAX_REQUEST_SIZE = 1 << 20
REQUEST_TIMEOUT_S = 30.0
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 1.0
PATIENCE_S = 120.0
"""Kafka's `delivery.timeout.ms`."""

TOPIC_PATIENCE_S = 10.0
"""How long the automatic creation of a topic may take."""

TRANSACTION_TIMEOUT_MS = 900_000
"""The maximum that brokers allow by default: a batch may take long, and so may a restart."""

COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
"""The columns that are written, and the types that each may have, in Spark's syntax."""

_REFUSED = {
    "key.serializer": "keys are bytes; cast the column",
    "value.serializer": "values are bytes; cast the column",
    "interceptor.classes": "leave it out",
    "partitioner.class": "give the rows a column partition",
    "partitioner.ignore.keys": "give the rows a column partition",
    "transactional.id": "the sink names its transactions itself",
}

_HARMLESS = frozenset({"sasl.client.callback.handler.class"})
"""For another login than Kafka's client makes: without it a login works or is refused."""

OPTIONS = ("topic", "exactlyOnce")
_OF_SPARK = ("checkpointLocation", "queryName")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one write; `topic` is `None` if each row names its own."""

    bootstrap: tuple[Address, ...]
    client: ClientSettings
    topic: str | None
    is_exactly_once: bool = True
    compression: Compression = Compression.NONE
    batch_size: int = BATCH_SIZE
    max_request_size: int = MAX_REQUEST_SIZE
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    topic_patience_s: float = TOPIC_PATIENCE_S
    without_effect: tuple[str, ...] = ()
    """Options that were given, and that change nothing."""


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parses options from Spark, with names in any case; raises `UserError`."""
    options = given_options(given)
    client = {
        name.removeprefix(CLIENT_PREFIX): options.pop(name)
        for name in sorted(options)
        if name.startswith(CLIENT_PREFIX)
    }
    _check_place(options, client)
    known = {name.lower() for name in (*OPTIONS, *_OF_SPARK)}
    unknown = sorted(name for name in options if name not in known)
    topic = options.get("topic")
    topic = topic if topic is None else topic.strip()
    if topic is not None and (not topic or "," in topic):
        raise UserError("option topic takes the name of one topic")
    exactly_once = parse_truth("exactlyOnce", options.get("exactlyonce", "true"))
    return _with_client(client, unknown, topic=topic, is_exactly_once=exactly_once)


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """Checks the rows' columns and their types, in Spark's syntax; raises `UserError`."""
    for name, kind in types.items():
        if name in COLUMNS and kind not in COLUMNS[name]:
            wanted = " or ".join(COLUMNS[name])
            raise UserError(f"column {name} must be {wanted}, not {kind}; cast it")
    if "value" not in types:
        raise UserError("there is no column value with the records' values; rename one to that")
    if options.topic is None and "topic" not in types:
        raise UserError("the sink needs an option topic, or a column topic")


def _check_place(options: Mapping[str, str], client: Mapping[str, str]) -> None:
    if "path" in options:
        raise UserError(
            f"only one process can write a data directory, and Spark has many tasks; run "
            f"`ottla serve --data-dir {options['path']}`, and give {BOOTSTRAP_OPTION} for path"
        )
    if "bootstrap.servers" not in client:
        raise UserError(
            f"the sink ottla writes through a broker; give option {BOOTSTRAP_OPTION}, in SQL with "
            f"INSERT INTO ... WITH (`{BOOTSTRAP_OPTION}` = 'HOST:PORT', topic = 'NAME')"
        )


def _with_client(client: dict[str, str], unknown: Sequence[str], **chosen: Any) -> SinkOptions:
    """Adds the options of Kafka's producer."""
    security, client = split_security(client)
    acks = client.get("acks", "all")
    if acks not in ("all", "-1", "0", "1"):
        raise UserError(f"option kafka.acks takes all, -1, 0, 1, not {acks!r}")
    settings = {name: text for name, text in client.items() if name in {*_CLIENT, *_SINK}}
    ignored = [
        name for name in client if name not in settings and (name != "acks" or acks in ("0", "1"))
    ]
    for name in ignored:
        _check_missable(name)
    found = _DEFAULTS | read_fields(settings, _CLIENT, CLIENT_PREFIX)
    found["security"] = parse_security(security)
    rest = read_fields(settings, _SINK, CLIENT_PREFIX)
    return SinkOptions(
        client=ClientSettings(makes_topics=True, **found),
        without_effect=(*unknown, *(CLIENT_PREFIX + name for name in sorted(ignored))),
        **rest,
        **chosen,
    )


def _check_missable(name: str) -> None:
    """Raises `UserError` for a setting whose user would not get what it asks for."""
    if name in _REFUSED:
        raise UserError(f"option {CLIENT_PREFIX}{name} is not for this sink: {_REFUSED[name]}")
    if name.startswith(SECURITY) and name not in _HARMLESS:
        raise UserError(
            f"the sink ottla has no option {CLIENT_PREFIX + name!r}; of security there are "
            f"{_names(CLIENT_PREFIX + one for one in SECURITY_SETTINGS)}"
        )


def _compression(option: str, text: str) -> Compression:
    if text.lower() not in CODECS:
        raise UserError(f"option {option} takes {_names(CODECS)}, not {text!r}")
    return CODECS[text.lower()]


def _names(names: Any) -> str:
    return ", ".join(names)


_CLIENT: Fields = {
    "client.id": ("client_id", parse_plain),
    "request.timeout.ms": ("request_timeout_s", parse_seconds),
    "delivery.timeout.ms": ("patience_s", parse_seconds),
}
"""Options of Kafka's producer -> fields of `ClientSettings`, with their parsers."""

_DEFAULTS = {
    "request_timeout_s": REQUEST_TIMEOUT_S,
    "first_pause_s": FIRST_PAUSE_S,
    "last_pause_s": LAST_PAUSE_S,
    "patience_s": PATIENCE_S,
}

_SINK: Fields = {
    "bootstrap.servers": ("bootstrap", parse_addresses),
    "compression.type": ("compression", _compression),
    "batch.size": ("batch_size", parse_count),
    "max.request.size": ("max_request_size", parse_count),
    "transaction.timeout.ms": ("transaction_timeout_ms", parse_count),
    "max.block.ms": ("topic_patience_s", parse_seconds),
}
"""The same for fields of `SinkOptions`."""
