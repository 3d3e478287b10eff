"""`ottla doctor`: what is wrong with a broker or its directories, and what repairs it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.cli.settings_files import broker_config_option, read_server_properties
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, json_option, print_json

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.administration.log_directories import LogDirectoryDescription
    from ottla.diagnosis.doctor import Complaint

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
@json_option
def doctor_command(
    target: Target,
    more: tuple[str, ...],
    config_file: Path | None,
    deep: bool,
    as_json: bool,
) -> None:
    """Check the health of a broker, or of its log directories, and say what repairs them.

    TARGET is HOST:PORT, or a directory, after which more directories of the broker may follow.

    Exits with 0 when nothing needs to be done, with 1 when something does. Nothing is written.
    """
    from ottla.client.admin import Admin

    if more and not target.is_directory:
        raise UserError(f"{target.text} is a broker, after which no directory is named")
    if target.is_directory:
        target.check_directories()
        paths = (*target.directories, *more)
        found = list(_of_directories(paths, config_file, deep=deep))
    else:
        with target.open() as cluster:
            found = list(_of_broker(Admin(cluster), deep=deep))
    _show(found, target.pasted, as_json=as_json)
    if not all(one.is_note for one in found):
        sys.exit(EXIT_COMPLAINTS)


def _of_directories(
    paths: tuple[str, ...], config_file: Path | None, *, deep: bool
) -> "Iterator[Complaint]":
    from ottla.base.clock import SystemClock
    from ottla.diagnosis.directories import read_directories
    from ottla.diagnosis.doctor import check_directories

    now_ms = SystemClock().now_ms()
    try:
        properties = None if config_file is None else read_server_properties(config_file)
        opened = read_directories(paths, properties=properties)
        yield from check_directories(opened, now_ms)
        if deep:
            yield from _deep_complaints(paths)
    except OSError as error:
        raise UserError(f"{error.filename or paths[0]}: {error.strerror}") from error


def _deep_complaints(paths: tuple[str, ...]) -> "Iterator[Complaint]":
    from ottla.base.files import OsFileSystem
    from ottla.diagnosis.doctor import Complaint, Remedy
    from ottla.storage.diagnosis.directory_check import check

    for path in paths:
        for finding in check(OsFileSystem(), path).findings:
            if not finding.is_note:
                yield Complaint(
                    kind=finding.kind.value,
                    where=finding.path,
                    what=finding.reason,
                    remedy=Remedy.SHOW_REPAIR,
                    subject=path,
                )


def _of_broker(admin: "Admin", *, deep: bool) -> "Iterator[Complaint]":
    from ottla.base.clock import SystemClock
    from ottla.config.broker import broker_config
    from ottla.config.setting import with_values
    from ottla.config.topic import TopicConfig
    from ottla.diagnosis.directories import are_local, read_directories, with_broker
    from ottla.diagnosis.doctor import (
        Complaint,
        Remedy,
        check_cleaner_on,
        check_directories,
        check_settings,
    )

    described = admin.log_directories()
    for one in described:
        yield from _check_described(one)
    online = [one for one in described if one.error is ErrorCode.NONE]
    paths = tuple(one.path for one in online)
    if online and are_local(paths, admin.cluster_id()):
        opened = with_broker(read_directories(paths), admin.topic_settings, admin.broker_settings())
        yield from check_directories(opened, SystemClock().now_ms())
        if deep:
            yield from _deep_complaints(paths)
        return
    broker = broker_config({k: text for k, text in admin.broker_settings().items() if text})
    for topic in sorted({name for one in online for name, _ in one.sizes}):
        config = with_values(TopicConfig(), admin.topic_settings(topic))
        yield from check_settings(topic, config)
        yield from check_cleaner_on(topic, config, broker)
    yield Complaint(
        kind="from_afar",
        where=admin.address,
        what="its directories are not on this machine, or may not be read: no file was checked",
        remedy=Remedy.LOOK_THERE,
        is_note=True,
    )


def _check_described(described: "LogDirectoryDescription") -> "Iterator[Complaint]":
    from ottla.base.files import DiskSpace
    from ottla.diagnosis.doctor import Complaint, Remedy, check_space

    if described.error is not ErrorCode.NONE:
        yield Complaint(
            kind="offline_directory",
            where=described.path,
            what=f"is offline ({described.error.name}): its partitions are not served",
            remedy=Remedy.REPLACE_DISK,
        )
    elif described.total_size > 0:
        yield from check_space(
            described.path, DiskSpace(total=described.total_size, usable=described.usable_size)
        )


def _show(found: "list[Complaint]", target: str, *, as_json: bool) -> None:
    # A broker and its directory may both complain of the disk.
    unique = list(dict.fromkeys(found))
    problems = sum(not one.is_note for one in unique)
    notes = len(unique) - problems
    for one in sorted(unique, key=lambda complaint: complaint.is_note):
        fields = _fields(one, target)
        click.echo(json.dumps(fields) if as_json else _text(fields))
    if as_json:
        print_json({"type": "summary", "problems": problems, "notes": notes})
    else:
        verdict = counted(problems, "problem") if problems else "nothing needs to be done"
        click.echo(f"{verdict}, {counted(notes, 'note')}")


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
