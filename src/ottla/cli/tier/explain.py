"""`ottla tier explain`: where each segment of a log is, and why."""

from typing import TYPE_CHECKING, Any

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.ids import uuid_text
from ottla.base.texts import size_text
from ottla.cli.endings import named_files
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.terminal import ExampleCommand, offsets_text
from ottla.cli.tier.options import chosen_options, contents_of, found_logs

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.storage.tiers.contents import TierContents
    from ottla.storage.tiers.explanation import Explained, ExplainedTier


@click.command(
    "explain",
    cls=ExampleCommand,
    examples=(
        "ottla tier explain data/ --tier tier/ -t orders -p 0",
        "ottla tier explain data/ --tier tier/ -t orders -p 0 --offset 42",
    ),
)
@click.argument("directories", metavar="[DIR]...", nargs=-1)
@chosen_options
@click.option("--offset", "-o", type=click.IntRange(0), help="Only what has this offset.")
@output_options()
def explain_command(
    directories: tuple[str, ...], offset: int | None, output: Output, **given: Any
) -> None:
    """Explain where each segment of a topic is, and why.

    A segment is in a directory DIR of the broker, in the tier, or in both; and it is copied, or not
    yet, by some rule. Uploads that the log does not read are named too: those that another one
    supersedes, of a history that the log lost, before its start. Nothing is written.
    """
    if not given["topics"]:
        raise UserError("name the topic to explain with --topic, and a partition with -p")
    from ottla.storage.tiers.explanation import explain_tier

    now_ms = SystemClock().now_ms()
    with named_files(directories[0] if directories else str(given["tier"] or given["tier_config"])):
        contents = contents_of(directories, given)
        logs = found_logs(contents, output)
        explained = [
            explain_tier(one, _config_of(one.partition.topic, contents), now_ms) for one in logs
        ]
    if not explained:
        raise UserError(
            f"{contents.tier.address}: nothing of {', '.join(given['topics'])} lies in this tier; "
            "`ottla tier list` lists what does"
        )
    for one in explained:
        _show(one, offset, output)


def _config_of(topic: str, contents: "TierContents") -> "TopicConfig | None":
    """A topic's settings, with Kafka's defaults; `None` if no directory has its own."""
    from ottla.config.topic import TopicConfig
    from ottla.metadata.deciding.topic_rules import stored_config

    entry = contents.topics.entries.get(topic)
    return None if entry is None else stored_config(TopicConfig(), entry.configs)[0]


def _show(one: "ExplainedTier", offset: int | None, output: Output) -> None:
    rows = [row for row in one.rows if offset is None or row.has(offset)]
    output.say(_heading(one), _heading_fields(one), *(_fields(row, one) for row in rows))
    if not output.is_prose:
        return
    if rows:
        print_rows(("offsets", "#size", "place", "state", "why"), map(_cells, rows))
    else:
        click.echo(f"no segment has offset {offset}")
    click.echo()


def _heading(one: "ExplainedTier") -> str:
    log = one.log
    chain = log.chain(None)
    parts = [f"log start {chain.start_offset}"]
    if chain.pieces:
        first, last = chain.pieces[0].first_offset, chain.pieces[-1].last_offset
        parts.append(f"tier {offsets_text(first, last)}")
    if log.local is None:
        parts.append("no directory")
    elif one.end_offset is not None:
        parts.append(f"local from {log.local_start} to before {one.end_offset}")
    if one.stable_offset is not None and one.stable_offset != one.end_offset:
        parts.append(f"last stable offset {one.stable_offset}")
    return f"{log.name} ({uuid_text(log.partition.topic_id)}): {', '.join(parts)}"


def _heading_fields(one: "ExplainedTier") -> dict[str, object]:
    chain = one.log.chain(None)
    return {
        "type": "partition",
        "topic": one.log.partition.topic,
        "topic_id": uuid_text(one.log.partition.topic_id),
        "partition": one.log.partition.partition,
        "log_start_offset": chain.start_offset,
        "local_start_offset": one.log.local_start,
        "last_tiered_offset": chain.pieces[-1].last_offset if chain.pieces else None,
        "log_end_offset": one.end_offset,
        "last_stable_offset": one.stable_offset,
        "directory": one.log.local and one.log.local.path,
    }


def _cells(row: "Explained") -> tuple[object, ...]:
    last = row.last_offset
    offsets = f"{row.first_offset}–?" if last is None else offsets_text(row.first_offset, last)
    return offsets, size_text(row.size), row.place, row.state, row.reason


def _fields(row: "Explained", one: "ExplainedTier") -> dict[str, object]:
    return {
        "type": "segment",
        "topic": one.log.partition.topic,
        "partition": one.log.partition.partition,
        "start_offset": row.first_offset,
        "end_offset": row.last_offset,
        "place": row.place,
        "size": row.size,
        "state": row.state,
        "reason": row.reason,
        "upload": row.upload_id,
    }
