"""A cluster's broker applies the users, quotas and access rules in the registries.

The content is parsed into values first; applying these takes no longer than a copy of the known
state. Kafka's counterparts: `DynamicConfigManager`, `AclAuthorizer.updateCache`.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import chain

from ottla.base.scram import HASHES, Credentials
from ottla.base.values import dataclass
from ottla.broker.admin import Admin
from ottla.broker.quotas.quota_changes import KEYS, with_changes
from ottla.broker.security.authorizer import Rules, sort_out
from ottla.broker.security.registered import (
    credentials_of,
    entity_of,
    limits_of,
)
from ottla.broker.security.security import Security
from ottla.broker.security.security_state import SecurityState
from ottla.controller.acls import FoundAcls
from ottla.controller.settings import Settings
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import Acl, ResourcePattern
from ottla.metadata.quotas import QuotaEntity, Quotas
from ottla.zookeeper.access import acls_of
from ottla.zookeeper.nodes import NodeError


@dataclass(frozen=True, slots=True)
class FoundClients:
    """Quotas by entity, empty for deleted ones; users' passwords; `errors` of invalid entities."""

    quotas: Quotas
    credentials: Mapping[str, Credentials]
    errors: tuple[str, ...]


def found_clients(settings: Settings) -> FoundClients:
    """Parses the settings of users, client ids and addresses."""
    quotas: dict[QuotaEntity, Mapping[str, float]] = {}
    credentials: dict[str, Credentials] = {}
    errors: list[str] = []
    for path, values in settings.items():
        entity = entity_of(path)
        if entity is None:
            continue
        try:
            known = {name: text for name, text in values.items() if name in KEYS}
            limits, passwords = limits_of(entity, known), credentials_of(entity, values)
        except ValueError as error:
            errors.append(f"/config/{path} in ZooKeeper: {error}")
            continue
        quotas[entity] = limits
        match entity:
            case ((_, str(user)),) if path.startswith("users/"):
                credentials[user] = passwords
    return FoundClients(quotas, credentials, tuple(errors))


@dataclass(frozen=True, slots=True)
class FoundRules:
    """Rules by pattern, empty for deleted ones; `errors` describe invalid rules. `unclear` are the
    patterns whose rules could not be parsed.
    """

    acls: Mapping[ResourcePattern, tuple[Acl, ...]]
    unclear: frozenset[ResourcePattern]
    errors: tuple[str, ...]
    sorted_out: Rules = field(repr=False)


def found_rules(found: FoundAcls) -> FoundRules:
    acls: dict[ResourcePattern, tuple[Acl, ...]] = {}
    unclear: set[ResourcePattern] = set()
    errors: list[str] = []
    for pattern, entries in found.items():
        try:
            if isinstance(entries, NodeError):
                raise entries
            acls[pattern] = acls_of(pattern, entries)
        except ValueError as error:
            unclear.add(pattern)
            errors.append(str(error))
    rules = sort_out(chain.from_iterable(acls.values()))
    return FoundRules(acls, frozenset(unclear), tuple(errors), rules)


class RegisteredAccess:
    """Applies changes in the registries; used under the broker's lock."""

    def __init__(self, security: Security, admin: Admin) -> None:
        self._security = security
        self._admin = admin
        self._quotas: Quotas = {}
        self._credentials: Credentials = {}
        self._acls: dict[ResourcePattern, tuple[Acl, ...]] = {}

    def take_clients(self, all_of_them: FoundClients) -> None:
        """Replaces all known quotas and passwords."""
        self._quotas, self._credentials = {}, {}
        self.follow_clients(all_of_them)

    def follow_clients(self, changed: FoundClients) -> None:
        if changed.quotas:
            self._quotas = with_changes(self._quotas, changed.quotas)
        self._admin.follow_quotas(self._quotas)
        credentials = dict(self._credentials)
        for user, passwords in changed.credentials.items():
            for mechanism in HASHES:
                credentials.pop((user, mechanism), None)
            credentials.update(passwords)
        self._credentials = credentials
        self._follow()

    def take_rules(self, all_of_them: FoundRules) -> None:
        """Replaces all known rules. Patterns whose new rules are unclear keep the known ones."""
        before = self._acls
        self._acls = {pattern: acls for pattern, acls in all_of_them.acls.items() if acls}
        if self._security.authorizer is not None:
            self._security.authorizer.follow(all_of_them.sorted_out)
        kept = {one: before[one] for one in all_of_them.unclear if one in before}
        self._follow_patterns(kept)

    def follow_rules(self, changed: FoundRules) -> None:
        self._follow_patterns(changed.acls)

    def _follow_patterns(self, changed: Mapping[ResourcePattern, tuple[Acl, ...]]) -> None:
        for pattern, acls in changed.items():
            if acls:
                self._acls[pattern] = acls
            else:
                self._acls.pop(pattern, None)
            if self._security.authorizer is not None:
                self._security.authorizer.replace(pattern, [one.entry for one in acls])
        self._follow()

    def take_tokens(self, all_of_them: FoundTokens) -> None:
        """Replaces all known tokens."""
        self._security.follow(replace(self._security.state, tokens={}))
        self.follow_tokens(all_of_them)

    def follow_tokens(self, changed: FoundTokens) -> None:
        state = self._security.state
        tokens = dict(state.tokens)
        for token_id, token in changed.items():
            if token is None:
                tokens.pop(token_id, None)
            else:
                tokens[token_id] = token
        self._security.follow(replace(state, tokens=tokens))

    def _follow(self) -> None:
        state: SecurityState = self._security.state
        acls = tuple(chain.from_iterable(self._acls.values()))
        self._security.follow(replace(state, acls=acls, credentials=self._credentials))
