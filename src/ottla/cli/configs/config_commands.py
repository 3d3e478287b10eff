"""`ottla configs get`, `set`, `unset` and `explain`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.texts import setting_value, value_text
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import parse_setting, with_secrets
from ottla.cli.target import Target, TargetCommand, looks_like_target, target_argument
from ottla.cli.terminal import ExampleCommand, print_json, with_options
from ottla.diagnosis.words.settings import bounds_text, origin_text

if TYPE_CHECKING:
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.config_values import ConfigEntry
    from ottla.client.connecting.cluster import Cluster
    from ottla.config.setting import Setting

resource_options = with_options(
    click.option("--broker", metavar="ID", help="Settings of a broker instead of a topic."),
    click.option("--brokers", is_flag=True, help="Default settings of all brokers."),
    click.option("--group", metavar="GROUP", help="Settings of a group instead of a topic."),
    click.option("--broker-logger", metavar="ID", help="Levels of a broker's loggers."),
    click.option("--client-metrics", metavar="NAME", help="A subscription to clients' metrics."),
)


@click.command(
    "get",
    cls=TargetCommand,
    examples=(
        "ottla configs get localhost:9092 orders",
        "ottla configs get localhost:9092 --broker 1 log.retention.ms",
    ),
)
@target_argument()
@click.argument("words", metavar="[TOPIC] [KEY]...", nargs=-1)
@resource_options
@click.option(
    "--all", "show_all", is_flag=True, help="Also show settings that have their default values."
)
@output_options("Print lines of KEY=VALUE only.")
def get_command(
    target: Target,
    words: tuple[str, ...],
    show_all: bool,
    output: Output,
    **resource: Any,
) -> None:
    """Print settings with the origin of each value, and its default.

    Settings are those of a topic unless an option names another owner. Without KEY, only values
    that differ from the default are shown.
    """
    from ottla.client.administration.configs import ConfigAdmin

    kind, name, keys = _resource(words, **resource)
    with target.reading() as cluster:
        entries = ConfigAdmin(cluster).describe_configs(kind, [name])[name]
    _check_known(keys, entries)
    shown = [
        one
        for one in sorted(entries.values(), key=lambda one: one.name)
        if (one.name in keys if keys else show_all or one.origin.name != "DEFAULT")
    ]
    output.listing(
        shown,
        ("setting", "value", "from", "default"),
        (
            (one.name, _value(one), origin_text(one.origin.name), value_text(one.name, one.default))
            for one in shown
        ),
        fields=_fields,
        name=lambda one: f"{one.name}={'' if one.value is None else one.value}",
        none="all settings have their defaults; --all shows them",
    )


@click.command(
    "set",
    cls=TargetCommand,
    examples=(
        "ottla configs set localhost:9092 orders retention.ms=7d cleanup.policy=compact,delete",
        "ottla configs set localhost:9092 --brokers log.cleaner.threads=2",
    ),
)
@target_argument()
@click.argument("words", metavar="[TOPIC] KEY=VALUE...", nargs=-1, required=True)
@resource_options
@click.option("--dry-run", is_flag=True, help="Check the values without changing anything.")
@output_options()
def set_command(
    target: Target,
    words: tuple[str, ...],
    dry_run: bool,
    output: Output,
    **resource: Any,
) -> None:
    """Change settings of a topic, a broker or a group; the others stay as they are.

    Times and sizes may be written as 7d and 1Gi.
    """
    kind, name, settings = _resource(words, **resource)
    pairs = dict(parse_setting(one, "retention.ms=7d", option="setting") for one in settings)
    changes = {key: setting_value(key, value) for key, value in with_secrets(pairs).items()}
    if not changes:
        raise UserError("name a setting: KEY=VALUE, such as retention.ms=7d")
    _change(target, kind, name, changes, dry_run=dry_run, output=output)


@click.command(
    "unset",
    cls=TargetCommand,
    examples=("ottla configs unset localhost:9092 orders retention.ms",),
)
@target_argument()
@click.argument("words", metavar="[TOPIC] KEY...", nargs=-1, required=True)
@resource_options
@output_options()
def unset_command(
    target: Target,
    words: tuple[str, ...],
    output: Output,
    **resource: Any,
) -> None:
    """Remove settings: their defaults apply again."""
    kind, name, keys = _resource(words, **resource)
    if not keys:
        raise UserError("name a setting to remove, such as retention.ms")
    _change(target, kind, name, dict.fromkeys(keys), dry_run=False, output=output)


@click.command("explain", cls=ExampleCommand, examples=("ottla configs explain retention.ms",))
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@output_options("Print one line per setting.")
def explain_command(keys: tuple[str, ...], output: Output) -> None:
    """Explain settings: what each means, its type, default and bounds.

    No broker is needed; a TARGET before the KEYs, as in other commands, has no effect.
    """
    if len(keys) > 1 and looks_like_target(keys[0]):
        keys = keys[1:]
    rows = _rows()
    _check_known(keys, rows)
    for number, key in enumerate(keys):
        owners = rows[key]
        if number and output.is_prose:
            click.echo()
        for owner, row in owners:
            if output.as_json:
                print_json(_row_fields(owner, row))
                continue
            click.echo(f"{row.name} ({owner}): {row.doc}")
            if not output.is_quiet:
                _explain(owner, row)


def _resource(
    words: tuple[str, ...], *, brokers: bool, **named: str | None
) -> "tuple[ResourceKind, str, tuple[str, ...]]":
    """Returns what the settings belong to, its name, and the remaining arguments."""
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.config_values import ALL_BROKERS

    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) + brokers > 1:
        *others, last = (f"--{one.replace('_', '-')}" for one in ["brokers", *named])
        raise UserError(f"{', '.join(others)} and {last} exclude each other")
    for kind, name in given:
        return ResourceKind[kind.upper()], name, words
    if brokers:
        return ResourceKind.BROKER, ALL_BROKERS, words
    if not words:
        raise UserError("name a topic, or --broker ID, --brokers or --group GROUP")
    return ResourceKind.TOPIC, words[0], words[1:]


def _change(
    target: Target,
    kind: "ResourceKind",
    name: str,
    changes: Mapping[str, str | None],
    *,
    dry_run: bool,
    output: Output,
) -> None:
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.configs import ConfigAdmin

    if kind is ResourceKind.BROKER_LOGGER and not target.broker_addresses():
        from ottla.embedded.read_only.connection import no_loggers

        raise no_loggers()
    with target.open() as cluster:
        admin = ConfigAdmin(cluster)
        before = _known_entries(cluster, kind, name, list(changes))
        if not changes.keys() <= before.keys():
            _check_names(kind, changes, lambda: _known_entries(cluster, kind, name), output)
        _check_values(kind, changes)
        admin.alter_configs(kind, name, changes, validate_only=dry_run)
        after = before if dry_run else admin.describe_configs(kind, [name], list(changes))[name]
    for key, value in changes.items():
        was = before.get(key)
        now = None if dry_run else after.get(key)
        would = "would be " if dry_run else ""
        text = value_text(key, value) if now is None else _value(now)
        is_hidden = was is not None and was.is_sensitive
        output.say(
            f"{key}: {would}{text} (was {(was and _value(was)) or 'not set'})",
            {
                "name": key,
                "before": was.value if was is not None and not is_hidden else None,
                "value": None if is_hidden else value if now is None else now.value,
                "is_done": not dry_run,
            },
        )


def _known_entries(
    cluster: "Cluster", kind: "ResourceKind", name: str, keys: Sequence[str] | None = None
) -> "dict[str, ConfigEntry]":
    """Returns all settings that exist, or those of `keys`."""
    from ottla.client.administration.configs import ConfigAdmin

    if not name:
        from ottla.client.administration.log_directories import LogDirectoryAdmin

        name = str(min(LogDirectoryAdmin(cluster).describe_cluster().brokers))
    return ConfigAdmin(cluster).describe_configs(kind, [name], keys)[name]


def _check_names(
    kind: "ResourceKind",
    changes: Mapping[str, str | None],
    read_known: "Callable[[], dict[str, ConfigEntry]]",
    output: Output,
) -> None:
    """Remarks on a broker's unknown settings, which a plugin may read; other resources have none.

    Raises `UnknownNameError`, which suggests similar names.
    """
    if kind.name != "BROKER" or None in changes.values():
        _check_known(changes, read_known())
        return
    from ottla.config.any_setting import unknown_text
    from ottla.config.broker import is_unknown_name

    unknown = [key for key in changes if is_unknown_name(key)]
    if unknown:
        output.remark(f"not known, and without effect here: {unknown_text(unknown)}")


def _check_known(keys: Any, known: Mapping[str, object]) -> None:
    for key in keys:
        if key not in known:
            raise UnknownNameError("setting", key, known)


def _check_values(kind: "ResourceKind", changes: Mapping[str, str | None]) -> None:
    """Raises `SettingError`, which names the allowed values."""
    for key, value in changes.items():
        for owner, row in _rows().get(key, ()):
            if owner == kind.name.lower() and value is not None:
                row.parse(value)


def _rows() -> "dict[str, list[tuple[str, Setting]]]":
    """Returns every setting by name, with its owner."""
    from ottla.config.broker import broker_settings
    from ottla.config.client_metrics import ClientMetricsConfig
    from ottla.config.group import GroupConfig
    from ottla.config.setting import settings_of
    from ottla.config.topic import TopicConfig

    found: dict[str, list[tuple[str, Setting]]] = {}
    for owner, rows in (
        ("topic", settings_of(TopicConfig)),
        ("broker", broker_settings()),
        ("group", settings_of(GroupConfig)),
        ("client_metrics", settings_of(ClientMetricsConfig)),
    ):
        for name, row in rows.items():
            found.setdefault(name, []).append((owner, row))
    return found


def _explain(owner: str, row: "Setting") -> None:
    click.echo(f"  type {row.kind}, default {row.format(row.default) or 'none'}")
    bounds = bounds_text(row)
    if bounds:
        click.echo(f"  allowed: {bounds}")
    if row.broker_name:
        click.echo(f"  default: the broker's {row.broker_name}")
    if owner == "broker":
        click.echo(
            "  can be changed while the broker runs"
            if row.is_dynamic
            else "  read only at startup: set it in server.properties, or with ottla serve -o"
        )


def _row_fields(owner: str, row: "Setting") -> dict[str, object]:
    return {
        "name": row.name,
        "of": owner,
        "type": row.kind,
        "default": row.format(row.default),
        "one_of": row.one_of,
        "at_least": row.at_least,
        "at_most": row.at_most,
        "broker_name": row.broker_name,
        "is_dynamic": row.is_dynamic,
        "doc": row.doc,
    }


def _fields(one: "ConfigEntry") -> dict[str, object]:
    return {
        "name": one.name,
        "value": one.value,
        "origin": one.origin.name.lower(),
        "default": one.default,
        "is_read_only": one.is_read_only,
        "is_sensitive": one.is_sensitive,
    }


def _value(one: "ConfigEntry") -> str:
    return "(hidden)" if one.is_sensitive else value_text(one.name, one.value)
