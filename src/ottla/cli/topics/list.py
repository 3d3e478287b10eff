"""`ottla topics list`: every topic with its size, rate and retention."""

from typing import TYPE_CHECKING

import click

from ottla.base.clock import SystemClock
from ottla.base.ids import uuid_text
from ottla.base.texts import matching, rate_text, size_text
from ottla.cli.completion.names import complete_topics
from ottla.cli.losses import Losses
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import parse_seconds
from ottla.diagnosis.words.settings import retention_text

if TYPE_CHECKING:
    from ottla.client.administration.descriptions import TopicActivity

COLUMNS = ("topic", "#partitions", "#records", "#size", "#records/s", "retention")
NO_TOPICS = "there are no topics; ottla topics create {target} NAME makes one"


@click.command(
    "list",
    cls=TargetCommand,
    examples=("ottla topics list localhost:9092", "ottla topics list data/ 'orders-*'"),
)
@target_argument()
@click.argument("patterns", metavar="[NAME]...", nargs=-1, shell_complete=complete_topics)
@click.option("--internal", is_flag=True, help="Also list internal topics.")
@click.option(
    "--rate-over",
    "window",
    metavar="TIME",
    default="5m",
    show_default=True,
    help="Time over which records/s are averaged.",
)
@output_options(NAMES_ONLY)
def list_command(
    target: Target,
    patterns: tuple[str, ...],
    internal: bool,
    window: str,
    output: Output,
) -> None:
    """List topics, all of them or those named; a NAME may be a pattern such as 'orders-*'.

    Size is that of one replica. Exits with 1 if a broker does not answer.
    """
    from ottla.client.administration.configs import ConfigAdmin
    from ottla.client.administration.topic_activity import TopicActivityAdmin

    window_s = parse_seconds("--rate-over", window)
    losses = Losses()
    with target.reading() as cluster:
        listed = TopicActivityAdmin(cluster)
        known = {one.name: one for one in listed.describe_topics(internal=True)}
        offered = [
            name
            for name, one in known.items()
            if internal or name in patterns or not one.is_internal
        ]
        names = matching("topic", patterns, offered)
        if output.is_brief:
            output.names(names)
            return
        since_ms = SystemClock().now_ms() - round(window_s * 1000)
        found = listed.topic_activity(
            [known[name] for name in names], since_ms, on_unreachable=losses.leader_is_silent
        )
        settings = ConfigAdmin(cluster).topics_settings(names)
    output.listing(
        found,
        COLUMNS,
        (_row(one, settings.get(one.topic.name, {}), window_s) for one in found),
        fields=lambda one: fields_of(one, settings.get(one.topic.name, {}), window_s),
        name=lambda one: one.topic.name,
        none=NO_TOPICS.format(target=target.pasted),
    )
    losses.end()


def _row(one: "TopicActivity", settings: dict[str, str], window_s: float) -> tuple[object, ...]:
    return (
        one.topic.name,
        len(one.partitions),
        f"{one.count:,}",
        size_text(one.size),
        rate_text(one.recent_count, window_s),
        retention_text(settings),
    )


def fields_of(one: "TopicActivity", settings: dict[str, str], window_s: float) -> dict[str, object]:
    """Returns one object of `--json`."""
    return {
        "topic": one.topic.name,
        "topic_id": None if one.topic.topic_id is None else uuid_text(one.topic.topic_id),
        "is_internal": one.topic.is_internal,
        "partitions": len(one.partitions),
        "replicas": max((len(each.replicas) for each in one.topic.partitions), default=0),
        "records": one.count,
        "size": one.size,
        "records_per_second": one.recent_count / window_s,
        "cleanup_policy": settings.get("cleanup.policy"),
        "retention_ms": _number(settings, "retention.ms"),
        "retention_bytes": _number(settings, "retention.bytes"),
    }


def _number(settings: dict[str, str], name: str) -> int | None:
    return int(settings[name]) if name in settings else None
