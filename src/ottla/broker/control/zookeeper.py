"""The controller of a broker in a cluster over ZooKeeper: another broker may be it.

Settings, users, rules and tokens are nodes that every broker may change; topics, replicas and
leaders are decided by the controller's broker, to which requests are passed on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.base.errors import ApiError
from ottla.broker.control import zookeeper_access as access
from ottla.broker.control.controller import Outcome
from ottla.broker.membership import Membership
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.acls import Acl, AclFilter
from ottla.broker.security.registered import token_node
from ottla.broker.security.security import Security
from ottla.broker.security.tokens import DelegationToken
from ottla.broker.security.users import ScramUpsertion
from ottla.broker.waiting import Later
from ottla.controller import tokens
from ottla.controller.operations import Steps
from ottla.controller.tokens import FoundTokens

T = TypeVar("T")


class ZooKeeperController:
    def __init__(self, membership: Membership, security: Security) -> None:
        self._membership = membership
        self._security = security

    # Access

    def create_acls(self, acls: Sequence[Acl]) -> Later[Sequence[Outcome]]:
        return access.create_acls(self._membership, acls)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Later[Sequence[list[Acl] | ApiError]]:
        return access.delete_acls(self._membership, filters, self._security.state.acls)

    def alter_users(self, wanted: Sequence[ScramUpsertion]) -> Later[Mapping[str, Outcome]]:
        return access.alter_users(self._membership, wanted)

    def create_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.create_token, token_node(token)))

    def change_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.change_token, token_node(token)))

    def drop_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.drop_token, token.token_id))

    def _change_token(self, make: Callable[[], Steps[FoundTokens | ApiError]]) -> Later[Outcome]:
        def outcome(result: FoundTokens | ApiError) -> Outcome:
            return result if isinstance(result, ApiError) else None

        return Later(self._membership.change_token(make), outcome)

    # Quotas

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool,
    ) -> Later[Sequence[Outcome]]:
        return access.alter_quotas(
            self._membership, entries, alteration_of, validate_only=validate_only
        )
