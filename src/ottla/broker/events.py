"""Events of a broker's topics, settings and logs."""

from collections.abc import Iterator, Mapping

from ottla.base.values import dataclass
from ottla.config.any_setting import is_sensitive, setting_row
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.group import GroupConfig
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    topic: str
    partition_count: int
    settings: Mapping[str, str]

    @property
    def message(self) -> str:
        own = ", ".join(f"{name}={shown(name, value)}" for name, value in self.settings.items())
        return f"topic {self.topic} is created: {self.partition_count} partitions" + (
            f", {own}" if own else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    topic: str
    partition_count: int

    @property
    def message(self) -> str:
        return f"topic {self.topic} is deleted, with {self.partition_count} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded:
    topic: str
    partition_count: int

    @property
    def message(self) -> str:
        return f"topic {self.topic} has {self.partition_count} partitions now"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChanged:
    """`before` and `after` are `None` if the owner does not override the setting."""

    owner: str
    setting: str
    before: str | None
    after: str | None
    by: str

    @property
    def message(self) -> str:
        return (
            f"{self.owner}: {self.setting} is {_text(self.after)} now, and was "
            f"{_text(self.before)}: changed by {self.by or 'the broker itself'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompacted:
    log: str
    end_offset: int
    records_kept: int
    records_read: int
    bytes_kept: int
    bytes_read: int

    @property
    def message(self) -> str:
        return (
            f"{self.log} is compacted below offset {self.end_offset}: {self.records_kept} of "
            f"{self.records_read} records stay, {self.bytes_kept} of {self.bytes_read} bytes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsGoing:
    """Segments of one log that retention deletes; `reason` counts them by rule."""

    log: str
    start_offset: int
    reason: str

    @property
    def message(self) -> str:
        return f"{self.log}: segments below offset {self.start_offset} are deleted: {self.reason}"


def setting_changes(
    owner: str, before: Mapping[str, str], after: Mapping[str, str], by: str
) -> Iterator[SettingChanged]:
    """Returns the differences between an owner's old and new settings."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield SettingChanged(
                owner=owner, setting=name, before=shown(name, old), after=shown(name, new), by=by
            )


def shown(name: str, value: str | None) -> str | None:
    """Returns a setting's value for the log; secrets are hidden, as in DescribeConfigs."""
    is_hidden = name not in _NEVER_SECRET and is_sensitive(setting_row(name))
    return "[hidden]" if value is not None and is_hidden else value


_NEVER_SECRET = frozenset(
    {*settings_of(TopicConfig), *settings_of(GroupConfig), *settings_of(ClientMetricsConfig)}
)
"""What is unknown among a broker's settings may be a secret."""


def _text(value: str | None) -> str:
    return "the default" if value is None else value
