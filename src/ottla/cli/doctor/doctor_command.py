"""`ottla doctor`: problems of a broker or its directories, and how to fix them."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.endings import named_files
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import broker_config_option, read_server_properties
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted

if TYPE_CHECKING:
    from ottla.diagnosis.complaints import Complaint

EXIT_COMPLAINTS = 1


@click.command(
    "doctor",
    cls=TargetCommand,
    examples=("ottla doctor data/", "ottla doctor localhost:9092"),
)
@target_argument(directories=True)
@click.argument("more", nargs=-1, metavar="[DIR]...")
@broker_config_option
@click.option("--deep", is_flag=True, help="Also read every batch, as ottla log check does.")
@output_options()
def doctor_command(
    target: Target,
    more: tuple[str, ...],
    config_file: str | None,
    deep: bool,
    output: Output,
) -> None:
    """Check the health of a broker, or of its log directories, and say how to fix problems.

    TARGET is HOST:PORT, or a directory, which more directories of the same broker may follow. Exits
    with 0 if nothing needs to be done, otherwise with 1. Nothing is written.
    """
    if more and not target.is_directory:
        raise UserError(
            f"{more[0]}: the target is a broker, {target.text}, which sees to its directories "
            f"itself; name directories alone with -d"
        )
    if target.is_directory:
        target.check_directories()
        paths = (*target.directories, *more)
        found = list(_of_directories(paths, config_file, deep=deep))
    else:
        found = list(_of_broker(target, deep=deep))
    _show(found, target.pasted, output)
    if not all(one.is_note for one in found):
        sys.exit(EXIT_COMPLAINTS)


def _of_broker(target: Target, *, deep: bool) -> "Iterator[Complaint]":
    from ottla.base.clock import SystemClock
    from ottla.client.administration.doctor import complaints, local_directories

    with target.admin() as admin:
        yield from complaints(admin, local_directories(admin), SystemClock().now_ms(), deep=deep)


def _of_directories(
    paths: tuple[str, ...], config_file: str | None, *, deep: bool
) -> "Iterator[Complaint]":
    from ottla.base.clock import SystemClock
    from ottla.diagnosis.directories import read_directories
    from ottla.diagnosis.doctor import check_directories, deep_complaints

    # Not `complaints`: what examines files alone imports no client.
    with named_files(paths[0]):
        properties = None if config_file is None else read_server_properties(config_file)
        opened = read_directories(paths, properties=properties)
        yield from check_directories(opened, SystemClock().now_ms())
        if deep:
            yield from deep_complaints(paths)


def _show(found: "list[Complaint]", target: str, output: Output) -> None:
    # Both the broker and its directory may report the disk.
    unique = list(dict.fromkeys(found))
    problems = sum(not one.is_note for one in unique)
    notes = len(unique) - problems
    for one in sorted(unique, key=lambda complaint: complaint.is_note):
        fields = _fields(one, target)
        output.say(_text(fields), fields)
    verdict = counted(problems, "problem") if problems else "nothing needs to be done"
    output.say(
        f"{verdict}, {counted(notes, 'note')}",
        {"type": "summary", "problems": problems, "notes": notes},
    )


def _fields(one: "Complaint", target: str) -> dict[str, object]:
    from ottla.diagnosis.words.remedies import remedy_text

    return {
        "type": "note" if one.is_note else "problem",
        "kind": one.kind,
        "where": one.where,
        "what": one.what,
        "fix": remedy_text(one, target),
    }


def _text(fields: dict[str, object]) -> str:
    return f"{fields['type']}: {fields['where']}: {fields['what']}\n  fix: {fields['fix']}"
