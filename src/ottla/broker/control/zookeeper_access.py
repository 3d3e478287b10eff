"""Changes of users, quotas, access rules and tokens as changes of nodes.

Each user and each resource has a node of its own, which is changed as a whole; a notice makes all
brokers read it. Differs from Kafka, where only the controller changes users. Kafka's counterparts:
`AclAuthorizer`, `ZkAdminManager`, `DelegationTokenManagerZk`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns, turn_dict, turn_list
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.membership.membership import ZooKeeperMembership
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.registered import (
    credentials_of,
    entity_of,
    entity_path,
    user_path,
    with_credentials,
    with_limits,
)
from ottla.broker.security.users import ScramUpsertion, altered_credentials
from ottla.broker.waiting.rooms import Later
from ottla.controller.acls import AclChanges, ChangedAcls
from ottla.controller.settings import Change, Refusals
from ottla.metadata.acl_hosts import check_host
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Entry,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.image import Acls
from ottla.zookeeper.access import Entries
from ottla.zookeeper.paths import is_node_name, sanitized

T = TypeVar("T")

NO_LEVEL = 0
ONE_PATTERN = (PatternType.LITERAL, PatternType.PREFIXED)

# Access rules


def create_acls(membership: ZooKeeperMembership, acls: Sequence[Acl]) -> Later[Sequence[Outcome]]:
    wanted: dict[ResourcePattern, list[Entry]] = turn_dict()
    places: list[ResourcePattern | ApiError] = turn_list()
    for pattern, entry in acls:
        try:
            _check(pattern, entry)
        except ApiError as error:
            places.append(error.without_traceback())
        else:
            places.append(pattern)
            wanted.setdefault(pattern, []).append(entry)
    changes = turn_dict((place, partial(_add, new)) for place, new in wanted.items())

    def answered(results: AclChanges) -> Sequence[Outcome]:
        freed_in_turns(wanted, changes, results)
        found = (one if isinstance(one, ApiError) else results[one] for one in places)
        return [one if isinstance(one, ApiError) else None for one in found]

    return Later(membership.change_acls(changes), answered)


def _check(pattern: ResourcePattern, entry: Entry) -> None:
    if not is_node_name(pattern.name):
        text = f"ACL binding contains invalid resource name: {pattern.name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    check_host(entry.host, NO_LEVEL)


def _add(new: list[Entry], known: Entries) -> Entries:
    return tuple(dict.fromkeys((*known, *new)))


def delete_acls(
    membership: ZooKeeperMembership, filters: Sequence[AclFilter], known: Acls
) -> Later[Sequence[list[Acl] | ApiError]]:
    """The known rules say which resources are read; what these have in ZooKeeper counts."""
    changes = turn_dict(
        (pattern, partial(_remove, filters, pattern)) for pattern in _patterns(filters, known)
    )

    def answered(results: AclChanges) -> Sequence[list[Acl] | ApiError]:
        freed_in_turns(changes, results)
        removed: list[Acl] = turn_list()
        failure: ApiError | None = None
        for pattern, one in in_turns(results.items()):
            if isinstance(one, ChangedAcls):
                gone = set(one.before) - set(one.after)
                removed += [
                    Acl(pattern, entry)
                    for entry in one.before
                    if entry in gone and isinstance(entry, Entry)
                ]
            else:
                failure = one
        return [failure or one.select(removed) for one in filters]

    return Later(membership.change_acls(changes), answered)


def _patterns(filters: Sequence[AclFilter], acls: Acls) -> dict[ResourcePattern, None]:
    """Those of matching rules, and those that a filter names."""
    patterns: dict[ResourcePattern, None] = turn_dict(
        (pattern, None)
        for pattern, entries in in_turns(acls.items())
        if any(wanted.matches(Acl(pattern, one)) for one in entries for wanted in filters)
    )
    for one in filters:
        is_specific = one.resource_type is not ResourceType.ANY and one.pattern_type in ONE_PATTERN
        if is_specific and one.name is not None and is_node_name(one.name):
            patterns[ResourcePattern(one.resource_type, one.pattern_type, one.name)] = None
    return patterns


def _remove(filters: Sequence[AclFilter], pattern: ResourcePattern, known: Entries) -> Entries:
    """Rules of an unknown kind stay."""

    def is_removed(entry: Entry) -> bool:
        return any(one.matches(Acl(pattern, entry)) for one in filters)

    return tuple(one for one in known if not (isinstance(one, Entry) and is_removed(one)))


# Users


def alter_users(
    membership: ZooKeeperMembership, wanted: Sequence[ScramUpsertion]
) -> Later[Mapping[str, Outcome]]:
    by_user: dict[str, list[ScramUpsertion]] = turn_dict()
    for one in wanted:
        by_user.setdefault(one.user, []).append(one)
    changes: dict[str, Change] = turn_dict(
        (user_path(user), partial(_with_passwords, its))
        for user, its in by_user.items()
        if is_node_name(sanitized(user))
    )

    def answered(refusals: Refusals) -> Mapping[str, Outcome]:
        freed_in_turns(by_user, changes, refusals)
        no_user = ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty, and not . or .."
        )
        return turn_dict((user, refusals.get(user_path(user), no_user)) for user in by_user)

    return Later(membership.change_settings(changes), answered)


def _with_passwords(
    wanted: Sequence[ScramUpsertion], settings: Mapping[str, str]
) -> Mapping[str, str]:
    """Raises `ApiError`."""
    user = wanted[0].user
    entity = entity_of(user_path(user))
    assert entity is not None
    try:
        known = credentials_of(entity, settings)
    except ValueError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    altered, results = altered_credentials(known, wanted)
    refusal = results[user]
    if refusal is not None:
        raise refusal
    kept = {place: one for place, one in {**known, **altered}.items() if one is not None}
    return with_credentials(settings, kept)


# Quotas


def alter_quotas(
    membership: ZooKeeperMembership,
    entries: Sequence[T],
    alteration_of: Callable[[T], QuotaAlteration],
    *,
    validate_only: bool,
) -> Later[Sequence[Outcome]]:
    changes: dict[str, Change] = turn_dict()
    places: list[str | ApiError] = turn_list()
    for entry in entries:
        try:
            alteration = alteration_of(entry)
            path = _path_of(alteration)
            changes[path] = _with_limits(alteration)
            places.append(path)
        except ApiError as error:
            places.append(error.without_traceback())

    def answered(refusals: Refusals) -> Sequence[Outcome]:
        freed_in_turns(changes, refusals)
        return [one if isinstance(one, ApiError) else refusals[one] for one in places]

    return Later(membership.change_settings(changes, validate_only=validate_only), answered)


def _path_of(alteration: QuotaAlteration) -> str:
    """Raises `ApiError`."""
    path = entity_path(alteration.entity())
    if not all(map(is_node_name, path.split("/"))):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{path} cannot be a node of ZooKeeper")
    return path


def _with_limits(alteration: QuotaAlteration) -> Change:
    """Raises `ApiError` for invalid limits."""
    alteration.apply({})

    def change(settings: Mapping[str, str]) -> Mapping[str, str]:
        return with_limits(settings, alteration.limits)

    return change
