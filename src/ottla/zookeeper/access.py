"""Access control lists and delegation tokens.

Kafka's counterparts: `ResourceZNode`, `AclEntry`, `ExtendedAclChangeEvent`,
`DelegationTokenInfoZNode`.
"""

from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from ottla.base.patterns import lazy_pattern
from ottla.base.principal import parse_principal
from ottla.metadata.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper.nodes import NodeError, decode_node, encode_node, number, text
from ottla.zookeeper.paths import ACL_FOLDERS, token_path

Kind = TypeVar("Kind", bound=IntEnum)


class UnknownEntry(NamedTuple):
    """An access rule of a later Kafka, as it stands in the node, where it stays."""

    principal: str
    host: str
    operation: str
    permission: str


Entries = tuple[Entry | UnknownEntry, ...]


def acl_path(pattern: ResourcePattern) -> str:
    """The node of a resource."""
    resource_type, pattern_type, name = pattern
    folder = ACL_FOLDERS[pattern_type]
    if resource_type is ResourceType.UNKNOWN:
        return f"{folder}/{name}"
    return f"{folder}/{_word_of(resource_type.name)}/{name}"


def pattern_at(pattern_type: PatternType, resource_type: str, name: str) -> ResourcePattern:
    """The resource of a node. One of a later Kafka is UNKNOWN, and has its type in its name."""
    kind = ResourceType.__members__.get(_constant_of(resource_type))
    if kind is None:
        kind, name = ResourceType.UNKNOWN, f"{resource_type}/{name}"
    return ResourcePattern(kind, pattern_type, name)


def known_entries(pattern: ResourcePattern, entries: Entries) -> list[Entry]:
    """Raises `ValueError` for a rule of an unknown kind: without it, clients might get access that
    the rule denies.
    """
    if pattern.resource_type is ResourceType.UNKNOWN:
        resource_type, _, name = pattern.name.partition("/")
        raise _unknown(ResourceType, resource_type, name)
    known = [one for one in entries if isinstance(one, Entry)]
    for one in entries:
        if isinstance(one, UnknownEntry):
            where = f"{_word_of(pattern.resource_type.name)} {pattern.name}"
            _member(Operation, one.operation, where)
            _member(Permission, one.permission, where)
    return known


def _member(kind: type[Kind], word: str, where: str) -> Kind:
    """The member for Kafka's word, such as TRANSACTIONAL_ID for `TransactionalId`."""
    member = kind.__members__.get(_constant_of(word))
    if member is None:
        raise _unknown(kind, word, where)
    return member


def _unknown(kind: type[IntEnum], word: str, where: str) -> ValueError:
    return ValueError(
        f"an access rule of {where} has the {kind.__name__} {word}, which is not known"
    )


def encode_acls(entries: Entries) -> bytes:
    acls = [
        {
            "principal": one.principal,
            "permissionType": _written(one.permission),
            "operation": _written(one.operation),
            "host": one.host,
        }
        for one in entries
    ]
    return encode_node({"version": 1, "acls": acls})


def _written(value: IntEnum | str) -> str:
    return value if isinstance(value, str) else _word_of(value.name)


def decode_acls(path: str, content: bytes | None) -> Entries:
    """Decodes the rules of a resource; none if the node has no content. Raises `NodeError`."""
    return decode_node(path, content, _parse_acls) if content else ()


def _parse_acls(fields: Any) -> Entries:
    return tuple(
        _entry(
            UnknownEntry(
                principal=text(one["principal"]),
                host=text(one["host"]),
                operation=text(one["operation"]),
                permission=text(one["permissionType"]),
            )
        )
        for one in fields["acls"]
    )


def _entry(one: UnknownEntry) -> Entry | UnknownEntry:
    operation = Operation.__members__.get(_constant_of(one.operation))
    permission = Permission.__members__.get(_constant_of(one.permission))
    if operation is None or permission is None:
        return one
    return Entry(one.principal, one.host, operation, permission)


def encode_acl_change(resource: ResourcePattern) -> bytes:
    """The notice of a change: JSON, or for a literal name `TOPIC:orders`."""
    kind = resource.resource_type.name
    if resource.pattern_type is PatternType.LITERAL:
        return f"{kind}:{resource.name}".encode()
    return encode_node(
        {
            "version": 1,
            "resourceType": kind,
            "name": resource.name,
            "patternType": resource.pattern_type.name,
        }
    )


def decode_acl_change(path: str, content: bytes | None) -> ResourcePattern:
    if content and not content.startswith(b"{"):
        kind, colon, name = content.decode(errors="replace").partition(":")
        if not colon:
            raise NodeError(path, "no type and name separated by a colon")
        return pattern_at(PatternType.LITERAL, _word_of(kind), name)
    return decode_node(path, content, _parse_acl_change)


_CAPITAL = lazy_pattern(r"(?<=[a-z])(?=[A-Z])")


def _constant_of(word: str) -> str:
    """The name of Kafka's constant for a word in a node: TRANSACTIONAL_ID for `TransactionalId`."""
    return _CAPITAL.sub("_", word).upper()


def _word_of(constant: str) -> str:
    """The inverse; a word stays as it is, since brokers before 2.4 wrote those in notices."""
    if not constant.isupper():
        return constant
    return "".join(map(str.capitalize, constant.split("_")))


def _parse_acl_change(fields: Any) -> ResourcePattern:
    pattern_type = PatternType[text(fields["patternType"])]
    if pattern_type not in ACL_FOLDERS:
        raise ValueError(f"patternType {pattern_type.name}")
    return pattern_at(pattern_type, _word_of(text(fields["resourceType"])), text(fields["name"]))


def encode_token(token: DelegationToken) -> bytes:
    return encode_node(
        {
            "version": 3,
            "owner": str(token.owner),
            "tokenRequester": str(token.requester),
            "renewers": list(map(str, token.renewers)),
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenID": token.token_id,
        }
    )


def decode_token(token_id: str, content: bytes | None) -> DelegationToken:
    """Decodes a token; before version 3 the owner is also the requester. Raises `NodeError`."""
    return decode_node(token_path(token_id), content, _parse_token)


def _parse_token(fields: Any) -> DelegationToken:
    owner = text(fields["owner"])
    return DelegationToken(
        token_id=text(fields["tokenID"]),
        owner=parse_principal(owner),
        requester=parse_principal(text(fields.get("tokenRequester", owner))),
        renewers=tuple(parse_principal(text(one)) for one in fields["renewers"]),
        issued_ms=number(fields["issueTimestamp"]),
        expires_ms=number(fields["expiryTimestamp"]),
        max_ms=number(fields["maxTimestamp"]),
    )
