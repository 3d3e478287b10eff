"""Settings in ZooKeeper, which any broker may read and change: a notice has all of them look.

Kafka's counterparts: `ZkAdminManager`, `AdminZkClient.changeEntityConfig`,
`ZkNodeChangeNotificationListener`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Result,
    Set,
    Steps,
)
from ottla.registries import paths
from ottla.registries.entities import decode_config, encode_config
from ottla.registries.nodes import NodeError
from ottla.registries.notices import (
    CHANGE_EXPIRATION_MS,
    decode_config_change,
    encode_config_change,
)

NONE_SEEN = -1

Settings = Mapping[str, Mapping[str, str]]
"""Of entities such as `topics/orders`."""


def read_settings(entities: Iterable[str]) -> Steps[dict[str, dict[str, str]]]:
    """Of entities such as `topics/orders`; none of those whose node is not what Kafka writes."""
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


Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""What becomes of an entity's settings; it raises `ApiError` to refuse."""


def check_change(entity: str, change: Change) -> Steps[ApiError | Mapping[str, str]]:
    """What `change_settings` would write, or why it would be refused."""
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
    """Writes what `change` makes of an entity's settings, or says why it refused.

    It is asked again where another broker was quicker.
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


@dataclass(slots=True)
class ConfigChanges:
    """Notices have ascending numbers; `seen` is that of the last one that was read."""

    seen: int = NONE_SEEN

    def follow(self, now_ms: int) -> Steps[dict[str, dict[str, str]]]:
        """Has the next notice reported; the settings of what the new ones name.

        Old notices are removed, by whichever broker sees them.
        """
        (folder,) = yield Batch(operations=(Children(paths.CONFIG_CHANGES, watch=True),))
        numbers = {f"{paths.CONFIG_CHANGES}/{one}": _number(one) for one in folder.children}
        if max(numbers.values(), default=NONE_SEEN) <= self.seen:
            return {}
        results = yield Batch(operations=tuple(Get(path) for path in numbers))
        entities, old = [], []
        for (path, number), result in zip(numbers.items(), results, strict=True):
            if result.is_done and result.created_ms + CHANGE_EXPIRATION_MS < now_ms:
                old.append(path)
            if number <= self.seen or not result.is_done:
                continue
            try:
                entities.append(decode_config_change(result.content, path))
            except NodeError:
                continue
        self.seen = max(numbers.values())
        settings = yield from read_settings(entities)
        if old:
            yield Batch(operations=tuple(Delete(path) for path in old))
        return settings


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else NONE_SEEN
