"""Verbs about access rules, users and tokens: the same for every controller with records."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.base.errors import ApiError
from ottla.base.turns import turn_dict
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.security.access_changes import AccessChanges

if TYPE_CHECKING:
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.acls import Acl, AclFilter
    from ottla.metadata.tokens import DelegationToken

T = TypeVar("T")


class TokenVerbs:
    def __init__(self, access: AccessChanges) -> None:
        self._security = access

    def create_token(self, token: "DelegationToken") -> Outcome:
        return outcome_of(self._security.put_token, token)

    def change_token(self, token: "DelegationToken") -> Outcome:
        return outcome_of(self._security.change_token, token)

    def drop_token(self, token: "DelegationToken") -> Outcome:
        return outcome_of(self._security.drop_token, token)


class AccessVerbs(TokenVerbs):
    """In turns, on a server."""

    def create_acls(self, acls: "Sequence[Acl]") -> Sequence[Outcome]:
        try:
            return self._security.create_acls(acls)
        except ApiError as error:
            return [error.without_traceback()] * len(acls)

    def delete_acls(self, filters: "Sequence[AclFilter]") -> "Sequence[list[Acl] | ApiError]":
        try:
            return self._security.delete_acls(filters)
        except ApiError as error:
            return [error.without_traceback()] * len(filters)

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> Mapping[str, Outcome]:
        try:
            return self._security.alter_users(wanted)
        except ApiError as error:
            refusal = error.without_traceback()
            return turn_dict((one.user, refusal) for one in wanted)


def outcome_of(change: Callable[[T], None], what: T) -> Outcome:
    try:
        change(what)
    except ApiError as error:
        return error.without_traceback()
    return None
