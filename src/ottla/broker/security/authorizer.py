"""Decides by the access rules what principals may do: a machine without clock or wire protocol.

A denial takes precedence. If no rule matches a resource, access is denied unless the settings say
otherwise. Decisions are cached until the rules change. Kafka's counterparts: `StandardAuthorizer`,
`StandardAuthorizerData`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import product
from typing import Final, NamedTuple, TypeVar

from ottla.base.addresses import canonical_host
from ottla.base.errors import UnreadyError
from ottla.base.principal import Principal
from ottla.base.turns import PART_SIZE, freed_in_turns, in_turns, yield_turn
from ottla.metadata.acl_hosts import SLASH, HostRanges, comparable_range
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
Item = TypeVar("Item")

MAX_COUNTED: Final = 1000
OTHERS: Final = "others"
MAX_REMEMBERED: Final = 20_000
"""The size of the cache of decisions; a full cache is cleared."""

MAX_REMEMBERED_NAME: Final = 256
"""Decisions on longer names are not cached: clients may ask for any name, of 32 KiB or more."""

Question = tuple[Principal, str, int, int, str]
"""Principal, host, operation, resource type, resource name."""

Pattern = tuple[PatternType, str]
NO_HOSTS: Final[Mapping[str, str]] = {}
Kind = tuple[ResourceType, str, Operation, Permission]
"""Resource type, principal, and what is allowed or denied."""


class Reason(Enum):
    """What decides whether something is allowed."""

    SUPER_USER = "super user"
    DENIED = "denied by a rule"
    ALLOWED = "allowed by a rule"
    OPEN = "no rule for the resource, and allow.everyone.if.no.acl.found"
    NO_RULE = "no rule for the resource"
    NOT_NAMED = "rules for the resource, but none that allows this"


class Ruling(NamedTuple):
    """A decision with its reason, and with the rule that decides, as it was given."""

    is_allowed: bool
    reason: Reason
    rule: Acl | None = None


BY_RANK: Final = Ruling(True, Reason.SUPER_USER)
OPEN: Final = Ruling(True, Reason.OPEN)
NO_RULE: Final = Ruling(False, Reason.NO_RULE)
NOT_NAMED: Final = Ruling(False, Reason.NOT_NAMED)


class Rules:
    """Rules by pattern, and by principal for those that ask whether there is any.

    A rule is kept by what was given, with its host in the form of clients' addresses.
    """

    def __init__(self) -> None:
        self.literal: dict[tuple[ResourceType, str], dict[Entry, Entry]] = {}
        self.prefixed: dict[ResourceType, dict[str, dict[Entry, Entry]]] = {
            one: {} for one in ResourceType
        }
        self.prefix_sizes: dict[ResourceType, list[int]] = {one: [] for one in ResourceType}
        """The lengths of the prefixes, in order."""
        self._size_counts: dict[ResourceType, Counter[int]] = {
            one: Counter() for one in ResourceType
        }
        self.by_principal: dict[Kind, dict[Pattern, dict[str, str]]] = {}
        """The hosts of the rules of a principal, by their patterns."""
        self.ranges = HostRanges()

    def put(self, pattern: ResourcePattern, entry: Entry) -> None:
        resource_type, pattern_type, name = pattern
        comparable = _comparable(entry)
        if SLASH in entry.host and not self._has(pattern, entry):
            self.ranges.put(entry.host)
        if pattern_type is PatternType.PREFIXED:
            of_type = self.prefixed[resource_type]
            if name not in of_type:
                of_type[name] = {}
                self._count_size(resource_type, len(name), 1)
            of_type[name][entry] = comparable
        else:
            self.literal.setdefault((resource_type, name), {})[entry] = comparable
        hosts = self.by_principal.setdefault(_kind(resource_type, entry), {})
        hosts.setdefault((pattern_type, name), {})[entry.host] = comparable.host

    def drop(self, pattern: ResourcePattern, entry: Entry) -> None:
        resource_type, pattern_type, name = pattern
        if SLASH in entry.host and self._has(pattern, entry):
            self.ranges.drop(entry.host)
        if pattern_type is PatternType.PREFIXED:
            of_type = self.prefixed[resource_type]
            if _is_last(of_type, name, entry):
                self._count_size(resource_type, len(name), -1)
        else:
            _is_last(self.literal, (resource_type, name), entry)
        hosts = self.by_principal.get(_kind(resource_type, entry), {})
        _is_last(hosts, (pattern_type, name), entry.host)

    def _has(self, pattern: ResourcePattern, entry: Entry) -> bool:
        resource_type, pattern_type, name = pattern
        if pattern_type is PatternType.PREFIXED:
            return entry in self.prefixed[resource_type].get(name, ())
        return entry in self.literal.get((resource_type, name), ())

    def _count_size(self, resource_type: ResourceType, size: int, change: int) -> None:
        counts = self._size_counts[resource_type]
        known = counts[size]
        counts[size] += change
        if not known or not counts[size]:
            self.prefix_sizes[resource_type] = sorted(one for one in counts if counts[one])

    def free(self) -> None:
        """Frees the rules in turns."""
        freed_in_turns(self.literal)
        for of_kind in self.prefixed.values():
            freed_in_turns(of_kind)
        for of_principal in self.by_principal.values():
            freed_in_turns(of_principal)


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
        self._rules = Rules()
        self._has_ranges = True
        self.known: Final[dict[Question, bool]] = {}
        self._hosts: Final[dict[str, frozenset[str]]] = {}
        """What the rules may have as the host of a client: its address, and what covers that."""
        self.revision = 0
        """Increases when the rules change."""
        self.is_complete = True
        """Whether the rules are those of the cluster: a node of a KRaft cluster knows them some
        time after its start. Kafka's counterpart: `AuthorizerNotReadyException`.
        """
        self.denials: Final[Counter[str]] = Counter()
        """The number of denials by principal."""
        self.change(acls)

    def change(self, acls: Iterable[Acl]) -> None:
        """Applies other rules, in turns."""
        self.follow(sort_out(acls))

    def follow(self, rules: Rules) -> None:
        """Applies sorted rules, without turns."""
        self._rules.free()
        self._rules = rules
        self._forget()

    def put(self, pattern: ResourcePattern, entry: Entry) -> None:
        """Adds a rule, if it is not there."""
        self._rules.put(pattern, entry)
        self._forget()

    def drop(self, pattern: ResourcePattern, entry: Entry) -> None:
        """Removes a rule, if it is there."""
        self._rules.drop(pattern, entry)
        self._forget()

    def read_ranges(self, has_ranges: bool) -> None:
        """Whether hosts with a slash are ranges of addresses, or texts that are nobody's address:
        that depends on the level of the cluster.
        """
        if has_ranges is not self._has_ranges:
            self._has_ranges = has_ranges
            self._forget()

    def _forget(self) -> None:
        self.known.clear()
        self._hosts.clear()
        self.revision += 1

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Raises `UnreadyError` while the rules are not known, but for super users and, where
        everybody may do what no rule is about, for what nodes ask each other: without that no node
        would ever know the rules.
        """
        if not self.is_complete:
            is_of_nodes = (operation, resource_type) == (
                Operation.CLUSTER_ACTION,
                ResourceType.CLUSTER,
            )
            return (self.allows_without_acls and is_of_nodes) or self._is_super(principal)
        question = (principal, host, operation, resource_type, name)
        known = self.known.get(question)
        if known is None:
            if len(name) > MAX_REMEMBERED_NAME:
                return self.rule(principal, host, operation, resource_type, name).is_allowed
            if len(self.known) >= MAX_REMEMBERED:
                self.known.clear()
            known = self.rule(principal, host, operation, resource_type, name).is_allowed
            self.known[question] = known
        return known

    def _is_super(self, principal: Principal) -> bool:
        """Others have their connections closed, and come again."""
        if str(principal) not in self.super_users:
            raise UnreadyError(
                "the cluster's access rules are not known yet, and until then only super.users may "
                f"do anything: name {principal} there if it is a node of the cluster"
            )
        return True

    def note_denial(self, principal: Principal) -> None:
        """Counts a denial. Above a limit, further principals are counted together, since tokens may
        contain any name.
        """
        name = str(principal)
        is_new = name not in self.denials
        self.denials[OTHERS if is_new and len(self.denials) >= MAX_COUNTED else name] += 1

    def rule(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Ruling:
        """As `allows`, with what decides; it is not cached."""
        who = str(principal)
        if who in self.super_users:
            return BY_RANK
        covered, allowed = False, None
        hosts = self._hosts_of(host)
        for pattern, entries in self._matching(resource_type, name):
            covered = True
            for given, entry in entries.items():
                if not _is_for(entry, who, hosts):
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return Ruling(False, Reason.DENIED, Acl(pattern, given))
                elif allowed is None and _covers(entry, operation):
                    allowed = Ruling(True, Reason.ALLOWED, Acl(pattern, given))
        if allowed is not None:
            return allowed
        if covered:
            return NOT_NAMED
        return OPEN if self.allows_without_acls else NO_RULE

    def _hosts_of(self, host: str) -> frozenset[str]:
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= MAX_REMEMBERED:
                self._hosts.clear()
            ranges = self._rules.ranges.containing(host) if self._has_ranges else ()
            known = self._hosts[host] = frozenset((host, WILDCARD, *ranges))
        return known

    def _matching(
        self, resource_type: ResourceType, name: str
    ) -> Iterator[tuple[ResourcePattern, Mapping[Entry, Entry]]]:
        """Yields all patterns that match a resource, each with its rules."""
        rules = self._rules
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            entries = rules.literal.get((resource_type, literal))
            if entries:
                yield ResourcePattern(resource_type, PatternType.LITERAL, literal), entries
        by_name = rules.prefixed[resource_type]
        for size in rules.prefix_sizes[resource_type]:
            if size > len(name):
                return
            entries = by_name.get(name[:size])
            if entries:
                yield ResourcePattern(resource_type, PatternType.PREFIXED, name[:size]), entries

    def allows_any(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        may_take_long: Callable[[], None] = _at_once,
    ) -> bool:
        """Whether the principal may do something with at least one resource of a type; raises as
        `allows`.

        Calls `may_take_long`, which may raise, before it goes through many rules in turns. Kafka's
        counterpart: `Authorizer.authorizeByResourceType`.
        """
        if not self.is_complete:
            return self._is_super(principal)
        who = str(principal)
        if who in self.super_users:
            return True
        denied = self._of(who, operation, resource_type, Permission.DENY)
        hosts = self._hosts_of(host)
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
    ) -> list[dict[Pattern, dict[str, str]]]:
        """The rules of a principal, and of everybody, for an operation, and for all."""
        keys = product((who, EVERYBODY), (operation, Operation.ALL))
        found = [self._rules.by_principal.get((kind, name, op, permission)) for name, op in keys]
        return [one for one in found if one]


