"""Users with passwords, and access rules, from each directory's file."""

from collections.abc import Sequence
from typing import Protocol

from ottla.client.administration.security_values import EVERY_ACL, AclBinding, AclBindingFilter
from ottla.client.at_rest.known import read_known
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


class SecurityList(Protocol):
    """Describes users and rules: a `SecurityAdmin`, or the files of a directory."""

    def describe_user_scram_credentials(self) -> dict[str, dict[str, int]]: ...

    def describe_acls(self, wanted: AclBindingFilter = ...) -> list[AclBinding]: ...


class SecurityAtRest:
    """Users and access rules of log directories; the methods are those of `SecurityAdmin`."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` for a damaged file, Kafka's metadata log included."""
        self._image = read_known(paths, "users and ACLs").found.image

    def describe_user_scram_credentials(self) -> dict[str, dict[str, int]]:
        users: dict[str, dict[str, int]] = {}
        for (user, mechanism), one in sorted(self._image.credentials.items()):
            users.setdefault(user, {})[mechanism] = one.iterations
        return users

    def describe_acls(self, wanted: AclBindingFilter = EVERY_ACL) -> list[AclBinding]:
        matching = AclFilter(
            resource_type=ResourceType[wanted.resource_type],
            name=wanted.name,
            pattern_type=PatternType[wanted.pattern_type],
            principal=wanted.principal,
            host=wanted.host,
            operation=Operation[wanted.operation],
            permission=Permission[wanted.permission],
        )
        return list(map(_binding, matching.select(self._image.all_acls())))


def _binding(acl: Acl) -> AclBinding:
    pattern, entry = acl
    return AclBinding(
        resource_type=pattern.resource_type.name,
        name=pattern.name,
        pattern_type=pattern.pattern_type.name,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.name,
        permission=entry.permission.name,
    )
