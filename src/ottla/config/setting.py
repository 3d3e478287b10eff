"""One setting is one row; a group of settings is a frozen dataclass whose fields are the rows.

Kafka's counterpart: `org.apache.kafka.common.config.ConfigDef`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.base.errors import UserError, nearest
from ottla.base.values import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None


class SettingError(UserError):
    """A setting's name is unknown or its value is out of bounds.

    `api_message` is the error message for clients, in Kafka's words, which tools and tests look
    for.

    >>> try:
    ...     ottla.Consumer(log, settings={"fetch.min.bytes": "few"})
    ... except ottla.SettingError as error:
    ...     print(error.name)
    fetch.min.bytes
    """

    def __init__(self, name: str, message: str, api_message: str) -> None:
        super().__init__(message)
        self.name = name
        self.api_message = api_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row from which `--help`, the documentation and DescribeConfigs are generated.

    `kind` is Kafka's type name: boolean, int, short, long, double, string, list,
    password, or unknown for what a broker accepts without knowing it.
    `broker_name` is the broker's setting that gives a topic's or a group's default. `reading`
    raises `ValueError` with the reason for invalid texts.
    """

    name: str
    kind: str
    default: Value
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] | None = None
    reading: Callable[[str], object] | None = None
    broker_name: str | None = None
    is_dynamic: bool = True

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Value:
        """Returns the value of a text; raises `SettingError`, which says what would be valid."""
        if "\0" in text:
            # The value is not shown, since it may be a secret.
            message = f"{self.name}: contains the character NUL, which is not allowed; remove it"
            raise SettingError(self.name, message, message)
        value = self._convert(text.strip())
        self._check(value, text)
        return value

    def format(self, value: Value) -> str:
        """The inverse of `parse`, as Kafka writes it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return "" if value is None else str(value)

    def _convert(self, text: str) -> Value:
        try:
            match self.kind:
                case "boolean":
                    return {"true": True, "false": False}[text.lower()]
                case "int" | "short" | "long":
                    return int(text)
                case "double":
                    return float(text)
                case "list":
                    return tuple(part.strip() for part in text.split(",") if part.strip())
                case _:
                    return text
        except (ValueError, KeyError) as error:
            if self.kind == "boolean":
                wanted = "Expected value to be either true or false"
                raise self._error(text, "must be true or false", wanted) from error
            number = "number" if self.kind == "double" else "whole number"
            wanted = f"Not a number of type {self.kind.upper()}"
            raise self._error(text, f"must be a {number}{self._unit}", wanted) from error

    @property
    def _unit(self) -> str:
        return {"ms": " of milliseconds", "bytes": " of bytes"}.get(self.name.split(".")[-1], "")

    def _check(self, value: Value, text: str) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            limit = {"int": INT32_MAX, "short": 2**15 - 1, "long": INT64_MAX}.get(self.kind)
            at_most = self.at_most if self.at_most is not None else limit
            at_least = self.at_least
            if at_least is not None and value < at_least:
                bound = f"Value must be at least {at_least}"
                raise self._error(text, f"at least {at_least}", bound)
            if at_most is not None and value > at_most:
                bound = f"Value must be no more than {at_most}"
                raise self._error(text, f"at most {at_most}", bound)
        if self.reading is not None:
            try:
                self.reading(str(value))
            except ValueError as error:
                raise self._error(text, str(error), str(error)) from error
        if self.one_of is not None:
            for part in value if isinstance(value, tuple) else (str(value),):
                if part not in self.one_of:
                    choices = ", ".join(self.one_of)
                    raise self._error(
                        text, f"one of {choices}", f"String must be one of: {choices}"
                    )

    def _error(self, text: str, wanted: str, api_wanted: str) -> SettingError:
        return SettingError(
            self.name,
            f"{self.name}={text}: {wanted}",
            f"Invalid value {text} for configuration {self.name}: {api_wanted}",
        )


def setting(name: str, kind: str, default: Value, doc: str, **bounds: Any) -> Any:
    """Declares a field of a settings dataclass; `bounds` are the other columns of `Setting`."""
    row = Setting(name=name, kind=kind, default=default, doc=doc, **bounds)
    return dataclasses.field(default=default, metadata={"setting": row})


_ROWS: dict[type[Any], dict[str, Setting]] = {}


def settings_of(config: type[Any]) -> dict[str, Setting]:
    """The rows of a settings dataclass by Kafka's name, in order of declaration; not a copy."""
    found = _ROWS.get(config)
    if found is None:
        fields = dataclasses.fields(config)
        rows = (field.metadata["setting"] for field in fields if "setting" in field.metadata)
        found = _ROWS[config] = {row.name: row for row in rows}
    return found


Config = TypeVar("Config")


def with_values(config: Config, values: Mapping[str, str], owner: str = "topic") -> Config:
    """Returns a copy of the settings with texts by Kafka's names parsed in; raises
    `SettingError`.
    """
    rows = settings_of(type(config))
    changes: dict[str, Value] = {}
    for name, text in values.items():
        row = rows.get(name)
        if row is None:
            raise unknown_setting(name, list(rows), owner)
        changes[row.attribute] = row.parse(text)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def value_text(value: Any) -> str:
    """Returns a value from a program as a settings file would write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown_setting(name: str, names: list[str], owner: str = "topic") -> SettingError:
    """Returns the error for an unknown name, with the one that was perhaps meant."""
    close = nearest(name, names)
    hint = f"; did you mean {close[0]}?" if close else ""
    return SettingError(
        name,
        f"{name}: there is no such setting{hint}",
        f"Unknown {owner} config name: {name}{hint}",
    )
