"""A setting that is set or unset: before, after and default, and what that deletes."""

from collections.abc import Iterator, Mapping, Sequence

from ottla.base.errors import ApiError, CorruptionError, UnknownNameError, UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.texts import setting_value, size_text, value_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.config_values import ConfigEntry
from ottla.config.setting import Setting, with_values
from ottla.config.topic import DECIDING, TopicConfig
from ottla.console.changes import Change, Plan, secret_of
from ottla.console.commands import Command
from ottla.console.contents import counted, segment
from ottla.console.pages import Ask, Redirect
from ottla.diagnosis.directories import Directories
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.reading.read_only_log import ReadOnlyLog

OF_A_TOPIC, OF_A_BROKER = ResourceKind.TOPIC, ResourceKind.BROKER
MOST_LOGS = 200
"""The number of partitions that are examined for what retention would delete."""
SECRET_REFERENCE = "${env:SECRET}"
"""In the command of a change whose value must not be shown."""


def setting_change(
    ask: Ask,
    kind: ResourceKind,
    name: str,
    entries: Mapping[str, ConfigEntry],
    rows: Mapping[str, Setting],
) -> Change:
    """Sets one setting of the request's form, or resets it to its default. Raises `UserError`."""
    key = ask.fields.get("setting", "")
    if key not in entries:
        raise UnknownNameError("setting", key, entries)
    entry = entries[key]
    is_secret = entry.is_sensitive
    value = None
    if not ask.fields.get("unset"):
        given = ask.fields.get("value", "").strip()
        value = SECRET_REFERENCE if is_secret else setting_value(key, given)
        if key in rows and not is_secret:
            rows[key].parse(value)
    is_topic = kind is OF_A_TOPIC
    path = f"/topics/{segment(name)}/settings" if is_topic else f"/settings?broker={name}"

    def deed() -> Redirect:
        new = secret_of(ask) if is_secret and value is not None else value
        with ask.place.changing() as cluster:
            Admin(cluster).alter_configs(kind, name, {key: new})
        if value is None:
            return Redirect(path, f"{key} was reset to its default")
        return Redirect(path, f"{key} is changed" if is_secret else f"{key} is {value} now")

    if ask.place.has_broker and not is_secret:
        with ask.place.admin() as admin:
            admin.alter_configs(kind, name, {key: value}, validate_only=True)
    of = f"topic {name}" if is_topic else f"broker {name}"
    effect = list(_effect(ask, name, key, entry, value)) if is_topic else []
    return Change(
        title=f"Unset {key} of {of}" if value is None else f"Set {key} of {of}",
        lines=(rows[key].doc,) if key in rows else (),
        figures=tuple(effect),
        warnings=tuple(_warnings(key, entry, value)) if is_topic else (),
        plan=Plan(("Setting", "Now", "Then", "Default"), [_row(entry, value)]),
        command=Command(
            verb=("configs", "unset" if value is None else "set"),
            options=() if is_topic else ("--broker", name),
            arguments=(*((name,) if is_topic else ()), key if value is None else f"{key}={value}"),
        ),
        secret=f"New value of {key}" if is_secret and value is not None else "",
        button="Unset" if value is None else "Set",
        back=path,
        section="topics" if is_topic else "settings",
        topic=name if is_topic else None,
        deed=deed,
    )


def _row(entry: ConfigEntry, value: str | None) -> tuple[str, str, str, str]:
    if entry.is_sensitive:
        return entry.name, "hidden", "unset" if value is None else "hidden", "none"
    before = value_text(entry.name, entry.value)
    default = value_text(entry.name, entry.default)
    after = default if value is None else value_text(entry.name, value)
    return entry.name, before, after, default


def _warnings(key: str, entry: ConfigEntry, value: str | None) -> Iterator[str]:
    """What the new value means for records that are there."""
    after = entry.default if value is None else value
    before, now = (set((text or "").split(",")) for text in (entry.value, after))
    if key == "cleanup.policy" and "compact" in now - before:
        yield (
            "Of each key only the newest record stays. Records without a key are refused from now "
            "on."
        )
    if key == "cleanup.policy" and "delete" in now - before:
        yield "Records are deleted by age and size, as retention.ms and retention.bytes say."


def _effect(ask: Ask, topic: str, key: str, entry: ConfigEntry, value: str | None) -> Iterator[str]:
    """What the next check of retention deletes now, and with the new value; of files that can be
    read from here.
    """
    after = entry.default if value is None else value
    if key not in DECIDING or after is None:
        return
    try:
        files = ask.place.files(topic)
        if files is None:
            return
        config = files.config(topic)
        now = _deleted(ask, files, topic, config)
        then = _deleted(ask, files, topic, with_values(config, {key: after}))
    except (UserError, CorruptionError, ApiError, OSError):
        return
    if now == then:
        yield f"The next check of retention deletes the same as before: {_text(now)}."
    else:
        yield f"The next check of retention then deletes {_text(then)}, instead of {_text(now)}."


def _deleted(ask: Ask, files: Directories, topic: str, config: TopicConfig) -> tuple[int, int]:
    """The number of segments that retention deletes next, and their bytes."""
    sizes = [size for log in _logs(files, topic) for size in _going(ask, files, log, config)]
    return len(sizes), sum(sizes)


def _going(ask: Ask, files: Directories, log: ReadOnlyLog, config: TopicConfig) -> Sequence[int]:
    explained = explain_log(
        log,
        config,
        ask.now_ms,
        files.file_system,
        highest_remote_offset=files.highest_remote_offset(log),
    )
    return [one.verdict.size for one in explained.segments if one.verdict.goes]


def _logs(files: Directories, topic: str) -> Iterator[ReadOnlyLog]:
    found = [(one, index) for one in files.opened for index in one.topics().get(topic, ())]
    for directory, index in found[:MOST_LOGS]:
        yield directory.partition(topic, index)


def _text(deleted: tuple[int, int]) -> str:
    count, size = deleted
    return f"{counted(count, 'segment')} of {size_text(size)}" if count else "nothing"
