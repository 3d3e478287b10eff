"""Settings in ZooKeeper; a notice of a change makes all brokers read them again.

Kafka's counterparts: `ZkAdminManager`, `AdminZkClient.changeEntityConfig`,
`ZkNodeChangeNotificationListener`.
"""

from collections.abc import Callable, Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.controller.notices import NoticeFolder
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Get,
    Outcome,
    Result,
    Set,
    Steps,
    folders_of,
)
from ottla.zookeeper import paths
from ottla.zookeeper.entities import decode_config, encode_config
from ottla.zookeeper.nodes import NodeError
from ottla.zookeeper.notices import decode_config_change, encode_config_change

Settings = Mapping[str, Mapping[str, str]]
"""Settings by entity, such as `topics/orders`."""


def read_settings(entities: Iterable[str]) -> Steps[Settings]:
    """Reads settings of entities such as `topics/orders`; omits nodes that are not as Kafka writes
    them.
    """
    wanted = list(dict.fromkeys(entities))
    if not wanted:
        return {}
    results = yield Batch(operations=tuple(Get(paths.config_path(one)) for one in wanted))
    found = {}
    for entity, result in zip(wanted, results, strict=True):
        try:
            found[entity] = decode_config(entity, result.content)
        except NodeError:
            continue
    return found


def read_clients() -> Steps[Settings]:
    """Reads the settings of all users, client ids and addresses.

    The entities are `users/alice`, `clients/app`, `users/alice/clients/app`, `ips/10.0.0.7`.
    """
    folders = ("users", "clients", "ips")
    users, clients, addresses = yield Batch(
        operations=tuple(Children(paths.config_path(folder)) for folder in folders)
    )
    of_users = yield Batch(
        operations=tuple(
            Children(paths.config_path(f"users/{user}/clients")) for user in users.children
        )
    )
    return (
        yield from read_settings(
            [f"users/{user}" for user in users.children]
            + [f"clients/{client}" for client in clients.children]
            + [f"ips/{address}" for address in addresses.children]
            + [
                f"users/{user}/clients/{client}"
                for user, folder in zip(users.children, of_users, strict=True)
                for client in folder.children
            ]
        )
    )


Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns the new settings of an entity; raises `ApiError` to reject the change."""


def check_change(entity: str, change: Change) -> Steps[ApiError | Mapping[str, str]]:
    """Returns what `change_settings` would write, or its error."""
    (found,) = yield Batch(operations=(Get(paths.config_path(entity)),))
    return _changed(entity, change, found)


def _changed(entity: str, change: Change, found: Result) -> ApiError | Mapping[str, str]:
    try:
        return change(decode_config(entity, found.content))
    except ApiError as error:
        return error.without_traceback()
    except NodeError as error:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def change_settings(entity: str, change: Change) -> Steps[ApiError | Mapping[str, str]]:
    """Writes the settings that `change` returns; returns them, or its error.

    If another broker has changed the node meanwhile, calls `change` again.
    """
    path = paths.config_path(entity)
    while True:
        (found,) = yield Batch(operations=(Get(path),))
        settings = _changed(entity, change, found)
        if isinstance(settings, ApiError):
            return settings
        content = encode_config(settings)
        write = Set(path, content, found.version) if found.is_done else Create(path, content)
        (written,) = yield Batch(operations=(write,))
        if written.is_done:
            notice = Create(
                paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity), is_sequential=True
            )
            yield Batch(operations=(notice,))
            return settings
        if written.outcome is Outcome.NO_NODE:
            yield Batch(operations=folders_of(path))


Refusals = dict[str, ApiError | None]
"""The error by entity; `None` if the change succeeded."""


def change_all(
    changes: Mapping[str, Change], *, validate_only: bool
) -> Steps[tuple[Refusals, Settings]]:
    """Changes entities one after the other; returns the errors and the new settings."""
    deed = check_change if validate_only else change_settings
    refusals: dict[str, ApiError | None] = {}
    changed: dict[str, Mapping[str, str]] = {}
    for entity, change in changes.items():
        result = yield from deed(entity, change)
        if isinstance(result, ApiError):
            refusals[entity] = result
        else:
            refusals[entity], changed[entity] = None, result
    return refusals, {} if validate_only else changed


def config_notices() -> NoticeFolder[str, Settings]:
    return NoticeFolder(
        paths.CONFIG_CHANGES,
        lambda path, content: decode_config_change(content, path),
        read_settings,
    )
