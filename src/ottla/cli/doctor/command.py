"""`ottla doctor`: one look at a broker or its directories, and for each complaint its mend."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.files import DiskSpace, OsFileSystem
from ottla.cli.asking import Questions, ToldDirectory
from ottla.cli.doctor.checks import (
    Complaint,
    check_cleaner_on,
    check_directories,
    check_settings,
    check_space,
)
from ottla.cli.explain.retention_text import Setting
from ottla.cli.log_text import counted
from ottla.cli.topic_sources import read_directories, with_broker
from ottla.client.connection import Connection
from ottla.config.broker import broker_config
from ottla.config.setting import with_values
from ottla.config.topic import TopicConfig
from ottla.embedded.log import parse_address
from ottla.storage.diagnosis.directory_check import check

EXIT_COMPLAINTS = 1


@click.command("doctor")
@click.argument("directories", nargs=-1, metavar="[DIR]...")
@click.option("--bootstrap", "-b", metavar="HOST:PORT", help="A broker, instead of directories.")
@click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The broker's server.properties, which a directory does not hold.",
)
@click.option("--deep", is_flag=True, help="Read every batch too, as ottla log check does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def doctor_command(
    directories: tuple[str, ...],
    bootstrap: str | None,
    config_file: Path | None,
    deep: bool,
    as_json: bool,
) -> None:
    """Look a broker over, or its log directories DIR, and say what is wrong and what mends it.

    Exits with 0 when nothing needs to be done, with 1 when something does. Nothing is written.
    """
    if bool(directories) == (bootstrap is not None):
        raise UserError("name either log directories, or a broker with --bootstrap HOST:PORT")
    if bootstrap is not None:
        with Connection(*parse_address(bootstrap)) as connection:
            found = list(_of_broker(Questions(connection), deep=deep))
    else:
        found = list(_of_directories(directories, config_file, deep=deep))
    _show(found, as_json=as_json)
    if not all(one.is_note for one in found):
        sys.exit(EXIT_COMPLAINTS)


def _of_directories(
    paths: tuple[str, ...], config_file: Path | None, *, deep: bool
) -> Iterator[Complaint]:
    now_ms = SystemClock().now_ms()
    try:
        opened = read_directories(paths, config_file=config_file)
        yield from check_directories(opened, now_ms)
        if deep:
            yield from _deep_complaints(paths)
    except OSError as error:
        raise UserError(f"{error.filename or paths[0]}: {error.strerror}") from error


def _deep_complaints(paths: tuple[str, ...]) -> Iterator[Complaint]:
    for path in paths:
        for finding in check(OsFileSystem(), path).findings:
            if not finding.is_note:
                yield Complaint(
                    kind=finding.kind.value,
                    where=finding.path,
                    what=finding.reason,
                    mend=f"ottla log repair {path} shows what would mend it",
                )


def _of_broker(questions: Questions, *, deep: bool) -> Iterator[Complaint]:
    told = questions.directories()
    for one in told:
        yield from _told_complaints(one)
    online = [one for one in told if one.error is ErrorCode.NONE]
    if online and questions.are_here(online):
        paths = tuple(one.path for one in online)
        opened = with_broker(
            read_directories(paths), questions.topic_settings, questions.broker_settings()
        )
        yield from check_directories(opened, SystemClock().now_ms(), bootstrap=questions.address)
        if deep:
            yield from _deep_complaints(paths)
        return
    broker = broker_config({k: text for k, text in questions.broker_settings().items() if text})
    for topic in sorted({name for one in online for name, _ in one.sizes}):
        config = with_values(TopicConfig(), questions.topic_settings(topic))
        yield from check_settings(topic, config, Setting(topic=topic, bootstrap=questions.address))
        yield from check_cleaner_on(topic, config, broker)
    yield Complaint(
        kind="from_afar",
        where=questions.address,
        what="its directories are not on this machine, or may not be read: nobody looked at files",
        mend="run ottla doctor DIR on the broker's machine",
        is_note=True,
    )


def _told_complaints(told: ToldDirectory) -> Iterator[Complaint]:
    if told.error is not ErrorCode.NONE:
        yield Complaint(
            kind="offline_directory",
            where=told.path,
            what=f"is offline ({told.error.name}): its partitions are not served",
            mend="mend the disk, and restart the broker, which recovers the directory",
        )
    elif told.total_size > 0:
        yield from check_space(told.path, DiskSpace(total=told.total_size, usable=told.usable_size))


def _show(found: list[Complaint], *, as_json: bool) -> None:
    # A broker and its directory may both tell of the disk.
    unique = list(dict.fromkeys(found))
    problems = sum(not one.is_note for one in unique)
    notes = len(unique) - problems
    for one in sorted(unique, key=lambda complaint: complaint.is_note):
        click.echo(json.dumps(_fields(one)) if as_json else _text(one))
    if as_json:
        click.echo(json.dumps({"type": "summary", "problems": problems, "notes": notes}))
    else:
        verdict = counted(problems, "problem") if problems else "nothing needs to be done"
        click.echo(f"{verdict}, {counted(notes, 'note')}")


def _fields(one: Complaint) -> dict[str, object]:
    return {
        "type": "note" if one.is_note else "problem",
        "kind": one.kind,
        "where": one.where,
        "what": one.what,
        "mend": one.mend,
    }


def _text(one: Complaint) -> str:
    return f"{'note' if one.is_note else 'problem'}: {one.where}: {one.what}\n  mend: {one.mend}"
