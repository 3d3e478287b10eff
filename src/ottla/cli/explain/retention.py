"""`ottla explain retention`: when each segment of a topic is deleted, what keeps it, and how to
change that.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ottla.base.errors import RefusalError
from ottla.base.partitions import TopicPartition
from ottla.base.times import second_text, time_text
from ottla.cli.explain.options import ExplainOptions, explain_options, unknown_text
from ottla.cli.tables import print_rows
from ottla.cli.target import TargetCommand
from ottla.cli.terminal import counted, offsets_text, print_json
from ottla.diagnosis.words.setting_commands import Setting

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.diagnosis.directories import Directories
    from ottla.storage.diagnosis.retention_explanation import ExplainedLog, ExplainedSegment

ROWS_SHOWN = 12


@click.command("retention", cls=TargetCommand, examples=("ottla explain retention data/ orders",))
@explain_options
def retention_command(topic: str, **options: object) -> None:
    """Explain when retention deletes each segment of TOPIC, what keeps it, and how to change that.

    TARGET is a data directory, even that of a running broker, or HOST:PORT of a broker on this
    machine. Nothing is written.
    """
    chosen = ExplainOptions(**options)  # type: ignore[arg-type]

    def show(directories: "Directories", setting: Setting) -> None:
        _show(_explained(directories, topic, chosen), directories, setting, chosen)

    chosen.explain(topic, show, lambda admin: _explain_remote(topic, admin, chosen))


def _explained(
    directories: "Directories", topic: str, options: ExplainOptions
) -> "list[ExplainedLog]":
    from ottla.storage.diagnosis.retention_explanation import explain_log

    logs = options.chosen(directories.logs(topic), topic)
    config = directories.config(topic)
    return [
        explain_log(
            log,
            config,
            options.now_ms,
            directories.file_system,
            highest_remote_offset=directories.highest_remote_offset(log),
        )
        for log in logs
    ]


# On a screen


def _show(
    explained: "list[ExplainedLog]",
    directories: "Directories",
    setting: Setting,
    options: ExplainOptions,
) -> None:
    from ottla.diagnosis.words.retention import partition_fields, segment_fields

    if options.output.as_json:
        held = {"why_nothing_goes": directories.unknown.get(setting.topic)}
        for one in explained:
            print_json(partition_fields(one, directories.settings_source) | held)
            for segment in one.segments:
                print_json(segment_fields(segment, one, setting, options.now_ms))
        return
    if options.output.is_quiet:
        for one in explained:
            click.echo(_line_of(one))
        return
    check_ms = directories.broker.log_retention_check_interval_ms
    click.echo(
        f"settings from {directories.settings_source}; a running broker checks every "
        f"{check_ms / 1000:g} s"
    )
    unknown = unknown_text(directories, setting.topic)
    if unknown is not None:
        click.echo(unknown)
    for one in explained:
        _show_log(one, setting, options)


def _line_of(explained: "ExplainedLog") -> str:
    facts = explained.facts
    local = ""
    if facts.log_start_offset < facts.local_start_offset:
        local = f", local from {facts.local_start_offset}"
    return (
        f"{explained.path}: offsets {facts.log_start_offset} to {facts.log_end_offset}{local}, "
        f"{facts.size:,} bytes in {counted(len(explained.segments), 'segment')}"
    )


def _show_log(explained: "ExplainedLog", setting: Setting, options: ExplainOptions) -> None:
    from ottla.diagnosis.words.retention import changes, facts_that_surprise, settings_text

    click.echo(f"\n{_line_of(explained)}")
    click.echo(settings_text(explained))
    columns = ("offsets", "#bytes", "largest timestamp (UTC)", "goes", "why")
    shown = explained.segments if options.show_all else _worth_showing(explained.segments)
    click.echo()
    print_rows(columns, [_cells(segment, explained, options.now_ms) for segment in shown])
    click.echo()
    if len(shown) < len(explained.segments):
        left = len(explained.segments) - len(shown)
        click.echo(f"{counted(left, 'segment')} more; --all shows them")
    for line in facts_that_surprise(explained):
        click.echo(f"note: {line}")
    staying = next((one for one in explained.segments if not one.verdict.goes), None)
    if staying is not None:
        _show_changes(staying, changes(staying, explained, setting, options.now_ms))


def _worth_showing(segments: "list[ExplainedSegment]") -> "list[ExplainedSegment]":
    """Returns the segments around the first that stays, and the last one."""
    if len(segments) <= ROWS_SHOWN:
        return segments
    going = sum(one.verdict.goes for one in segments)
    first = max(0, min(going - ROWS_SHOWN // 2, len(segments) - ROWS_SHOWN))
    return [*segments[first : first + ROWS_SHOWN - 1], segments[-1]]


def _cells(segment: "ExplainedSegment", explained: "ExplainedLog", now_ms: int) -> list[str]:
    from ottla.diagnosis.words.retention import when_text, why_text

    verdict, time = segment.verdict, segment.time
    last = max(verdict.base_offset, verdict.next_offset - 1)
    return [
        offsets_text(verdict.base_offset, last) + (" (active)" if verdict.is_active else ""),
        f"{verdict.size:,}",
        second_text(time.timestamp_ms) + ("" if time.is_of_records else " (the file's)"),
        when_text(segment, now_ms),
        why_text(segment, explained),
    ]


def _show_changes(segment: "ExplainedSegment", lines: list[str]) -> None:
    if lines:
        click.echo(f"to have the segment at {segment.verdict.base_offset} deleted now, any of:")
        for line in lines:
            click.echo(f"  - {line}")


# On another machine


def _explain_remote(topic: str, admin: "Admin", options: ExplainOptions) -> None:
    """Explains from offsets and settings alone, for files on another machine."""
    from ottla.client.administration.admin import MAX_TIMESTAMP
    from ottla.client.bulk.reading import EARLIEST, LATEST
    from ottla.diagnosis.retention import judge_remote

    settings = admin.topic_settings(topic)
    sizes = {
        index: size
        for directory in admin.log_directories(
            on_unreachable=options.losses.directories_are_left_out
        )
        for (name, index), size in directory.sizes.items()
        if name == topic and options.partition in (None, index)
    }
    if not sizes:
        raise RefusalError(
            f"{admin.address} shows no size of topic {topic}; a user needs DESCRIBE on the "
            "cluster: ottla acls add"
        )
    partitions = sorted(sizes)
    places = [TopicPartition(topic, index) for index in partitions]
    starts = admin.list_offsets(places, EARLIEST)
    ends = admin.list_offsets(places, LATEST)
    largest = admin.list_offsets(places, MAX_TIMESTAMP)
    kept = {
        name: settings.get(name) for name in ("cleanup.policy", "retention.ms", "retention.bytes")
    }
    if options.output.is_prose:
        click.echo(
            f"{admin.address} is not on this machine, or its directories cannot be read, and "
            f"brokers do not report segments and their times. On its machine run: "
            f"ottla explain retention DIR {topic}"
        )
        click.echo(", ".join(f"{name}={value}" for name, value in kept.items()))
    for place in places:
        index = place.partition
        timestamp_ms = largest[place].timestamp_ms
        fields = {
            "type": "partition_from_afar",
            "topic": topic,
            "partition": index,
            "log_start_offset": starts[place].offset,
            "high_watermark": ends[place].offset,
            "size": sizes[index],
            "largest_timestamp_ms": timestamp_ms,
            "settings": kept,
            **asdict(judge_remote(kept, sizes[index], timestamp_ms, options.now_ms)),
        }
        if options.output.as_json:
            print_json(fields)
        else:
            click.echo(_remote_text(fields))


def _remote_text(fields: dict[str, object]) -> str:
    parts = [
        f"{fields['topic']}-{fields['partition']}: offsets {fields['log_start_offset']} to "
        f"{fields['high_watermark']}, {fields['size']} bytes"
    ]
    gone_by_ms = fields["all_gone_by_ms"]
    if isinstance(gone_by_ms, int):
        parts.append(f"all present records are deleted by {time_text(gone_by_ms)} at the latest")
    else:
        parts.append("time alone does not remove all records")
    if fields["bytes_over_limit"]:
        parts.append(f"{fields['bytes_over_limit']} bytes above retention.bytes")
    if fields["has_future_timestamp"]:
        parts.append("a timestamp is in the future: it keeps its segment and all later ones")
    return "; ".join(parts)
