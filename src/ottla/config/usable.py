"""The valid part of settings that were stored earlier, under other rules or by another program.

A client's change is refused as a whole instead. Kafka's counterpart: `DynamicBrokerConfig`, which
logs and ignores invalid dynamic values at its start.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ottla.config.setting import SettingError

Key = TypeVar("Key")
Built = TypeVar("Built")


def usable(
    values: Mapping[Key, str],
    build: Callable[[Mapping[Key, str]], Built],
    find: Callable[[str, Mapping[Key, str]], Key | None],
) -> tuple[Built, dict[Key, SettingError]]:
    """Builds settings from as many of `values` as are valid together, and returns the others.

    `find` returns the key of a setting's name. Raises `SettingError` if no value is needed for an
    error.
    """
    taken = dict(values)
    refused: dict[Key, SettingError] = {}
    while True:
        try:
            return build(taken), refused
        except SettingError as error:
            if not taken:
                raise
            key = find(error.name, taken)
            if key is None:
                # Another setting, which is not among them, contradicts one of them.
                key = _culprit(taken, build)
            refused[key] = error
            del taken[key]


def name_among(name: str, values: Mapping[str, str]) -> str | None:
    """As `find`, for values by name."""
    return name if name in values else None


def _culprit(taken: Mapping[Key, str], build: Callable[[Mapping[Key, str]], object]) -> Key:
    """The first value without which the others are valid, or else the last one."""
    key = next(iter(taken))
    for key in taken:
        try:
            build({one: text for one, text in taken.items() if one != key})
        except SettingError:
            continue
        break
    return key
