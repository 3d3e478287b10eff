"""Reads the settings of another Kafka's topics from a file, or from its ZooKeeper.

Kafka's counterpart: `ConfigCommand` (what it prints).
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.base.scram import HASHES, Credentials
from ottla.base.values import dataclass
from ottla.broker.quotas.client_quotas import CLIENT_ID, IP, USER
from ottla.broker.security.registered import credentials_of, limits_of
from ottla.metadata.acls import Acl
from ottla.metadata.quotas import QuotaEntity, Quotas, quota_entity
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper.access import decode_acls, decode_token, known_entries, pattern_at
from ottla.zookeeper.controllers import decode_features, decode_producer_ids
from ottla.zookeeper.entities import SCRAM_PREFIX, decode_config, setting_text
from ottla.zookeeper.paths import (
    ACL_FOLDERS,
    CONFIG_TYPES,
    DEFAULT_ENTITY,
    DELEGATION_TOKENS,
    DELETE_TOPICS,
    EXTENDED_ACLS,
    FEATURE,
    PRODUCER_ID_BLOCK,
    REASSIGN_PARTITIONS,
    TOPICS,
    config_path,
    desanitized,
    token_path,
)

if TYPE_CHECKING:
    from ottla.cluster.access import Access

TopicSettings = dict[str, dict[str, str]]
"""The settings of each topic that has its own; empty for a topic with the defaults."""

TIMEOUT_S = 10.0

FORMAT = 'a JSON object such as {"orders": {"retention.ms": "-1"}}, or what kafka-configs prints'

_TOPIC_LINE = lazy_pattern(r"(?:All|Dynamic) configs for topic (\S+) are:")
_SETTING_LINE = lazy_pattern(r"\s+([a-z.]+)=(.*?) sensitive=(?:true|false) synonyms=\{(.*)\}")


class ZooKeeper(Protocol):
    """The calls that are made to ZooKeeper; `kazoo.client.KazooClient` has them."""

    def exists(self, path: str) -> Any: ...

    def get_children(self, path: str) -> list[str]: ...

    def get(self, path: str) -> tuple[bytes | None, Any]: ...


def read_topic_settings(path: Path) -> TopicSettings:
    """Reads settings by topic from a file; raises `UserError` naming it."""
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
    """Settings as text; numbers and booleans may be written as in JSON."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: its settings must be an object of names and values")
    texts = {}
    for name, value in values.items():
        try:
            texts[name] = setting_text(value)
        except TypeError as error:
            raise UserError(f"{where}: the value of {name} must be a text or a number") from error
    return texts


def _described(text: str) -> TopicSettings:
    """Parses what `kafka-configs --describe --entity-type topics` printed.

    With `--all` it also lists values that the topic inherits. They are not the topic's own
    settings, but they applied to it: the broker's values are taken over, Kafka's defaults are not.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What ZooKeeper stores of a cluster: what can be taken over, and the names of what cannot."""

    topics: TopicSettings
    quotas: Quotas = field(default_factory=dict)
    next_producer_id: int = 0
    """The id after all blocks that its brokers were given."""
    credentials: Credentials = field(default_factory=dict)
    acls: tuple[Acl, ...] = ()
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """By token id."""
    default_configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of all brokers; passwords are encrypted, as in ZooKeeper."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The settings of single brokers, by id."""
    left_out: tuple[str, ...] = ()
    """What has no counterpart in a single broker's directories, in words."""


def read_zookeeper(address: str, access: "Access | None" = None) -> ClusterSettings:
    """Reads the settings in the cluster's ZooKeeper; raises `UserError`.

    Needs the package kazoo, which the extra `ottla[zookeeper]` installs.
    """
    with needed_for("--zookeeper"):
        from kazoo.client import KazooClient
        from kazoo.exceptions import AuthFailedError, ConnectionClosedError, KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    # kazoo logs every attempt to connect; the reason of the last one is raised.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    from ottla.cluster.access import Access

    refused = (AuthFailedError, ConnectionClosedError)
    access = access or Access()
    secured = access.connections()
    client = KazooClient(
        hosts=address, timeout=TIMEOUT_S, read_only=True, **access.options(secured)
    )
    try:
        client.start(timeout=TIMEOUT_S)
        found = cluster_settings_of(client)
    except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
        if access.login is not None and isinstance(error, refused):
            raise access.refused(f"ZooKeeper at {address}") from error
        failure = None if secured is None else secured.failure
        reason = str(failure or error) or type(error).__name__
        raise UserError(
            f"ZooKeeper at {address}: {reason}; name one that serves the cluster"
        ) from error
    finally:
        client.stop()
        client.close()
    return found


