"""Where a person finds the settings of another Kafka's topics: in a file, or in its ZooKeeper.

Kafka's counterparts: `ConfigCommand` (what it prints), `ZkData.ConfigEntityZNode`.
"""

import json
import logging
import re
from pathlib import Path
from typing import Any, Protocol

from ottla.base.errors import UserError
from ottla.config.broker import topic_settings_by_broker_name

TopicSettings = dict[str, dict[str, str]]
"""The settings of each topic that has its own ones; none for a topic that has the defaults."""

TIMEOUT_S = 10.0

FORMAT = 'a JSON object such as {"orders": {"retention.ms": "-1"}}, or what kafka-configs prints'

_TOPIC_LINE = re.compile(r"(?:All|Dynamic) configs for topic (\S+) are:")
_SETTING_LINE = re.compile(r"\s+([a-z.]+)=(.*?) sensitive=(?:true|false) synonyms=\{(.*)\}")


class ZooKeeper(Protocol):
    """What is asked of ZooKeeper; `kazoo.client.KazooClient` has it."""

    def exists(self, path: str) -> Any: ...

    def get_children(self, path: str) -> list[str]: ...

    def get(self, path: str) -> tuple[bytes | None, Any]: ...


def read_topic_settings(path: Path) -> TopicSettings:
    """Settings by topic out of a file; raises `UserError` naming it."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read; name {FORMAT}") from error
    if _TOPIC_LINE.search(text):
        return _described(text)
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: {error}; it must be {FORMAT}") from error
    if not isinstance(fields, dict):
        raise UserError(f"{path}: not {FORMAT}")
    return {topic: _texts(values, f"{path}: topic {topic}") for topic, values in fields.items()}


def _texts(values: Any, where: str) -> dict[str, str]:
    """Settings as texts; numbers and booleans may be written as JSON has them."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: its settings must be an object of names and values")
    texts = {}
    for name, value in values.items():
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            texts[name] = ",".join(value)
        elif isinstance(value, str | int | float):
            texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise UserError(f"{where}: the value of {name} must be a text or a number")
    return texts


def _described(text: str) -> TopicSettings:
    """What `kafka-configs --describe --entity-type topics` printed.

    With `--all` there are also values that the topic only inherits: they are no settings of its
    own, but were what held for it, so the broker's are taken along, and Kafka's defaults not.
    """
    found: TopicSettings = {}
    topic: dict[str, str] | None = None
    for line in text.splitlines():
        heading = _TOPIC_LINE.match(line)
        if heading is not None:
            topic = found.setdefault(heading[1], {})
            continue
        setting = _SETTING_LINE.match(line)
        if setting is None or topic is None:
            continue
        name, value, synonyms = setting.groups()
        if synonyms and not synonyms.startswith("DEFAULT_CONFIG"):
            topic[name] = value
    return found


def read_zookeeper(address: str) -> TopicSettings:
    """Settings of all topics of the cluster; raises `UserError`.

    Needs the package kazoo, which the extra `ottla[zookeeper]` installs.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise UserError(
            "--zookeeper needs the package kazoo: pip install 'ottla[zookeeper]'"
        ) from error
    # It logs every try to connect; the last one's reason is raised.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    client = KazooClient(hosts=address, timeout=TIMEOUT_S, read_only=True)
    try:
        client.start(timeout=TIMEOUT_S)
        found = topic_settings_of(client)
    except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UserError(
            f"ZooKeeper at {address}: {reason}; name one that serves the cluster"
        ) from error
    finally:
        client.stop()
        client.close()
    return found


def topic_settings_of(zookeeper: ZooKeeper) -> TopicSettings:
    """Every topic that the cluster has, with the settings under `/config/topics`.

    Where it has none of its own, those of all brokers count that a client has changed; what is in
    a server.properties ZooKeeper does not know.

    Raises `ValueError` for a node that is not what Kafka writes.
    """
    if not zookeeper.exists("/brokers/topics"):
        raise ValueError(
            "it has no /brokers/topics; add the chroot to the address, as HOST:PORT/kafka"
        )
    rows = topic_settings_by_broker_name()
    defaults = {
        rows[name].name: text
        for name, text in _settings_at(zookeeper, "/config/brokers/<default>").items()
        if name in rows
    }
    return {
        topic: {**defaults, **_settings_at(zookeeper, f"/config/topics/{topic}")}
        for topic in sorted(zookeeper.get_children("/brokers/topics"))
    }


def _settings_at(zookeeper: ZooKeeper, path: str) -> dict[str, str]:
    if not zookeeper.exists(path):
        return {}
    content, _ = zookeeper.get(path)
    try:
        return _texts(json.loads(content or b'{"config": {}}')["config"], path)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not what Kafka writes there ({error!r})") from error
