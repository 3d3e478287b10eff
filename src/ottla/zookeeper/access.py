"""Access control lists and delegation tokens.

Kafka's counterparts: `ResourceZNode`, `AclEntry`, `ExtendedAclChangeEvent`,
`DelegationTokenInfoZNode`.
"""

from collections.abc import Iterable
from typing import Any

from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.zookeeper.nodes import NodeError, decode_node, encode_node, number, text
from ottla.zookeeper.paths import ACL_FOLDERS, LITERAL, token_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AclEntry:
    """An access rule of a resource, in Kafka's words: `User:alice`, `Allow`, `Read`, `*`."""

    principal: str
    permission_type: str
    operation: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceName:
    """The resource of access rules, in Kafka's words: `Topic`, `orders`, `LITERAL`.

    The notice of a change has `TRANSACTIONAL_ID` where the path has `TransactionalId`.
    """

    resource_type: str
    name: str
    pattern_type: str = LITERAL


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    acls = [
        {
            "principal": one.principal,
            "permissionType": one.permission_type,
            "operation": one.operation,
            "host": one.host,
        }
        for one in entries
    ]
    return encode_node({"version": 1, "acls": acls})


def decode_acls(path: str, content: bytes | None) -> tuple[AclEntry, ...]:
    """Decodes the rules of a resource; none if the node has no content. Raises `NodeError`."""
    return decode_node(path, content, _parse_acls) if content else ()


def _parse_acls(fields: Any) -> tuple[AclEntry, ...]:
    return tuple(
        AclEntry(
            principal=text(one["principal"]),
            permission_type=text(one["permissionType"]),
            operation=text(one["operation"]),
            host=text(one["host"]),
        )
        for one in fields["acls"]
    )


def encode_acl_change(resource: ResourceName) -> bytes:
    """The notice of a change: JSON, or for a literal name `TOPIC:orders`."""
    kind = constant_of(resource.resource_type)
    if resource.pattern_type == LITERAL:
        return f"{kind}:{resource.name}".encode()
    return encode_node(
        {
            "version": 1,
            "resourceType": kind,
            "name": resource.name,
            "patternType": resource.pattern_type,
        }
    )


def decode_acl_change(path: str, content: bytes | None) -> ResourceName:
    if content and not content.startswith(b"{"):
        kind, colon, name = content.decode(errors="replace").partition(":")
        if not colon:
            raise NodeError(path, "no type and name separated by a colon")
        return ResourceName(resource_type=word_of(kind), name=name)
    return decode_node(path, content, _parse_acl_change)


_CAPITAL = lazy_pattern(r"(?<=[a-z])(?=[A-Z])")


def constant_of(word: str) -> str:
    """The name of Kafka's constant for a word in a node: TRANSACTIONAL_ID for `TransactionalId`."""
    return _CAPITAL.sub("_", word).upper()


def word_of(constant: str) -> str:
    """The inverse; a word stays as it is, since brokers before 2.4 wrote those in notices."""
    if not constant.isupper():
        return constant
    return "".join(map(str.capitalize, constant.split("_")))


def _parse_acl_change(fields: Any) -> ResourceName:
    pattern_type = text(fields["patternType"])
    if pattern_type not in ACL_FOLDERS:
        raise ValueError(f"patternType {pattern_type}")
    return ResourceName(
        resource_type=word_of(text(fields["resourceType"])),
        name=text(fields["name"]),
        pattern_type=pattern_type,
    )


def encode_token(token: DelegationToken) -> bytes:
    return encode_node(
        {
            "version": 3,
            "owner": token.owner,
            "tokenRequester": token.requester,
            "renewers": list(token.renewers),
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
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
        owner=owner,
        requester=text(fields.get("tokenRequester", owner)),
        renewers=tuple(text(one) for one in fields["renewers"]),
        issue_ms=number(fields["issueTimestamp"]),
        expiry_ms=number(fields["expiryTimestamp"]),
        max_ms=number(fields["maxTimestamp"]),
    )
