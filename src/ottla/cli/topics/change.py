"""`ottla topics create`, `alter`, `grow` and `delete`."""

from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.texts import matching, setting_value
from ottla.cli.completion.names import complete_topics
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import parse_setting
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, counted, yes_option

if TYPE_CHECKING:
    from ottla.client.administration.topics import TopicAdmin

EXAMPLE = "retention.ms=7d"

settings_option = click.option(
    "-o",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the topic, such as retention.ms=7d; repeatable.",
)


@click.command(
    "create",
    cls=TargetCommand,
    examples=(
        "ottla topics create localhost:9092 orders -p 6 -o retention.ms=7d",
        "ottla topics create data/ orders",
    ),
)
@target_argument()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--partitions", "-p", type=click.IntRange(1), metavar="N", help="Partitions.")
@click.option("--replicas", "-r", type=click.IntRange(1), metavar="N", help="Replicas of each.")
@settings_option
@click.option("--if-missing", "--if-not-exists", is_flag=True, help="Skip topics that exist.")
@click.option("--dry-run", is_flag=True, help="Check the request without creating anything.")
@output_options()
def create_command(
    target: Target,
    names: tuple[str, ...],
    partitions: int | None,
    settings: tuple[str, ...],
    output: Output,
    **how: Any,
) -> None:
    """Create topics NAME. Settings that are not given have the broker's defaults. A data directory
    is created if it is missing. Times and sizes may be written as 7d and 1Gi.
    """
    from ottla.client.administration.topics import TopicAdmin, check_new_topic
    from ottla.config.topic import TopicConfig

    configs = topic_changes(settings)
    check_settings(configs, TopicConfig())
    for name in names:
        check_new_topic(name)
    with target.open(may_create=True) as cluster:
        admin = TopicAdmin(cluster)
        there = set(admin.list_topics(internal=True)) if how["if_missing"] else set()
        for name in names:
            if name in there:
                continue
            admin.create_topic(
                name,
                partitions=partitions or -1,
                replication_factor=how["replicas"] or -1,
                configs=configs,
                validate_only=how["dry_run"],
            )
            count = "" if partitions is None else f" with {counted(partitions, 'partition')}"
            verb = "would create" if how["dry_run"] else "created"
            fields = {"topic": name, "partitions": partitions, "is_done": not how["dry_run"]}
            output.say(f"{verb} {name}{count}", fields)


@click.command(
    "alter",
    cls=TargetCommand,
    examples=(
        "ottla topics alter localhost:9092 orders -o retention.ms=1d",
        "ottla topics alter localhost:9092 'test-*' --unset retention.ms",
    ),
)
@target_argument()
@click.argument(
    "patterns", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics
)
@settings_option
@click.option("--unset", multiple=True, metavar="KEY", help="Setting to remove; repeatable.")
@output_options()
def alter_command(
    target: Target,
    patterns: tuple[str, ...],
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    output: Output,
) -> None:
    """Change settings of topics; the others stay as they are."""
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.configs import ConfigAdmin
    from ottla.client.administration.topics import TopicAdmin
    from ottla.config.topic import TopicConfig

    given = topic_changes(settings)
    check_settings({**given, **dict.fromkeys(unset, "")}, TopicConfig(), unset)
    changes: dict[str, str | None] = {**given, **dict.fromkeys(unset)}
    if not changes:
        raise UserError(f"name a change: -o {EXAMPLE}, or --unset KEY")
    with target.open() as cluster:
        admin = ConfigAdmin(cluster)
        for name in matching("topic", patterns, TopicAdmin(cluster).list_topics(internal=True)):
            admin.alter_configs(ResourceKind.TOPIC, name, changes)
            texts = [f"{key} unset" if value is None else f"{key}={value}"
                     for key, value in changes.items()]  # fmt: skip
            output.say(f"{name}: {', '.join(texts)}", {"topic": name, "settings": changes})


@click.command("grow", cls=TargetCommand, examples=("ottla topics grow localhost:9092 orders 12",))
@target_argument()
@click.argument("name", metavar="NAME", shell_complete=complete_topics)
@click.argument("count", metavar="PARTITIONS", type=click.IntRange(1))
@click.option(
    "--dry-run", is_flag=True, help="Check whether the topic can grow without changing anything."
)
@output_options()
def grow_command(target: Target, name: str, count: int, dry_run: bool, output: Output) -> None:
    """Increase the partitions of the topic NAME to PARTITIONS.

    Keys may then map to other partitions than before, so the order of a key's records is only kept
    within its old partition, and within its new one.
    """
    from ottla.client.administration.topics import TopicAdmin

    with target.open() as cluster:
        admin = TopicAdmin(cluster)
        before = len(admin.partitions([name])[name])
        admin.create_partitions(name, count, validate_only=dry_run)
    verb = "would grow" if dry_run else "grew"
    output.say(
        f"{name} {verb} from {counted(before, 'partition')} to {count}",
        {"topic": name, "before": before, "partitions": count, "is_done": not dry_run},
    )


@click.command("delete", cls=TargetCommand, examples=("ottla topics delete localhost:9092 orders",))
@target_argument()
@click.argument(
    "patterns", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics
)
@click.option("--if-there", is_flag=True, help="Ignore names without a match.")
@yes_option
@output_options()
def delete_command(
    target: Target,
    patterns: tuple[str, ...],
    if_there: bool,
    is_confirmed: bool,
    output: Output,
) -> None:
    """Delete topics with all their records. At a terminal the command asks first.

    A NAME may be a pattern such as 'test-*', which leaves internal topics alone.
    """
    from ottla.client.administration.topics import TopicAdmin

    with target.open() as cluster:
        admin = TopicAdmin(cluster)
        names = _chosen(admin, patterns, if_there)
        if not names:
            return
        what = ", ".join(names)
        confirm(f"Delete {counted(len(names), 'topic')} ({what})?", is_confirmed=is_confirmed)
        admin.delete_topics(names)
    output.say(f"deleted {what}", *({"topic": name, "is_deleted": True} for name in names))


def _chosen(admin: "TopicAdmin", patterns: tuple[str, ...], if_there: bool) -> list[str]:
    known = {one.name: one for one in admin.describe_topics(internal=True)}
    offered = [name for name, one in known.items() if not one.is_internal or name in patterns]
    if if_there:
        patterns = tuple(one for one in patterns if one in known or {*"*?["} & {*one})
    return matching("topic", patterns, offered) if patterns else []


def topic_changes(settings: tuple[str, ...]) -> dict[str, str]:
    """Returns the settings of `-o`, in which times and sizes may have units."""
    pairs = [parse_setting(one, EXAMPLE) for one in settings]
    return {name: setting_value(name, value) for name, value in pairs}


def check_settings(
    values: dict[str, str], config: object, only_names: tuple[str, ...] = ()
) -> None:
    """Raises `SettingError` for an invalid name or value, with a valid one."""
    from ottla.config.setting import settings_of, unknown_setting, with_values

    rows = settings_of(type(config))
    for name in only_names:
        if name not in rows:
            raise unknown_setting(name, list(rows))
    with_values(config, {name: text for name, text in values.items() if name not in only_names})
