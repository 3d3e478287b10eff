"""The controller of a broker alone: it decides, writes to its disks, and has then done it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ottla.base.errors import ApiError
from ottla.broker.admin import Admin
from ottla.broker.control.controller import Outcome
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.acls import Acl, AclFilter
from ottla.broker.security.security import Security
from ottla.broker.security.tokens import DelegationToken
from ottla.broker.security.users import ScramUpsertion

T = TypeVar("T")


class AloneController:
    def __init__(self, admin: Admin, security: Security) -> None:
        self._admin = admin
        self._security = security

    # Access

    def create_acls(self, acls: Sequence[Acl]) -> Sequence[Outcome]:
        return [_outcome(self._security.create_acls, acls)] * len(acls)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Sequence[list[Acl] | ApiError]:
        try:
            return self._security.delete_acls(filters)
        except ApiError as error:
            return [error.without_traceback()] * len(filters)

    def alter_users(self, wanted: Sequence[ScramUpsertion]) -> Mapping[str, Outcome]:
        try:
            return self._security.alter_users(wanted)
        except ApiError as error:
            return dict.fromkeys((one.user for one in wanted), error.without_traceback())

    def create_token(self, token: DelegationToken) -> Outcome:
        return _outcome(self._security.put_token, token)

    def change_token(self, token: DelegationToken) -> Outcome:
        return _outcome(self._security.change_token, token)

    def drop_token(self, token: DelegationToken) -> Outcome:
        return _outcome(self._security.drop_token, token)

    # Quotas

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool,
    ) -> Sequence[Outcome]:
        return self._admin.alter_quotas(entries, alteration_of, validate_only=validate_only)


def _outcome(change: Callable[[T], None], what: T) -> Outcome:
    try:
        change(what)
    except ApiError as error:
        return error.without_traceback()
    return None
