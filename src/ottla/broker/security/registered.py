"""Converts users, quotas, access rules and tokens to and from their form in a cluster's registries.

Passwords and quotas are settings of users and client ids; access rules are lists, one for each
pattern of resources. Kafka's counterparts: `ZkConfigManager`, `AclAuthorizer`.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from math import isfinite
from sys import float_info
from typing import Final, TypeVar

from ottla.base.principal import parse_principal
from ottla.base.scram import HASHES, ScramCredential
from ottla.broker.configs.cluster_state import QuotaEntity, quota_entity
from ottla.broker.quotas.client_quotas import CLIENT_ID, CONNECTION_RATE, IP, USER
from ottla.broker.security.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.security.security_state import Credentials
from ottla.broker.security.tokens import DelegationToken
from ottla.zookeeper.access import AclEntry, ResourceName, constant_of, word_of
from ottla.zookeeper.access import DelegationToken as TokenNode
from ottla.zookeeper.entities import SCRAM_PREFIX, decode_scram, encode_scram
from ottla.zookeeper.paths import desanitized, sanitized

Kind = TypeVar("Kind", bound=IntEnum)

USERS: Final = "users"
CLIENTS: Final = "clients"
ADDRESSES: Final = "ips"
MORE_THAN_ZERO: Final = float_info.min


# Users, client ids and addresses


def entity_of(path: str) -> QuotaEntity | None:
    """Parses `users/alice`, `clients/app`, `users/alice/clients/app` or `ips/10.0.0.7`.

    Returns `None` for any other path.
    """
    match path.split("/"):
        case ["users", user]:
            return quota_entity({USER: desanitized(user)})
        case ["clients", client]:
            return quota_entity({CLIENT_ID: desanitized(client)})
        case ["users", user, "clients", client]:
            return quota_entity({USER: desanitized(user), CLIENT_ID: desanitized(client)})
        case ["ips", address]:
            return quota_entity({IP: desanitized(address)})
    return None


def entity_path(entity: QuotaEntity) -> str:
    """The inverse of `entity_of`."""
    names = dict(entity)
    folders = ((USER, USERS), (CLIENT_ID, CLIENTS), (IP, ADDRESSES))
    return "/".join(
        f"{folder}/{sanitized(names[kind])}" for kind, folder in folders if kind in names
    )


def user_path(user: str) -> str:
    return f"{USERS}/{sanitized(user)}"


def limits_of(entity: QuotaEntity, settings: Mapping[str, str]) -> dict[str, float]:
    """Returns the quotas in an entity's settings; raises `ValueError`."""
    try:
        limits = {name: float(text) for name, text in settings.items() if not _is_scram(name)}
    except ValueError as error:
        raise ValueError(f"the quotas of {dict(entity)} are not numbers ({error})") from error
    for name, limit in limits.items():
        least = 0.0 if name == CONNECTION_RATE else MORE_THAN_ZERO
        if not (isfinite(limit) and limit >= least):
            raise ValueError(f"the quota {name} of {dict(entity)} is {limit}, which is too low")
    return limits


def with_limits(settings: Mapping[str, str], limits: Mapping[str, float | None]) -> dict[str, str]:
    """Returns an entity's settings with changed limits: `None` removes a limit, others stay.

    Java parses rates of bytes and of connections as integers.
    """
    left = {name: text for name, text in settings.items() if name not in limits}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return left | {name: _number(name, limit) for name, limit in given.items()}


def _number(name: str, limit: float) -> str:
    is_whole = name == CONNECTION_RATE or name.endswith("_byte_rate")
    return str(int(limit)) if is_whole else str(float(limit))


def _is_scram(name: str) -> bool:
    return name.startswith(SCRAM_PREFIX)


def credentials_of(entity: QuotaEntity, settings: Mapping[str, str]) -> Credentials:
    """Returns a user's passwords by name and mechanism; raises `ValueError`."""
    match entity:
        case ((kind, user),) if kind == USER and user is not None:
            return {
                (user, mechanism): _credential(user, text)
                for mechanism, text in settings.items()
                if mechanism in HASHES
            }
    return {}


def _credential(user: str, text: str) -> ScramCredential:
    try:
        return decode_scram(text)
    except ValueError as error:
        raise ValueError(f"the password of {user} is {error}") from error


def with_credentials(settings: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
    """Returns a user's settings with all its passwords replaced."""
    others = {name: text for name, text in settings.items() if name not in HASHES}
    return others | {mechanism: encode_scram(one) for (_, mechanism), one in credentials.items()}


# Access rules


def acls_of(resource: ResourceName, entries: Iterable[AclEntry]) -> tuple[Acl, ...]:
    """Raises `ValueError` for a rule of an unknown kind: without it, clients might get access that
    the rule denies.
    """
    pattern = pattern_of(resource)
    where = f"{resource.resource_type} {resource.name}"
    return tuple(
        Acl(
            pattern,
            Entry(
                one.principal,
                one.host,
                _known(Operation, one.operation, where),
                _known(Permission, one.permission_type, where),
            ),
        )
        for one in entries
    )


def pattern_of(resource: ResourceName) -> ResourcePattern:
    """Raises `ValueError` for an unknown type of resource or pattern."""
    return ResourcePattern(
        _known(ResourceType, resource.resource_type, resource.name),
        _known(PatternType, resource.pattern_type, resource.name),
        resource.name,
    )


def resource_of(pattern: ResourcePattern) -> ResourceName:
    return ResourceName(
        resource_type=word_of(pattern.resource_type.name),
        name=pattern.name,
        pattern_type=pattern.pattern_type.name,
    )


def entry_of(acl: Acl) -> AclEntry:
    principal, host, operation, permission = acl.entry
    return AclEntry(
        principal=principal,
        permission_type=word_of(permission.name),
        operation=word_of(operation.name),
        host=host,
    )


# Delegation tokens


def token_of(node: TokenNode) -> DelegationToken:
    return DelegationToken(
        token_id=node.token_id,
        owner=parse_principal(node.owner),
        requester=parse_principal(node.requester),
        renewers=tuple(map(parse_principal, node.renewers)),
        issued_ms=node.issue_ms,
        expires_ms=node.expiry_ms,
        max_ms=node.max_ms,
    )


def token_node(token: DelegationToken) -> TokenNode:
    return TokenNode(
        token_id=token.token_id,
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=tuple(map(str, token.renewers)),
        issue_ms=token.issued_ms,
        expiry_ms=token.expires_ms,
        max_ms=token.max_ms,
    )


def _known(kind: type[Kind], word: str, where: str) -> Kind:
    """Returns the member for Kafka's word, such as TRANSACTIONAL_ID for `TransactionalId`."""
    try:
        return kind[constant_of(word)]
    except KeyError as error:
        raise ValueError(
            f"an access rule of {where} has the {kind.__name__} {word}, which is not known"
        ) from error
