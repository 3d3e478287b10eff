"""Decides by the access rules what principals may do: a machine without clock or wire protocol.

A denial takes precedence. If no rule matches a resource, access is denied unless the settings say
otherwise. Decisions are cached until the rules change. Kafka's counterparts: `StandardAuthorizer`,
`StandardAuthorizerData`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import Final, TypeVar

from ottla.base.addresses import canonical_host
from ottla.base.principal import Principal
from ottla.base.turns import PART_SIZE, freed_in_turns, in_turns, yield_turn
from ottla.metadata.acls import (
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

Pattern = tuple[PatternType, str]
ByPrincipal = dict[tuple[ResourceType, str, Operation, Permission], dict[Pattern, list[str]]]
"""The hosts of the rules of a principal, by their patterns."""

Rules = tuple[
    dict[tuple[ResourceType, str], list[Entry]],
    dict[ResourceType, dict[str, list[Entry]]],
    dict[ResourceType, list[int]],
    ByPrincipal,
]
"""Rules of literal patterns, rules of prefixes, the lengths of the prefixes, and all of them by
principal, for those that ask whether there is any.
"""


def _at_once() -> None:
    """However long it takes."""


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
        self._by_principal: ByPrincipal = {}
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
        for of_principal in self._by_principal.values():
            freed_in_turns(of_principal)
        self._literal, self._prefixed, self._prefix_sizes, self._by_principal = rules
        self._forget()

    def replace(self, pattern: ResourcePattern, entries: Sequence[Entry]) -> None:
        """Replaces the rules of one pattern; an empty sequence removes them."""
        resource_type, pattern_type, name = pattern
        if pattern_type is PatternType.PREFIXED:
            by_name = self._prefixed[resource_type]
            former = _put(by_name, name, entries)
            if bool(former) is not bool(entries):
                self._prefix_sizes[resource_type] = sorted({len(one) for one in by_name})
        else:
            former = _put(self._literal, (resource_type, name), entries)
        for entry in former:
            key = (resource_type, entry.principal, entry.operation, entry.permission)
            self._by_principal[key].pop((pattern_type, name), None)
        for entry in entries:
            _index(self._by_principal, pattern, _comparable(entry))
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
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        may_take_long: Callable[[], None] = _at_once,
    ) -> bool:
        """Whether the principal may do something with at least one resource of a type.

        Calls `may_take_long`, which may raise, before it goes through many rules in turns. Kafka's
        counterpart: `Authorizer.authorizeByResourceType`.
        """
        who = str(principal)
        if who in self.super_users:
            return True
        denied = self._of(who, operation, resource_type, Permission.DENY)
        hosts = (host, WILDCARD)
        if _denies(denied, (PatternType.LITERAL, WILDCARD), hosts):
            return False
        if self.allows_without_acls:
            return True
        denied_sizes = {
            len(name)
            for (pattern_type, name), _ in _in_turns(denied, may_take_long)
            if pattern_type is PatternType.PREFIXED
        }
        allowed = self._of(who, operation, resource_type, Permission.ALLOW)
        return any(
            any(one in hosts for one in its_hosts)
            and not _is_under(pattern, denied, denied_sizes, hosts)
            for pattern, its_hosts in _in_turns(allowed, may_take_long)
        )

    def _of(
        self, who: str, operation: Operation, kind: ResourceType, permission: Permission
    ) -> list[dict[Pattern, list[str]]]:
        """The rules of a principal, and of everybody, for an operation, and for all."""
        keys = product((who, EVERYBODY), (operation, Operation.ALL))
        found = [self._by_principal.get((kind, name, op, permission)) for name, op in keys]
        return [one for one in found if one]


def sort_out(acls: Iterable[Acl]) -> Rules:
    """Sorts rules by resource type and pattern, in turns."""
    literal: dict[tuple[ResourceType, str], list[Entry]] = {}
    prefixed: dict[ResourceType, dict[str, list[Entry]]] = {one: {} for one in ResourceType}
    sizes: dict[ResourceType, set[int]] = {one: set() for one in ResourceType}
    by_principal: ByPrincipal = {}
    for pattern, given in in_turns(acls):
        resource_type, pattern_type, name = pattern
        entry = _comparable(given)
        _index(by_principal, pattern, entry)
        if pattern_type is PatternType.PREFIXED:
            prefixed[resource_type].setdefault(name, []).append(entry)
            sizes[resource_type].add(len(name))
        else:
            literal.setdefault((resource_type, name), []).append(entry)
    sorted_sizes = {kind: sorted(of_kind) for kind, of_kind in sizes.items()}
    return literal, prefixed, sorted_sizes, by_principal


def _index(rules: ByPrincipal, pattern: ResourcePattern, entry: Entry) -> None:
    resource_type, pattern_type, name = pattern
    key = (resource_type, entry.principal, entry.operation, entry.permission)
    rules.setdefault(key, {}).setdefault((pattern_type, name), []).append(entry.host)


def _put(rules: dict[Key, list[Entry]], key: Key, entries: Sequence[Entry]) -> list[Entry]:
    """Returns the rules that were there before."""
    former = rules.pop(key, [])
    if entries:
        rules[key] = [_comparable(one) for one in entries]
    return former


def _comparable(entry: Entry) -> Entry:
    """Returns the rule with its host in the form that is used for clients' addresses."""
    return entry._replace(host=canonical_host(entry.host)) if ":" in entry.host else entry


def _is_for(entry: Entry, principal: str, host: str) -> bool:
    return entry.principal in (principal, EVERYBODY) and entry.host in (host, WILDCARD)


def _denies(
    denied: Sequence[dict[Pattern, list[str]]], pattern: Pattern, hosts: tuple[str, str]
) -> bool:
    return any(host in hosts for rules in denied for host in rules.get(pattern, ()))


def _in_turns(
    rules: Sequence[dict[Pattern, list[str]]], may_take_long: Callable[[], None]
) -> Iterator[tuple[Pattern, Sequence[str]]]:
    """Patterns with their hosts; the rules may change between two turns."""
    for by_pattern in rules:
        for number, pattern in enumerate(list(by_pattern), 1):
            yield pattern, by_pattern.get(pattern, ())
            if not number % PART_SIZE:
                may_take_long()
                yield_turn()


def _is_under(
    allowed: Pattern,
    denied: Sequence[dict[Pattern, list[str]]],
    denied_sizes: Collection[int],
    hosts: tuple[str, str],
) -> bool:
    """Whether a denial covers all resources of an allowance; `denied_sizes` are those of denied
    prefixes.
    """
    if not denied:
        return False
    pattern_type, name = allowed
    if pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if _denies(denied, allowed, hosts):
            return True
    return any(
        _denies(denied, (PatternType.PREFIXED, name[:size]), hosts)
        for size in denied_sizes
        if size <= len(name)
    )
