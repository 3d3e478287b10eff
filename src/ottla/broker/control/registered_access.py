"""A cluster's broker applies the users, quotas and access rules in the registries.

The content is parsed into values first; applying these takes no longer than a copy of the known
state. Kafka's counterparts: `DynamicConfigManager`, `AclAuthorizer.updateCache`.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from ottla.base.ids import Uuid
from ottla.base.scram import HASHES, Credentials
from ottla.base.values import dataclass
from ottla.broker.admin import Admin
from ottla.broker.quotas.quota_changes import KEYS
from ottla.broker.security.authorizer import Rules, sort_out
from ottla.broker.security.registered import (
    credentials_of,
    entity_of,
    limits_of,
)
from ottla.broker.security.security import Security
from ottla.controller.acls import FoundAcls
from ottla.controller.settings import Settings
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import Acl, Entry, ResourcePattern
from ottla.metadata.image import Acls, merged
from ottla.metadata.quotas import QuotaEntity, Quotas
from ottla.zookeeper.access import known_entries
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

    acls: Acls
    unclear: frozenset[ResourcePattern]
    errors: tuple[str, ...]
    sorted_out: Rules = field(repr=False)


def found_rules(found: FoundAcls) -> FoundRules:
    acls: dict[ResourcePattern, Mapping[Entry, tuple[Uuid, ...]]] = {}
    unclear: set[ResourcePattern] = set()
    errors: list[str] = []
    for pattern, entries in found.items():
        try:
            if isinstance(entries, NodeError):
                raise entries
            acls[pattern] = dict.fromkeys(known_entries(pattern, entries), ())
        except ValueError as error:
            unclear.add(pattern)
            errors.append(str(error))
    rules = sort_out(Acl(pattern, entry) for pattern, entries in acls.items() for entry in entries)
    return FoundRules(acls, frozenset(unclear), tuple(errors), rules)


class RegisteredAccess:
    """Applies changes in the registries; used under the broker's lock."""

    def __init__(self, security: Security, admin: Admin) -> None:
        self._security = security
        self._admin = admin

    def take_clients(self, all_of_them: FoundClients) -> None:
        """Replaces all known quotas and passwords."""
        self._security.follow(replace(self._security.image, quotas={}, credentials={}))
        self.follow_clients(all_of_them)

    def follow_clients(self, changed: FoundClients) -> None:
        image = self._security.image
        credentials = {**image.credentials}
        for user, passwords in changed.credentials.items():
            for mechanism in HASHES:
                credentials.pop((user, mechanism), None)
            credentials.update(passwords)
        self._security.follow(replace(image, credentials=credentials))
        self._admin.follow_quotas(merged(image.quotas, changed.quotas))

    def take_rules(self, all_of_them: FoundRules) -> None:
        """Replaces all known rules. Patterns whose new rules are unclear keep the known ones."""
        image = self._security.image
        kept = {one: image.acls[one] for one in all_of_them.unclear if one in image.acls}
        self._security.follow(replace(image, acls=merged({}, all_of_them.acls)))
        if self._security.authorizer is not None:
            self._security.authorizer.follow(all_of_them.sorted_out)
        self._follow_patterns(kept)

    def follow_rules(self, changed: FoundRules) -> None:
        self._follow_patterns(changed.acls)

    def _follow_patterns(self, changed: Acls) -> None:
        image = self._security.image
        self._security.follow(replace(image, acls=merged(image.acls, changed)))
        self._security.follow_rules(image.acls, changed)

    def take_tokens(self, all_of_them: FoundTokens) -> None:
        """Replaces all known tokens."""
        self._security.follow(replace(self._security.image, tokens={}))
        self.follow_tokens(all_of_them)

    def follow_tokens(self, changed: FoundTokens) -> None:
        image = self._security.image
        self._security.follow(replace(image, tokens=merged(image.tokens, changed)))
