"""`ottla mirror verify`: compares a target with its source, batch by batch."""

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.mirror.options import with_pair
from ottla.cli.output import Output
from ottla.cli.settings_files import read_security
from ottla.cli.terminal import ExampleCommand, counted, progress_line

if TYPE_CHECKING:
    from ottla.mirror.source import Source
    from ottla.mirror.verify import VerifyReport

EXIT_DIFFERENT = 1


@click.command("verify", cls=ExampleCommand, examples=("ottla mirror verify kafka:9092 copy/",))
@with_pair
@click.option(
    "--allow-lag",
    is_flag=True,
    help="Accept a target that lags behind a source in use.",
)
@click.option(
    "--groups/--no-groups", default=True, help="Compare the committed offsets of consumer groups."
)
def verify_command(
    source: str,
    target: str,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    output: Output,
    **given: Any,
) -> None:
    """Compare TARGET with SOURCE: offsets, leader epochs and the checksum of every batch.

    Each is a data directory (or several, separated by commas) or HOST:PORT, running or not. If they
    differ, prints the first difference of each partition, and exits with 1.
    """
    from ottla.mirror.source import Selection
    from ottla.mirror.verify import Verification, VerifyOptions

    options = VerifyOptions(
        selection=Selection(topics=topics, exclude=exclude),
        allow_lag=given["allow_lag"],
        with_groups=given["groups"],
    )
    began = time.monotonic()
    with (
        contextlib.closing(_opened(source, given["source_config"])) as ours,
        contextlib.closing(_opened(target, given["target_config"])) as theirs,
        progress_line("looking at the source", is_shown=not output.is_quiet) as line,
    ):
        report = Verification(ours, theirs, options, line.say).run()
    show(report, time.monotonic() - began, output)


def _opened(place: str, config: str | None) -> "Source":
    from ottla.mirror.endpoints import open_source

    return open_source(place, sleep=time.sleep, security=read_security(config))


def show(report: "VerifyReport", seconds: float, output: Output) -> None:
    """Prints the differences and what was compared; exits with 1 if there are any."""
    from rich.filesize import decimal

    for one in report.differences:
        fields = {"type": "difference", "place": one.place, "text": one.text}
        output.say(f"{one.place}: {one.text}", fields)
    words = [
        f"{counted(f'{report.batch_count:,}', 'batch')} of "
        f"{counted(f'{report.topic_count:,}', 'topic')}, "
        f"{counted(f'{report.partition_count:,}', 'partition')}: "
        f"{decimal(report.size)} in {seconds:.1f} s"
    ]
    if report.group_count:
        words.append(f"{report.group_count:,} groups")
    if report.lag:
        words.append(f"the target is {report.lag:,} offsets short")
    count = len(report.differences)
    words.append(counted(count, "difference") if count else "no difference")
    output.say(
        "; ".join(words),
        {
            "type": "summary",
            "topics": report.topic_count,
            "partitions": report.partition_count,
            "batches": report.batch_count,
            "size": report.size,
            "groups": report.group_count,
            "lag": report.lag,
            "differences": count,
            "is_equal": not count,
        },
    )
    if report.differences:
        sys.exit(EXIT_DIFFERENT)
