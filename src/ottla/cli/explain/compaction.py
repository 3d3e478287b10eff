"""`ottla explain compaction`: how far a topic is compacted, what comes next, what keeps it."""

import json
import sys
from typing import TYPE_CHECKING

import click

from ottla.base.errors import CorruptionError, UserError
from ottla.broker.log_jobs.cleaner_troubles import Trouble, read_troubles
from ottla.cli.asking import Questions
from ottla.cli.explain.compaction_text import (
    Told,
    bound_text,
    changes,
    forced_text,
    notes,
    partition_fields,
    segment_fields,
    settings_text,
    state_text,
    verdict_text,
)
from ottla.cli.explain.options import ExplainOptions, explain_options
from ottla.cli.explain.retention_text import Setting, second_text
from ottla.cli.log_text import counted, offsets_text
from ottla.cli.topic_sources import Directories, read_directories, with_broker
from ottla.client.connection import Connection
from ottla.embedded.log import parse_address
from ottla.storage.diagnosis.compaction_explanation import ExplainedSegment, explain, read_view
from ottla.storage.files.filenames import CHECKPOINT_CLEANER, FileSuffix, parse_file_name
from ottla.storage.reading.reader import ReadOnlyLog

if TYPE_CHECKING:
    from rich.console import Console

ROWS_SHOWN = 12
WIDTH = 200


@click.command("compaction")
@click.argument("topic", metavar="TOPIC")
@explain_options
def compaction_command(topic: str, **options: object) -> None:
    """Say how far TOPIC is compacted, what the cleaner would do now, and what would change that.

    Reads the log directories DIR, also those of a running broker, and writes nothing. With
    --bootstrap the directories are the broker's, which must run on this machine.
    """
    _explain(topic, ExplainOptions(**options))  # type: ignore[arg-type]


def _explain(topic: str, options: ExplainOptions) -> None:
    if options.bootstrap is None:
        directories = read_directories(
            options.paths, config_file=options.config_file, given=options.given
        )
        _show(_told(directories, topic, options), directories, Setting(topic=topic), options)
        return
    with Connection(*parse_address(options.bootstrap)) as connection:
        questions = Questions(connection)
        directories = _of_broker(topic, questions, options)
        setting = Setting(topic=topic, bootstrap=questions.address)
        _show(_told(directories, topic, options), directories, setting, options)


def _of_broker(topic: str, questions: Questions, options: ExplainOptions) -> Directories:
    mine = [one for one in questions.directories() if any(name == topic for name, _ in one.sizes)]
    if not mine:
        raise UserError(f"{questions.address} has no topic {topic}")
    if not questions.are_here(mine):
        raise UserError(
            f"{questions.address} is not on this machine, or its directories may not be read, and "
            "how far a log is compacted cannot be asked over the wire; on its machine: "
            f"ottla explain compaction {topic} --data-dir DIR"
        )
    return with_broker(
        read_directories([one.path for one in mine], given=options.given),
        questions.topic_settings,
        questions.broker_settings(),
    )


def _told(directories: Directories, topic: str, options: ExplainOptions) -> list[Told]:
    return [
        _tell(log, directories, topic, options.now_ms)
        for log in options.chosen(directories.logs(topic), topic)
    ]


def _tell(log: ReadOnlyLog, directories: Directories, topic: str, now_ms: int) -> Told:
    key = (topic, log.partition)
    directory = next(one for one in directories.opened if log.path.startswith(f"{one.path}/"))
    if not log.segments:
        raise UserError(f"{log.path} has no segment: nothing of it can be compacted")
    try:
        troubles = read_troubles(directories.file_system, directory.path)
        view = read_view(
            log,
            directory.checkpointed(CHECKPOINT_CLEANER).get(key),
            is_replicated=not directories.is_ottlas,
            file_system=directories.file_system,
        )
    except CorruptionError as error:
        raise UserError(f"{error}; ottla log check {directory.path} looks closer") from error
    names = map(parse_file_name, directories.file_system.list(log.path))
    return Told(
        topic=topic,
        partition=log.partition,
        path=log.path,
        explanation=explain(view, directories.config(topic), now_ms),
        trouble=troubles.get(key, Trouble()),
        broker=directories.broker,
        open_transaction=_oldest_open_transaction(log),
        is_at_work=any(one is not None and one.suffix is FileSuffix.CLEANED for one in names),
        now_ms=now_ms,
    )


def _oldest_open_transaction(log: ReadOnlyLog) -> tuple[int, int] | None:
    """Its producer and its first offset."""
    oldest = next(iter(log.open_transactions), None)
    return None if oldest is None else (oldest.producer_id, oldest.first_offset)


# On a screen


def _show(
    told: list[Told], directories: Directories, setting: Setting, options: ExplainOptions
) -> None:
    if options.as_json:
        held = {"why_nothing_goes": directories.unknown.get(setting.topic)}
        for one in told:
            fields = partition_fields(one, setting, directories.settings_source)
            click.echo(json.dumps(fields | held))
            for segment in one.explanation.segments:
                click.echo(json.dumps(segment_fields(segment, one)))
        return
    from rich.console import Console

    # What is no screen has no width: nothing is wrapped or cut there.
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(width=width, soft_wrap=True, highlight=False, markup=False)
    backoff_s = directories.broker.log_cleaner_backoff_ms / 1000
    console.print(
        f"settings from {directories.settings_source}; an idle cleaner looks every {backoff_s:g} s"
    )
    unknown = directories.unknown_text(setting.topic)
    if unknown is not None:
        console.print(unknown)
    for one in told:
        _show_log(console, one, setting, show_all=options.show_all)


def _show_log(console: "Console", told: Told, setting: Setting, *, show_all: bool) -> None:
    range_ = told.explanation.range
    console.print(f"\n{told.path}: {verdict_text(told)}")
    console.print(settings_text(told))
    console.print(
        f"compacted below {range_.first_dirty_offset}; dirty ratio {range_.ratio:.3f}: "
        f"{range_.cleanable_bytes:,} bytes to compact, {range_.clean_bytes:,} compacted before; "
        f"{bound_text(told)}"
    )
    _show_segments(console, told, show_all=show_all)
    forced = forced_text(told)
    for line in [*([forced] if forced else []), *notes(told)]:
        console.print(f"note: {line}")
    lines = changes(told, setting)
    if lines:
        console.print("to have it compacted sooner, or further, any of:")
        for line in lines:
            console.print(f"  - {line}")


def _show_segments(console: "Console", told: Told, *, show_all: bool) -> None:
    from rich import box
    from rich.table import Table

    segments = told.explanation.segments
    columns = ("offsets", "bytes", "first timestamp (UTC)", "largest timestamp (UTC)", "is")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    # The last ones: what is compacted lies before them.
    shown = segments if show_all else segments[-ROWS_SHOWN:]
    for segment in shown:
        table.add_row(*_cells(segment, told))
    console.print(table)
    if len(shown) < len(segments):
        left = counted(len(segments) - len(shown), "segment")
        console.print(f"{left} before them; --all shows them")


def _cells(segment: ExplainedSegment, told: Told) -> list[str]:
    view = segment.view
    last = max(view.base_offset, segment.next_offset - 1)
    return [
        offsets_text(view.base_offset, last),
        f"{view.size:,}",
        *(
            second_text(time_ms) if time_ms >= 0 else "none"
            for time_ms in (view.first_timestamp_ms, view.largest_timestamp_ms)
        ),
        state_text(segment, told),
    ]
