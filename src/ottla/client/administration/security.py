"""Users with SCRAM passwords, access rules, and delegation tokens."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.base.principal import Principal
from ottla.base.scram import MECHANISM_CODES, salt_password
from ottla.broker.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.client.administration.asking import Asking, check_all, refused
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
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

CODES = {name: code for code, name in MECHANISM_CODES.items()}
DEFAULT_ITERATIONS = 4096
SALT_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A delegation token; its `secret` is never printed with it."""

    token_id: str
    owner: Principal
    requester: Principal | None
    renewers: Sequence[Principal]
    issued_ms: int
    expires_ms: int
    max_ms: int
    secret: bytes = field(repr=False)


class SecurityAdmin(Asking):
    """Questions about who may come and what they may do, and changes to it."""

    # Users

    def describe_users(self) -> dict[str, dict[str, int]]:
        """The mechanisms of each user with a password, and their iterations."""
        request = DescribeUserScramCredentialsRequest(users=None)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("users", answer.error_code, answer.error_message)
        return {
            one.user: {
                MECHANISM_CODES[info.mechanism]: info.iterations for info in one.credential_infos
            }
            for one in answer.results
        }

    def set_password(
        self,
        user: str,
        password: str,
        mechanisms: Sequence[str],
        iterations: int = DEFAULT_ITERATIONS,
    ) -> None:
        """The password itself does not leave this process; raises `RefusedError`."""
        upsertions = []
        for mechanism in mechanisms:
            salt = secrets.token_bytes(SALT_SIZE)
            salted = salt_password(mechanism, password.encode(), salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=CODES[mechanism],
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        self._alter_users(AlterUserScramCredentialsRequest(upsertions=upsertions))

    def remove_user(self, user: str, mechanisms: Sequence[str]) -> None:
        """Raises `RefusedError`."""
        deletions = [ScramCredentialDeletion(name=user, mechanism=CODES[one]) for one in mechanisms]
        self._alter_users(AlterUserScramCredentialsRequest(deletions=deletions))

    def _alter_users(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({f"user {one.user}": one for one in answer.results})

    # Access rules

    def describe_acls(self, wanted: AclFilter) -> list[Acl]:
        """Raises `RefusedError`."""
        request = DescribeAclsRequest(**_filter_fields(wanted))
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("ACLs", answer.error_code, answer.error_message)
        return [
            _acl(resource, resource.pattern_type, one)
            for resource in answer.resources
            for one in resource.acls
        ]

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Raises `RefusedError`."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in acls
            ]
        )
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({f"ACL {number + 1}": one for number, one in enumerate(answer.results)})

    def delete_acls(self, wanted: AclFilter) -> list[Acl]:
        """Removes the rules that match; what they were. Raises `RefusedError`."""
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(wanted))])
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        (result,) = answer.filter_results
        check_all({"ACLs": result})
        return [_acl(one, one.pattern_type, one) for one in result.matching_acls]

    # Delegation tokens

    def create_token(
        self, owner: str | None, renewers: Sequence[str], lifetime_ms: int = -1
    ) -> Token:
        """Raises `RefusedError`."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[
                CreatableRenewers(principal_type="User", principal_name=one) for one in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        )
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return Token(
            token_id=answer.token_id,
            owner=Principal(answer.principal_type, answer.principal_name),
            requester=_requester(answer),
            renewers=[Principal("User", one) for one in renewers],
            issued_ms=answer.issue_timestamp_ms,
            expires_ms=answer.expiry_timestamp_ms,
            max_ms=answer.max_timestamp_ms,
            secret=bytes(answer.hmac),
        )

    def describe_tokens(self, owners: Sequence[str] | None = None) -> list[Token]:
        """Those that the client may see; raises `RefusedError`."""
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type="User", principal_name=one)
                for one in owners
            ]
        request = DescribeDelegationTokenRequest(owners=wanted)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation tokens": answer})
        return [
            Token(
                token_id=one.token_id,
                owner=Principal(one.principal_type, one.principal_name),
                requester=_requester(one),
                renewers=[Principal(each.principal_type, each.principal_name)
                          for each in one.renewers],
                issued_ms=one.issue_timestamp,
                expires_ms=one.expiry_timestamp,
                max_ms=one.max_timestamp,
                secret=bytes(one.hmac),
            )
            for one in answer.tokens
        ]  # fmt: skip

    def renew_token(self, secret: bytes, period_ms: int = -1) -> int:
        """Until when it is valid now; raises `RefusedError`."""
        request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return int(answer.expiry_timestamp_ms)

    def expire_token(self, secret: bytes, period_ms: int = -1) -> int:
        """Ends it after a time, or at once; raises `RefusedError`."""
        request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return int(answer.expiry_timestamp_ms)


def _filter_fields(wanted: AclFilter) -> Mapping[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _acl(resource: Any, pattern_type: int, one: Any) -> Acl:
    return Acl(
        ResourcePattern(
            ResourceType(resource.resource_type),
            PatternType(pattern_type),
            resource.resource_name,
        ),
        Entry(
            one.principal,
            one.host,
            Operation(one.operation),
            Permission(one.permission_type),
        ),
    )


def _requester(answer: Any) -> Principal | None:
    """Older brokers do not say who asked for a token."""
    name = getattr(answer, "token_requester_principal_name", "")
    kind = getattr(answer, "token_requester_principal_type", "")
    return Principal(kind, name) if name else None
