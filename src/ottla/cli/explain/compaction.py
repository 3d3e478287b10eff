"""`ottla explain compaction`: how far a topic is compacted, what is next, and what prevents it."""

from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.times import second_text
from ottla.cli.explain.options import ExplainOptions, explain_options, unknown_text
from ottla.cli.tables import print_rows
from ottla.cli.target import TargetCommand
from ottla.cli.terminal import counted, offsets_text, print_json
from ottla.diagnosis.words.setting_commands import Setting

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.diagnosis.compaction import CompactionStatus
    from ottla.diagnosis.directories import Directories
    from ottla.storage.diagnosis.compaction_explanation import ExplainedSegment

ROWS_SHOWN = 12


@click.command("compaction", cls=TargetCommand, examples=("ottla explain compaction data/ orders",))
@explain_options
def compaction_command(topic: str, **options: object) -> None:
    """Explain how far TOPIC is compacted, what the cleaner would do now, and how to change that.

    TARGET is a data directory, even that of a running broker, or HOST:PORT of a broker on this
    machine. Nothing is written.
    """
    chosen = ExplainOptions(**options)  # type: ignore[arg-type]

    def refuse(admin: "Admin") -> None:
        raise UserError(
            f"{admin.address} is not on this machine, or its directories cannot be read, and "
            f"brokers do not report how far a log is compacted; on its machine run: "
            f"ottla explain compaction DIR {topic}"
        )

    def show(directories: "Directories", setting: Setting) -> None:
        _show(_statuses(directories, topic, chosen), directories, setting, chosen)

    chosen.explain(topic, show, refuse)


def _statuses(
    directories: "Directories", topic: str, options: ExplainOptions
) -> "list[CompactionStatus]":
    from ottla.diagnosis.compaction import compaction_status

    logs = options.chosen(directories.logs(topic), topic)
    return [compaction_status(log, directories, options.now_ms) for log in logs]


# On a screen


def _show(
    statuses: "list[CompactionStatus]",
    directories: "Directories",
    setting: Setting,
    options: ExplainOptions,
) -> None:
    from ottla.diagnosis.words.compaction import (
        partition_fields,
        segment_fields,
        verdict_text,
    )

    if options.output.as_json:
        held = {"why_nothing_goes": directories.unknown.get(setting.topic)}
        for one in statuses:
            fields = partition_fields(one, setting, directories.settings_source)
            print_json(fields | held)
            for segment in one.explanation.segments:
                print_json(segment_fields(segment, one))
        return
    if options.output.is_quiet:
        for one in statuses:
            click.echo(f"{one.path}: {verdict_text(one)}")
        return
    backoff_s = directories.broker.log_cleaner_backoff_ms / 1000
    click.echo(
        f"settings from {directories.settings_source}; an idle cleaner checks every {backoff_s:g} s"
    )
    unknown = unknown_text(directories, setting.topic)
    if unknown is not None:
        click.echo(unknown)
    for one in statuses:
        _show_log(one, setting, show_all=options.show_all)


def _show_log(status: "CompactionStatus", setting: Setting, *, show_all: bool) -> None:
    from ottla.diagnosis.words.compaction import (
        bound_text,
        changes,
        forced_text,
        notes,
        settings_text,
        verdict_text,
    )

    range_ = status.explanation.range
    click.echo(f"\n{status.path}: {verdict_text(status)}")
    click.echo(settings_text(status))
    click.echo(
        f"compacted below {range_.first_dirty_offset}; dirty ratio {range_.ratio:.3f}: "
        f"{range_.cleanable_bytes:,} bytes to compact, {range_.clean_bytes:,} compacted before; "
        f"{bound_text(status)}"
    )
    _show_segments(status, show_all=show_all)
    forced = forced_text(status)
    for line in [*([forced] if forced else []), *notes(status)]:
        click.echo(f"note: {line}")
    lines = changes(status, setting)
    if lines:
        click.echo("to have it compacted sooner, or further, any of:")
        for line in lines:
            click.echo(f"  - {line}")


def _show_segments(status: "CompactionStatus", *, show_all: bool) -> None:
    segments = status.explanation.segments
    columns = ("offsets", "#bytes", "first timestamp (UTC)", "largest timestamp (UTC)", "is")
    # The last ones: compacted data comes before them.
    shown = segments if show_all else segments[-ROWS_SHOWN:]
    click.echo()
    print_rows(columns, [_cells(segment, status) for segment in shown])
    click.echo()
    if len(shown) < len(segments):
        left = counted(len(segments) - len(shown), "segment")
        click.echo(f"{left} before them; --all shows them")


def _cells(segment: "ExplainedSegment", status: "CompactionStatus") -> list[str]:
    from ottla.diagnosis.words.compaction import state_text

    view = segment.view
    last = max(view.base_offset, segment.next_offset - 1)
    return [
        offsets_text(view.base_offset, last),
        f"{view.size:,}",
        *(
            second_text(time_ms) if time_ms >= 0 else "none"
            for time_ms in (view.first_timestamp_ms, view.largest_timestamp_ms)
        ),
        state_text(segment, status),
    ]
