"""The access rules, SCRAM credentials and delegation tokens of a cluster, in one small file.

Format page: docs/format/ottla-security.md. Kafka keeps them in its metadata log; Ottla in one file
per log directory, which only its owner may read, and which Kafka ignores. The file is replaced as a
whole, so a crash leaves the old content or the new. When directories disagree the highest revision
is right.
"""

import base64
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ottla.base.files import FileSystem, join
from ottla.base.principal import Principal
from ottla.base.scram import HASHES, ScramCredential
from ottla.base.turns import sorted_in_turns
from ottla.base.values import dataclass
from ottla.broker.revised_state import RevisedState, StateFile, read_state_file
from ottla.broker.security.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.security.tokens import DelegationToken

SECURITY_FILE_NAME = "ottla-security.json"

Credentials = Mapping[tuple[str, str], ScramCredential]
"""By name of the user and mechanism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityState(RevisedState):
    acls: tuple[Acl, ...] = ()
    credentials: Credentials = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.acls or self.credentials or self.tokens)


def read_security_file(file_system: FileSystem, directory: str) -> SecurityState:
    """Returns the file's state, an empty one without a file; raises `CorruptionError`."""
    path = join(directory, SECURITY_FILE_NAME)
    return read_state_file(file_system, path, _parse, "users and ACLs") or SecurityState()


def _fields(state: SecurityState) -> dict[str, Any]:
    return {
        "acls": map(_acl_fields, state.acls),
        "scram_credentials": (
            _credential_fields(user, mechanism, one)
            for (user, mechanism), one in sorted_in_turns(state.credentials.items(), _key)
        ),
        "delegation_tokens": (
            _token_fields(one) for _, one in sorted_in_turns(state.tokens.items(), _key)
        ),
    }


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def _acl_fields(acl: Acl) -> dict[str, str]:
    pattern, entry = acl
    return {
        "resource_type": pattern.resource_type.name,
        "pattern_type": pattern.pattern_type.name,
        "name": pattern.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }


def _parse_acl(fields: Any) -> Acl:
    for name in ("name", "principal", "host"):
        if not isinstance(fields[name], str):
            raise TypeError(f"{name} must be a text")
    return Acl(
        ResourcePattern(
            ResourceType[fields["resource_type"]],
            PatternType[fields["pattern_type"]],
            fields["name"],
        ),
        Entry(
            fields["principal"],
            fields["host"],
            Operation[fields["operation"]],
            Permission[fields["permission"]],
        ),
    )


def _credential_fields(user: str, mechanism: str, one: ScramCredential) -> dict[str, Any]:
    return {
        "user": user,
        "mechanism": mechanism,
        "iterations": one.iterations,
        "salt": _text(one.salt),
        "stored_key": _text(one.stored_key),
        "server_key": _text(one.server_key),
    }


def _parse_credential(fields: Any) -> tuple[tuple[str, str], ScramCredential]:
    if fields["mechanism"] not in HASHES or not isinstance(fields["user"], str):
        raise ValueError("a user or a mechanism is invalid")
    return (fields["user"], fields["mechanism"]), ScramCredential(
        salt=_bytes(fields["salt"]),
        stored_key=_bytes(fields["stored_key"]),
        server_key=_bytes(fields["server_key"]),
        iterations=int(fields["iterations"]),
    )


def _token_fields(one: DelegationToken) -> dict[str, Any]:
    return {
        "token_id": one.token_id,
        "owner": list(one.owner),
        "requester": list(one.requester),
        "renewers": [list(principal) for principal in one.renewers],
        "issued_ms": one.issued_ms,
        "expires_ms": one.expires_ms,
        "max_ms": one.max_ms,
    }


def _parse_token(fields: Any) -> DelegationToken:
    return DelegationToken(
        token_id=str(fields["token_id"]),
        owner=_principal(fields["owner"]),
        requester=_principal(fields["requester"]),
        renewers=tuple(map(_principal, fields["renewers"])),
        issued_ms=int(fields["issued_ms"]),
        expires_ms=int(fields["expires_ms"]),
        max_ms=int(fields["max_ms"]),
    )


def _principal(pair: Any) -> Principal:
    kind, name = pair
    return Principal(str(kind), str(name))


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _parse(content: Any) -> SecurityState:
    tokens = map(_parse_token, content["delegation_tokens"])
    return SecurityState(
        revision=content["revision"],
        acls=tuple(map(_parse_acl, content["acls"])),
        credentials=dict(map(_parse_credential, content["scram_credentials"])),
        tokens={one.token_id: one for one in tokens},
    )


SECURITY_FILE = StateFile(
    name=SECURITY_FILE_NAME,
    read=read_security_file,
    fields=_fields,
    is_secret=lambda _: True,
    fix="restore the file: without it no client can log in",
)
