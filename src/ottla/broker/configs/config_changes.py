"""How a client changes settings: one by one, or all at once.

Kafka's counterparts: `ConfigurationControlManager`, `AlterConfigOp` (KIP-339).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.values import dataclass
from ottla.config.setting import Setting


class ConfigOperation(IntEnum):
    """What to do with a setting, by Kafka's numbers; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """`value` is the value to set; of a list, the comma-separated items to append or remove."""

    name: str
    operation: ConfigOperation = ConfigOperation.SET
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """`is_whole`: settings that are not named are reset to defaults. `by` is the requester."""

    changes: Sequence[ConfigChange]
    is_whole: bool = False
    by: str = ""

    def apply(self, current: Mapping[str, str], rows: Mapping[str, Setting]) -> dict[str, str]:
        """Returns the settings after the changes; raises `ApiError(INVALID_CONFIG)`.

        `rows` contain the type of each setting, and the default that a list is extended from.
        """
        values = {} if self.is_whole else dict(current)
        for change in self.changes:
            match change.operation:
                case ConfigOperation.SET:
                    values[change.name] = change.value
                case ConfigOperation.DELETE:
                    values.pop(change.name, None)
                case _:
                    values[change.name] = _changed_list(change, values, rows)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAlteration:
    """The changes of one resource's settings; `alteration` raises `ApiError` if it is invalid.

    `resource_type` is a number of `ResourceType`, or one that nothing has.
    """

    resource_type: int
    resource_name: str
    alteration: Callable[[], Alteration]


def _changed_list(
    change: ConfigChange, values: Mapping[str, str], rows: Mapping[str, Setting]
) -> str:
    row = rows.get(change.name)
    if row is None or row.kind != "list":
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {change.operation.name} to key {change.name} because its type is not LIST.",
        )
    parts = _parts(values.get(change.name, row.format(row.default)))
    wanted = _parts(change.value)
    if change.operation is ConfigOperation.APPEND:
        return ",".join(dict.fromkeys([*parts, *wanted]))
    return ",".join(part for part in parts if part not in wanted)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
