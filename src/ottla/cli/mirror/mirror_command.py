"""`ottla mirror`: another log copied here, byte for byte and offset for offset."""

import contextlib
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnreachableError, UserError
from ottla.cli.mirror.options import with_pair
from ottla.cli.mirror.rounds import CopyOptions, run
from ottla.cli.terminal import (
    ExampleCommand,
    Stopping,
    new_console,
    parse_size,
)
from ottla.cli.tiers import tier_options

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.mirror.endpoints import Access
    from ottla.mirror.mirror import MirrorOptions, PartitionReport, RoundReport

GROUPS_EVERY_S = 10.0
"""How often committed offsets are fetched while following."""


def byte_rate(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    return None if text is None else parse_size("--throttle", text.removesuffix("/s"))


class MirrorCommand(ExampleCommand):
    """Dispatches `ottla mirror verify ...`, a command with arguments of the same kind."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["verify"]:
            from ottla.cli.mirror.verify import verify_command

            return verify_command.make_context(f"{info_name} verify", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("mirror", cls=MirrorCommand, examples=("ottla mirror kafka:9092 copy/ --follow",))
@with_pair
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C or SIGTERM.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Polling interval of --follow.",
)
@click.option(
    "--throttle",
    callback=byte_rate,
    metavar="BYTES/S",
    help="Limit of bytes per second, such as 10M.",
)
@click.option(
    "--allow-gaps",
    is_flag=True,
    help="Continue if the source deleted records before they were copied; gaps are reported.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Continue after damage in SOURCE's files; skipped offsets go to stderr.",
)
@tier_options
@click.option(
    "--groups/--no-groups", default=True, help="Copy the committed offsets of consumer groups."
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where to copy; spark runs one task per partition.",
)
@click.option(
    "--mode",
    type=click.Choice(["exact", "reproduce"]),
    default="exact",
    show_default=True,
    help="reproduce sends the records to any Kafka cluster again; offsets change.",
)
@click.option(
    "--name",
    default="ottla-mirror",
    show_default=True,
    help="Consumer group and transactional id of --mode reproduce.",
)
def mirror_command(source: str, target: str, **options: Any) -> None:
    """Copy topics from SOURCE into TARGET, byte for byte, with their offsets.

    SOURCE is HOST:PORT of any Kafka broker, or a data directory of Kafka or Ottla, even while its
    broker runs; separate several directories of one broker by commas. TARGET is a data directory,
    which no broker may use; serve it afterwards with `ottla serve`. Run the command again to copy
    newer records, also after it was killed.

    `ottla mirror verify SOURCE TARGET` compares the two, batch by batch.
    """
    given = CopyOptions(**options)
    if given.mode == "reproduce":
        from ottla.cli.mirror.reproduce import reproduce

        reproduce(source, target, given)
        return
    mirror_exactly(source, target, given)


def mirror_exactly(source: str, target: str, given: CopyOptions) -> None:
    """Copies, and reports the result; exits with 1 if something was refused."""
    from ottla.base.clock import SystemClock
    from ottla.cli.mirror.text import Totals, draw, new_line, partition_words, round_words
    from ottla.mirror.endpoints import Access, check_apart, open_source, target_directory
    from ottla.mirror.mirror import Mirror, MirrorOptions
    from ottla.mirror.source import Selection
    from ottla.mirror.target import Target
    from ottla.mirror.throttle import Every, Throttle
    from ottla.runtime.owner_notes import WorkNotes

    directory = target_directory(target)
    check_apart(source, directory)
    security = given.source_security
    if given.target_config is not None:
        raise UserError(f"{target} is a directory; --target-config is for --mode reproduce")
    output = given.output
    console, clock = new_console(is_quiet=not output.is_prose), SystemClock()
    options = MirrorOptions(
        selection=Selection(topics=given.topics, exclude=given.exclude),
        allow_gaps=given.allow_gaps,
        with_groups=given.groups,
    )
    if given.engine == "spark":
        if given.throttle:
            raise UserError("--throttle works within one process; omit it or --engine spark")
        if given.skip_damaged:
            raise UserError("--skip-damaged works within one process; omit it or --engine spark")
        access = Access(security=security, tier=given.source_tier)
        bulk_with_spark(source, directory, (options, access), console)
    totals = Totals(console, target, output, is_following=given.follow)
    with (
        Stopping() as stop,
        contextlib.closing(
            open_source(
                source,
                sleep=stop.sleep,
                security=security,
                on_damage=given.on_damage,
                tier=given.source_tier,
            )
        ) as opened,
        new_line(console) as line,
        Target.open(directory, clock, line.say) as copy,
        WorkNotes([directory], "mirror", clock) as notes,
    ):

        def on_progress(report: "PartitionReport") -> None:
            draw(line, report)
            notes.note(partition_words(report))
            stop.check()

        throttle = Throttle(given.throttle, clock, stop.sleep)
        mirror = Mirror(opened, copy, options, throttle=throttle, on_progress=on_progress)
        groups = Every(GROUPS_EVERY_S, clock)

        def run_round() -> "RoundReport":
            try:
                report = mirror.run_round(with_groups=groups.is_due())
            except UnreachableError as error:
                notes.note_at_once(f"{error}; trying again")
                raise
            notes.note_at_once(round_words(report))
            line.say("waiting for records" if given.follow else "closing the copy")
            return report

        run(run_round, given, stop, totals)
    totals.finish()


def bulk_with_spark(
    source: str, directory: str, given: "tuple[MirrorOptions, Access]", console: "Console"
) -> None:
    """Copies most of the source with Spark; the rounds that follow copy the rest."""
    from rich.filesize import decimal

    from ottla.spark.mirror import mirror_with_spark

    options, access = given
    report = mirror_with_spark(source, directory, options, access=access)
    console.print(
        f"Spark: {decimal(report.size)} in {report.task_count} tasks, {report.task_seconds:.1f} s"
    )