def cluster_settings_of(zookeeper: ZooKeeper) -> ClusterSettings:
    """Raises `ValueError` for a node that Kafka would not write."""
    topics = topic_settings_of(zookeeper)
    clients = dict(_client_settings(zookeeper))
    brokers = {
        name: _settings_at(zookeeper, f"brokers/{name}")
        for name in _children(zookeeper, config_path("brokers"))
    }
    return ClusterSettings(
        topics=topics,
        default_configs=brokers.pop(DEFAULT_ENTITY, {}),
        broker_configs={name: settings for name, settings in brokers.items() if settings},
        tokens=dict(_tokens(zookeeper)),
        left_out=tuple(_left_out(zookeeper, clients)),
        quotas={
            entity: limits
            for entity, settings in clients.items()
            if (limits := limits_of(entity, settings))
        },
        next_producer_id=_next_producer_id(zookeeper),
        credentials={
            key: credential
            for entity, settings in clients.items()
            for key, credential in credentials_of(entity, settings).items()
        },
        acls=tuple(dict.fromkeys(_acls(zookeeper))),
    )


def _client_settings(zookeeper: ZooKeeper) -> Iterator[tuple[QuotaEntity, dict[str, str]]]:
    """Returns the settings of users, client ids, pairs of both, and addresses."""
    for folder, kind in (("clients", CLIENT_ID), ("users", USER), ("ips", IP)):
        for name in _children(zookeeper, config_path(folder)):
            path, entity = f"{folder}/{name}", {kind: desanitized(name)}
            yield quota_entity(entity), _settings_at(zookeeper, path)
            for client in _children(zookeeper, config_path(f"{path}/clients")):
                both = {**entity, CLIENT_ID: desanitized(client)}
                yield quota_entity(both), _settings_at(zookeeper, f"{path}/clients/{client}")


def _next_producer_id(zookeeper: ZooKeeper) -> int:
    block = decode_producer_ids(_content(zookeeper, PRODUCER_ID_BLOCK))
    return 0 if block is None else block.end + 1


def _acls(zookeeper: ZooKeeper) -> Iterator[Acl]:
    for pattern_type, folder in ACL_FOLDERS.items():
        for kind in _children(zookeeper, folder):
            for name in _children(zookeeper, f"{folder}/{kind}"):
                path = f"{folder}/{kind}/{name}"
                entries = decode_acls(path, _content(zookeeper, path))
                pattern = pattern_at(pattern_type, kind, name)
                yield from (Acl(pattern, one) for one in known_entries(pattern, entries))


def _tokens(zookeeper: ZooKeeper) -> Iterator[tuple[str, DelegationToken]]:
    for name in _children(zookeeper, DELEGATION_TOKENS):
        content = _content(zookeeper, token_path(name))
        if content:
            yield name, decode_token(name, content)


def _left_out(
    zookeeper: ZooKeeper, clients: Mapping[QuotaEntity, Mapping[str, str]]
) -> Iterator[str]:
    """Returns what a user may miss: a cluster's work in progress, and kinds of a later Kafka."""
    for entity, settings in clients.items():
        for name in sorted(settings):
            if name.startswith(SCRAM_PREFIX) and (name not in HASHES or len(entity) > 1):
                whom = " and ".join(f"{kind} {who or 'default'}" for kind, who in entity)
                yield f"the {name} password of {whom}"
    for kind in _children(zookeeper, "/config"):
        names = _children(zookeeper, config_path(kind))
        if kind not in (*CONFIG_TYPES, "changes") and names:
            yield f"the settings of {kind} {', '.join(map(unquote, names))}"
    for kind in _children(zookeeper, EXTENDED_ACLS):
        if f"{EXTENDED_ACLS}/{kind}" not in ACL_FOLDERS.values():
            yield f"the ACLs of the pattern type {kind}"
    deleted = _children(zookeeper, DELETE_TOPICS)
    if deleted:
        yield f"the deletion of {', '.join(deleted)}, which the cluster had not finished"
    if _content(zookeeper, REASSIGN_PARTITIONS):
        yield "the reassignment of partitions that was in progress"
    features = _content(zookeeper, FEATURE)
    if features and (named := decode_features(features).features):
        yield f"the finalized features {', '.join(sorted(named))}"


def _content(zookeeper: ZooKeeper, path: str) -> bytes | None:
    return zookeeper.get(path)[0] if zookeeper.exists(path) else None


def _children(zookeeper: ZooKeeper, path: str) -> list[str]:
    return sorted(zookeeper.get_children(path)) if zookeeper.exists(path) else []


def topic_settings_of(zookeeper: ZooKeeper) -> TopicSettings:
    """Returns every topic of the cluster, with its settings under `/config/topics`.

    The brokers' settings apply to a topic as well; ZooKeeper does not know those that are in a
    server.properties. Raises `ValueError` for a node that Kafka would not write.
    """
    if not zookeeper.exists(TOPICS):
        raise ValueError(f"it has no {TOPICS}; add the chroot to the address, as HOST:PORT/kafka")
    return {
        topic: _settings_at(zookeeper, f"topics/{topic}")
        for topic in sorted(zookeeper.get_children(TOPICS))
    }


def _settings_at(zookeeper: ZooKeeper, entity_path: str) -> dict[str, str]:
    return decode_config(entity_path, _content(zookeeper, config_path(entity_path)))
