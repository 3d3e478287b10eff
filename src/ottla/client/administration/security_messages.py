"""The requests of `SecurityAdmin`, and the interpretation of their responses."""

import secrets
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from ottla.base.errors import UnknownNameError
from ottla.base.principal import USER, Principal
from ottla.base.scram import CODES_OF_MECHANISMS, MECHANISM_CODES, SALT_SIZE, salt_password
from ottla.client.administration.security_values import (
    AclBinding,
    AclBindingFilter,
    DelegationToken,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.metadata.acls import Operation, PatternType, Permission, ResourceType
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

Kind = TypeVar("Kind", bound=IntEnum)

# Users


def describe_users(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    named = None if users is None else [UserName(name=one) for one in users]
    return DescribeUserScramCredentialsRequest(users=named)


def mechanisms(results: Sequence[Any]) -> dict[str, dict[str, int]]:
    return {
        one.user: {
            MECHANISM_CODES[info.mechanism]: info.iterations for info in one.credential_infos
        }
        for one in results
    }


def alter_users(
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
) -> AlterUserScramCredentialsRequest:
    """Raises `UnknownNameError`."""
    upsertions, deletions = [], []
    for one in alterations:
        code = _mechanism_code(one.mechanism)
        if isinstance(one, UserScramCredentialDeletion):
            deletions.append(ScramCredentialDeletion(name=one.user, mechanism=code))
            continue
        salt, password = secrets.token_bytes(SALT_SIZE), one.password.encode()
        upsertion = ScramCredentialUpsertion(
            name=one.user,
            mechanism=code,
            iterations=one.iterations,
            salt=salt,
            salted_password=salt_password(one.mechanism, password, salt, one.iterations),
        )
        upsertions.append(upsertion)
    return AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)


def _mechanism_code(name: str) -> int:
    if name not in CODES_OF_MECHANISMS:
        raise UnknownNameError("mechanism", name, CODES_OF_MECHANISMS)
    return CODES_OF_MECHANISMS[name]


# Access rules


def describe_acls(wanted: AclBindingFilter) -> DescribeAclsRequest:
    """Raises `UnknownNameError`."""
    return DescribeAclsRequest(**_filter_fields(wanted))


def described_acls(resources: Sequence[Any]) -> list[AclBinding]:
    return [_acl(resource, one) for resource in resources for one in resource.acls]


def create_acls(acls: Iterable[AclBinding]) -> CreateAclsRequest:
    """Raises `UnknownNameError`."""
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=_code(ResourceType, "type of resource", one.resource_type),
                resource_name=one.name,
                resource_pattern_type=_code(PatternType, "type of pattern", one.pattern_type),
                principal=one.principal,
                host=one.host,
                operation=_code(Operation, "operation", one.operation),
                permission_type=_code(Permission, "permission", one.permission),
            )
            for one in acls
        ]
    )


def acl_text(one: AclBinding) -> str:
    """A rule in one line, as messages name it: `ACL User:ana write on topic logs- (prefixed)`."""
    deny = "deny " if one.permission == "DENY" else ""
    host = "" if one.host == "*" else f" from {one.host}"
    prefixed = " (prefixed)" if one.pattern_type == "PREFIXED" else ""
    operation, kind = one.operation.lower(), one.resource_type.lower().replace("_", " ")
    return f"ACL {deny}{one.principal}{host} {operation} on {kind} {one.name}{prefixed}"


def delete_acls(filters: Iterable[AclBindingFilter]) -> DeleteAclsRequest:
    """Raises `UnknownNameError`."""
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(one)) for one in filters])


def deleted_acls(results: Sequence[Any]) -> list[AclBinding]:
    return [_acl(one, one) for result in results for one in result.matching_acls]


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": _code(ResourceType, "type of resource", wanted.resource_type),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": _code(PatternType, "type of pattern", wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": _code(Operation, "operation", wanted.operation),
        "permission_type": _code(Permission, "permission", wanted.permission),
    }


def _code(kind: type[Kind], what: str, name: str) -> Kind:
    known = [one.name for one in kind if one.name != "UNKNOWN"]
    if name.upper() not in known:
        raise UnknownNameError(what, name.lower(), [one.lower() for one in known])
    return kind[name.upper()]


UNKNOWN = "UNKNOWN"
"""What only a later Kafka knows."""


def _acl(resource: Any, one: Any) -> AclBinding:
    return AclBinding(
        resource_type=_RESOURCE_TYPES.get(resource.resource_type, UNKNOWN),
        name=resource.resource_name,
        pattern_type=_PATTERN_TYPES.get(resource.pattern_type, UNKNOWN),
        principal=one.principal,
        host=one.host,
        operation=_OPERATIONS.get(one.operation, UNKNOWN),
        permission=_PERMISSIONS.get(one.permission_type, UNKNOWN),
    )


def _names(kind: type[IntEnum]) -> dict[int, str]:
    """The names by number: a cluster may have 100,000 rules, and a call of an enum is slow."""
    return {one.value: one.name for one in kind}


_RESOURCE_TYPES, _PATTERN_TYPES = _names(ResourceType), _names(PatternType)
_OPERATIONS, _PERMISSIONS = _names(Operation), _names(Permission)


# Delegation tokens


def create_token(
    owner: str | None, renewers: Iterable[str], max_lifetime_ms: int
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else USER,
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=USER, principal_name=one) for one in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )


def created_token(answer: Any, renewers: Iterable[str]) -> DelegationToken:
    return DelegationToken(
        token_id=answer.token_id,
        owner=Principal(answer.principal_type, answer.principal_name),
        requester=_requester(answer),
        renewers=[Principal(USER, one) for one in renewers],
        issued_ms=answer.issue_timestamp_ms,
        expires_ms=answer.expiry_timestamp_ms,
        max_ms=answer.max_timestamp_ms,
        secret=bytes(answer.hmac),
    )


def describe_tokens(owners: Iterable[str] | None) -> DescribeDelegationTokenRequest:
    wanted = None
    if owners is not None:
        wanted = [
            DescribeDelegationTokenOwner(principal_type=USER, principal_name=one) for one in owners
        ]
    return DescribeDelegationTokenRequest(owners=wanted)


def described_token(one: Any) -> DelegationToken:
    return DelegationToken(
        token_id=one.token_id,
        owner=Principal(one.principal_type, one.principal_name),
        requester=_requester(one),
        renewers=[Principal(each.principal_type, each.principal_name) for each in one.renewers],
        issued_ms=one.issue_timestamp,
        expires_ms=one.expiry_timestamp,
        max_ms=one.max_timestamp,
        secret=bytes(one.hmac),
    )


def renew_token(secret: bytes, period_ms: int) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)


def expire_token(secret: bytes, period_ms: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)


def _requester(answer: Any) -> Principal | None:
    """Older brokers do not report who requested a token."""
    name = getattr(answer, "token_requester_principal_name", "")
    kind = getattr(answer, "token_requester_principal_type", "")
    return Principal(kind, name) if name else None