def sort_out(acls: Iterable[Acl]) -> Rules:
    """Sorts rules by resource type and pattern, in turns."""
    rules = Rules()
    for acl in in_turns(acls):
        rules.put(*acl)
    return rules


def _kind(resource_type: ResourceType, entry: Entry) -> Kind:
    return resource_type, entry.principal, entry.operation, entry.permission


def _is_last(kept: dict[Key, dict[Item, Item]], key: Key, item: Item) -> bool:
    """Removes an item from those of a key, and the key with its last one."""
    items = kept.get(key)
    if items is None:
        return False
    items.pop(item, None)
    if items:
        return False
    del kept[key]
    return True


def _comparable(entry: Entry) -> Entry:
    """Returns the rule with its host in the form that is used for clients' addresses."""
    if SLASH in entry.host:
        return entry._replace(host=comparable_range(entry.host))
    return entry._replace(host=canonical_host(entry.host)) if ":" in entry.host else entry


def _is_for(entry: Entry, principal: str, hosts: frozenset[str]) -> bool:
    return entry.principal in (principal, EVERYBODY) and entry.host in hosts


def _covers(entry: Entry, operation: Operation) -> bool:
    """Whether an allowance is for an operation, or for one that implies it."""
    return entry.operation in (operation, Operation.ALL, *IMPLYING.get(operation, ()))


def _denies(
    denied: Sequence[dict[Pattern, dict[str, str]]], pattern: Pattern, hosts: frozenset[str]
) -> bool:
    return any(host in hosts for rules in denied for host in rules.get(pattern, NO_HOSTS).values())


def _in_turns(
    rules: Sequence[dict[Pattern, dict[str, str]]], may_take_long: Callable[[], None]
) -> Iterator[tuple[Pattern, Iterable[str]]]:
    """Patterns with their hosts; the rules may change between two turns."""
    for by_pattern in rules:
        for number, pattern in enumerate(list(by_pattern), 1):
            yield pattern, by_pattern.get(pattern, NO_HOSTS).values()
            if not number % PART_SIZE:
                may_take_long()
                yield_turn()


def _is_under(
    allowed: Pattern,
    denied: Sequence[dict[Pattern, dict[str, str]]],
    denied_sizes: Collection[int],
    hosts: frozenset[str],
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
