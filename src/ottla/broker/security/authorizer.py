"""Decides by the access rules what principals may do: a machine without clock or wire protocol.

A denial takes precedence. If no rule matches a resource, access is denied unless the settings say
otherwise. Decisions are cached until the rules change. Kafka's counterparts: `StandardAuthorizer`,
`StandardAuthorizerData`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.base.addresses import canonical_host
from ottla.base.principal import Principal
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.acls import (
    EVERYBODY,
    IMPLYING,
    WILDCARD,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

Key = TypeVar("Key")

MAX_COUNTED: Final = 1000
OTHERS: Final = "others"
MAX_REMEMBERED: Final = 20_000
"""The size of the cache of decisions; a full cache is cleared."""

MAX_REMEMBERED_NAME: Final = 256
"""Decisions on longer names are not cached: clients may ask for any name, of 32 KiB or more."""

Question = tuple[Principal, str, int, int, str]
"""Principal, host, operation, resource type, resource name."""

Rules = tuple[
    dict[tuple[ResourceType, str], list[Entry]],
    dict[ResourceType, dict[str, list[Entry]]],
    dict[ResourceType, list[int]],
]
"""Rules of literal patterns, rules of prefixes, and the lengths of the prefixes."""


class Authorizer:
    """`super_users` are principals, as texts, that may do everything.

    `known` caches the decisions; callers may look them up before calling `allows`.
    """

    def __init__(
        self, acls: Iterable[Acl], super_users: frozenset[str], *, allows_without_acls: bool
    ) -> None:
        self.super_users: Final = super_users
        self.allows_without_acls: Final = allows_without_acls
        self._literal: dict[tuple[ResourceType, str], list[Entry]] = {}
        self._prefixed: dict[ResourceType, dict[str, list[Entry]]] = {}
        self._prefix_sizes: dict[ResourceType, list[int]] = {}
        self.known: Final[dict[Question, bool]] = {}
        self.revision = 0
        """Increases when the rules change."""
        self.denials: Final[Counter[str]] = Counter()
        """The number of denials by principal."""
        self.change(acls)

    def change(self, acls: Iterable[Acl]) -> None:
        """Applies other rules, in turns."""
        self.follow(sort_out(acls))

    def follow(self, rules: Rules) -> None:
        """Applies sorted rules, without turns."""
        freed_in_turns(self._literal)
        for of_kind in self._prefixed.values():
            freed_in_turns(of_kind)
        self._literal, self._prefixed, self._prefix_sizes = rules
        self._forget()

    def replace(self, pattern: ResourcePattern, entries: Sequence[Entry]) -> None:
        """Replaces the rules of one pattern; an empty sequence removes them."""
        resource_type, pattern_type, name = pattern
        if pattern_type is PatternType.PREFIXED:
            by_name = self._prefixed[resource_type]
            _put(by_name, name, entries)
            self._prefix_sizes[resource_type] = sorted({len(one) for one in by_name})
        else:
            _put(self._literal, (resource_type, name), entries)
        self._forget()

    def _forget(self) -> None:
        self.known.clear()
        self.revision += 1

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        question = (principal, host, operation, resource_type, name)
        known = self.known.get(question)
        if known is None:
            if len(name) > MAX_REMEMBERED_NAME:
                return self._decide(principal, host, operation, resource_type, name)
            if len(self.known) >= MAX_REMEMBERED:
                self.known.clear()
            known = self._decide(principal, host, operation, resource_type, name)
            self.known[question] = known
        return known

    def note_denial(self, principal: Principal) -> None:
        """Counts a denial. Above a limit, further principals are counted together, since tokens may
        contain any name.
        """
        name = str(principal)
        is_new = name not in self.denials
        self.denials[OTHERS if is_new and len(self.denials) >= MAX_COUNTED else name] += 1

    def _decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if str(principal) in self.super_users:
            return True
        is_covered = is_allowed = False
        for entry in self._entries(resource_type, name):
            is_covered = True
            if not _is_for(entry, str(principal), host):
                continue
            if entry.permission is Permission.DENY:
                if entry.operation in (operation, Operation.ALL):
                    return False
            elif entry.operation in (operation, Operation.ALL, *IMPLYING.get(operation, ())):
                is_allowed = True
        return is_allowed or (not is_covered and self.allows_without_acls)

    def _entries(self, resource_type: ResourceType, name: str) -> Iterator[Entry]:
        """Yields the rules of all patterns that match a resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        by_name = self._prefixed[resource_type]
        for size in self._prefix_sizes[resource_type]:
            if size > len(name):
                return
            yield from by_name.get(name[:size], ())

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do something with at least one resource of a type.

        Kafka's counterpart: `Authorizer.authorizeByResourceType`.
        """
        who = str(principal)
        if who in self.super_users:
            return True
        wanted = (operation, Operation.ALL)
        allowed: list[tuple[PatternType, str]] = []
        denied: set[tuple[PatternType, str]] = set()
        for pattern_type, name, entry in self._all_of(resource_type):
            if entry.operation not in wanted or not _is_for(entry, who, host):
                continue
            if entry.permission is Permission.DENY:
                denied.add((pattern_type, name))
            else:
                allowed.append((pattern_type, name))
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if self.allows_without_acls:
            return True
        return any(not _is_under(one, denied) for one in allowed)

    def _all_of(self, resource_type: ResourceType) -> Iterator[tuple[PatternType, str, Entry]]:
        for (kind, name), entries in self._literal.items():
            if kind is resource_type:
                for entry in entries:
                    yield PatternType.LITERAL, name, entry
        for name, entries in self._prefixed[resource_type].items():
            for entry in entries:
                yield PatternType.PREFIXED, name, entry


def sort_out(acls: Iterable[Acl]) -> Rules:
    """Sorts rules by resource type and pattern, in turns."""
    literal: dict[tuple[ResourceType, str], list[Entry]] = {}
    prefixed: dict[ResourceType, dict[str, list[Entry]]] = {one: {} for one in ResourceType}
    sizes: dict[ResourceType, set[int]] = {one: set() for one in ResourceType}
    for (resource_type, pattern_type, name), given in in_turns(acls):
        entry = _comparable(given)
        if pattern_type is PatternType.PREFIXED:
            prefixed[resource_type].setdefault(name, []).append(entry)
            sizes[resource_type].add(len(name))
        else:
            literal.setdefault((resource_type, name), []).append(entry)
    return literal, prefixed, {kind: sorted(of_kind) for kind, of_kind in sizes.items()}


def _put(rules: dict[Key, list[Entry]], key: Key, entries: Sequence[Entry]) -> None:
    if entries:
        rules[key] = [_comparable(one) for one in entries]
    else:
        rules.pop(key, None)


def _comparable(entry: Entry) -> Entry:
    """Returns the rule with its host in the form that is used for clients' addresses."""
    return entry._replace(host=canonical_host(entry.host)) if ":" in entry.host else entry


def _is_for(entry: Entry, principal: str, host: str) -> bool:
    return entry.principal in (principal, EVERYBODY) and entry.host in (host, WILDCARD)


def _is_under(allowed: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    """Whether a denial covers all resources of an allowance."""
    pattern_type, name = allowed
    if pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if allowed in denied:
            return True
    return any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
