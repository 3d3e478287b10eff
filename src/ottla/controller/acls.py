"""Access rules in ZooKeeper; a notice of a change makes all brokers read them again.

Kafka's counterparts: `AclAuthorizer.updateResourceAcls`, `ZkAclStore`.
"""

from collections.abc import Callable, Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.values import dataclass
from ottla.controller.notices import NoticeFolder
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Outcome,
    Set,
    Steps,
    folders_of,
)
from ottla.metadata.acls import PatternType, ResourcePattern
from ottla.zookeeper import paths
from ottla.zookeeper.access import (
    Entries,
    acl_path,
    decode_acl_change,
    decode_acls,
    encode_acl_change,
    encode_acls,
    pattern_at,
)
from ottla.zookeeper.nodes import NodeError

FoundAcls = Mapping[ResourcePattern, Entries | NodeError]
"""The rules by resource, empty if there are none; an error if the node is invalid."""

ChangeAcls = Callable[[Entries], Entries]


@dataclass(frozen=True, slots=True)
class ChangedAcls:
    """The rules of a resource before and after a change."""

    before: Entries
    after: Entries


def read_acls(resources: Iterable[ResourcePattern]) -> Steps[FoundAcls]:
    wanted = list(dict.fromkeys(resources))
    if not wanted:
        return {}
    results = yield Batch(operations=tuple(Get(acl_path(one)) for one in wanted))
    found: dict[ResourcePattern, Entries | NodeError] = {}
    for resource, result in zip(wanted, results, strict=True):
        try:
            found[resource] = decode_acls(acl_path(resource), result.content)
        except NodeError as error:
            found[resource] = error
    return found


def read_all_acls() -> Steps[FoundAcls]:
    """Reads all rules, including those of unknown resource types."""
    patterns = list(paths.ACL_FOLDERS)
    kinds = yield Batch(operations=tuple(Children(paths.ACL_FOLDERS[one]) for one in patterns))
    places = [
        (pattern, kind)
        for pattern, folder in zip(patterns, kinds, strict=True)
        for kind in folder.children
    ]
    folders = tuple(Children(f"{paths.ACL_FOLDERS[pattern]}/{kind}") for pattern, kind in places)
    names = yield Batch(operations=folders)
    return (
        yield from read_acls(
            pattern_at(pattern, kind, name)
            for (pattern, kind), folder in zip(places, names, strict=True)
            for name in folder.children
        )
    )


def change_acls(resource: ResourcePattern, change: ChangeAcls) -> Steps[ChangedAcls | ApiError]:
    """Writes the rules that `change` returns; deletes the node if there are none.

    If another broker has changed the node meanwhile, calls `change` again.
    """
    path = acl_path(resource)
    is_first = True
    while True:
        (found,) = yield Batch(operations=(Get(path),))
        try:
            before = decode_acls(path, found.content)
        except NodeError as error:
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        changed = ChangedAcls(before, change(before))
        if changed.after == before:
            if not is_first:
                # A write before a lost connection may not have been followed by its notice.
                yield Batch(operations=(_notice(resource),))
            return changed
        is_first = False
        write: Set | Create | Delete
        if not changed.after:
            write = Delete(path, found.version)
        elif found.is_done:
            write = Set(path, encode_acls(changed.after), found.version)
        else:
            write = Create(path, encode_acls(changed.after))
        (written,) = yield Batch(operations=(write,))
        if written.is_done:
            yield Batch(operations=(_notice(resource),))
            return changed
        if written.outcome is Outcome.NO_NODE:
            yield Batch(operations=folders_of(path))


AclChanges = dict[ResourcePattern, ChangedAcls | ApiError]


def change_all_acls(changes: Mapping[ResourcePattern, ChangeAcls]) -> Steps[AclChanges]:
    """Changes the rules of several resources, one after the other."""
    results: dict[ResourcePattern, ChangedAcls | ApiError] = {}
    for resource, change in changes.items():
        results[resource] = yield from change_acls(resource, change)
    return results


def now_found(changes: AclChanges) -> FoundAcls:
    """The current rules of the resources that were changed."""
    return {
        resource: one.after for resource, one in changes.items() if isinstance(one, ChangedAcls)
    }


def _notice(resource: ResourcePattern) -> Create:
    is_literal = resource.pattern_type is PatternType.LITERAL
    prefix = paths.ACL_CHANGE_PREFIX if is_literal else paths.EXTENDED_ACL_CHANGE_PREFIX
    return Create(prefix, encode_acl_change(resource), is_sequential=True)


def acl_notices() -> list[NoticeFolder[ResourcePattern, FoundAcls]]:
    """The folders of notices: one for literal names, one for the other pattern types."""
    return [
        NoticeFolder(path, decode_acl_change, read_acls)
        for path in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES)
    ]
