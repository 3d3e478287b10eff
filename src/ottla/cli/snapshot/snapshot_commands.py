"""`ottla snapshot create|list|restore|branch|delete`."""

from collections.abc import Sequence

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import RefusalError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.texts import size_text
from ottla.base.times import second_text
from ottla.cli.late_line import CopyLine
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.snapshot.ends import parse_ends
from ottla.cli.target import AT_REST, Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, counted, yes_option
from ottla.storage.directory.owner_note import owner_of
from ottla.storage.snapshots.copying import UncleanStopError
from ottla.storage.snapshots.snapshots import Snapshot, Snapshots

place_option = click.option(
    "--in",
    "place",
    metavar="DIR",
    help="Directory that holds the snapshots; TARGET.snapshots by default.",
)
at_option = click.option(
    "--at",
    "places",
    multiple=True,
    metavar="PLACE",
    help="Where to cut records off: TOPIC-PARTITION:OFFSET (repeatable), @TIME such as "
    "@2026-01-31T12:00, or an age such as 2h.",
)


@click.command(
    "create",
    cls=TargetCommand,
    examples=(
        "ottla snapshot create data/",
        "ottla snapshot create data/ before-upgrade",
    ),
)
@target_argument(directories=True)
@click.argument("name", metavar="[NAME]", required=False)
@place_option
@output_options()
def create_command(target: Target, name: str | None, place: str | None, output: Output) -> None:
    """Create a snapshot of the data directory TARGET; NAME is by default the time.

    A snapshot is a data directory too, which ottla and Apache Kafka can open. It shares rolled
    segments with TARGET by hard links, and has copies of all else. A broker may write meanwhile:
    the snapshot has the state of one instant, recovered as after a kill. Of a broker with several
    directories, name all, as -d DIR -d DIR: the snapshot has as many.
    """
    snapshots = _snapshots(target, place)
    now_ms = SystemClock().now_ms()
    name = name or snapshots.free_name(_time_name(now_ms))
    with CopyLine("copying", is_quiet=output.is_quiet) as progress:
        try:
            made = _created(snapshots, name, now_ms, progress, output)
        except OSError as error:
            error.filename = error.filename or target.text
            raise
    shared = size_text(made.size - made.own_size)
    output.say(
        f"snapshot {made.name}: {counted(made.partition_count, 'partition')}, "
        f"{size_text(made.size)}, of which {shared} shared: {', '.join(made.paths)}",
        _fields(made),
    )


@click.command("list", cls=TargetCommand, examples=("ottla snapshot list data/",))
@target_argument(directories=True)
@place_option
@output_options(NAMES_ONLY)
def list_command(target: Target, place: str | None, output: Output) -> None:
    """List the snapshots of the data directory TARGET, oldest first. Times are UTC.

    OWN is the size that deleting the snapshot frees; the rest is shared with TARGET or other
    snapshots.
    """
    snapshots = _snapshots(target, place)
    found = snapshots.find_all()
    if not found:
        target.check_directories()
    output.listing(
        found,
        ("snapshot", "created", "#partitions", "#size", "#own", "state"),
        (
            (one.name, second_text(one.created_ms), one.partition_count, size_text(one.size),
             size_text(one.own_size), "" if one.is_clean else "not stopped cleanly")
            for one in found
        ),
        fields=_fields,
        name=lambda one: one.name,
        none="there are no snapshots",
    )  # fmt: skip


@click.command(
    "restore",
    cls=TargetCommand,
    examples=(
        "ottla snapshot restore data/ before-upgrade",
        "ottla snapshot restore data/ before-upgrade --at @2026-01-31T12:00",
    ),
)
@target_argument(directories=True)
@click.argument("name", metavar="NAME")
@place_option
@at_option
@yes_option
@output_options()
def restore_command(
    target: Target,
    name: str,
    place: str | None,
    places: tuple[str, ...],
    is_confirmed: bool,
    output: Output,
) -> None:
    """Restore the data directory TARGET from snapshot NAME.

    The current state of TARGET becomes another snapshot. At a terminal the command asks first. Stop
    the broker before. With --at, records from a place on are left out, and groups that have read
    further are listed.
    """
    now_ms = SystemClock().now_ms()
    ends = parse_ends(places, now_ms)
    snapshots = _snapshots(target, place)
    snapshots.find(name)
    confirm(f"Restore {snapshots.text} from {name}?", is_confirmed=is_confirmed)
    kept = snapshots.free_name(f"before-restore-{_time_name(now_ms)}")
    with CopyLine("copying", is_quiet=output.is_quiet) as progress:
        before = snapshots.restore(
            name, kept=kept, now_ms=now_ms, on_copied=progress.show, change=ends.cut
        )
    kept_name = before.name if before else None
    fields = {
        **_places(snapshots.directories, "directory", "directories"),
        "restored": name,
        "kept": kept_name,
    }
    was = f"; its previous state is snapshot {kept_name}" if before else ""
    output.say(f"{snapshots.text} is as in snapshot {name}{was}", fields | ends.fields())
    if output.is_prose:
        ends.write()


@click.command(
    "branch",
    cls=TargetCommand,
    examples=(
        "ottla snapshot branch data/ before-upgrade trial/",
        "ottla snapshot branch data/ before-upgrade trial/ --at orders-0:1500",
    ),
)
@target_argument(directories=True)
@click.argument("name", metavar="NAME")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@place_option
@at_option
@output_options()
def branch_command(
    target: Target,
    name: str,
    directories: tuple[str, ...],
    place: str | None,
    places: tuple[str, ...],
    output: Output,
) -> None:
    """Create a data directory, DIR, from snapshot NAME of TARGET, with its offsets and groups.

    A snapshot of several directories needs as many new ones. Afterwards they are independent:
    writes to one do not affect the other. With --at, records from a place on are left out, and
    groups that have read further are listed.
    """
    ends = parse_ends(places, SystemClock().now_ms())
    snapshots = _snapshots(target, place)
    with CopyLine("copying", is_quiet=output.is_quiet) as progress:
        made = snapshots.branch(name, directories, on_copied=progress.show, change=ends.cut)
    fields = {**_places(made, "directory", "directories"), "snapshot": name}
    output.say(f"{', '.join(made)} begins as snapshot {name}", fields | ends.fields())
    if output.is_prose:
        ends.write()


@click.command(
    "delete", cls=TargetCommand, examples=("ottla snapshot delete data/ before-upgrade",)
)
@target_argument(directories=True)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@place_option
@yes_option
@output_options()
def delete_command(
    target: Target,
    names: tuple[str, ...],
    place: str | None,
    is_confirmed: bool,
    output: Output,
) -> None:
    """Delete snapshots NAME of the data directory TARGET. At a terminal the command asks first."""
    snapshots = _snapshots(target, place)
    for name in names:
        snapshots.find(name)
    confirm(f"Delete {', '.join(names)}?", is_confirmed=is_confirmed)
    for name in dict.fromkeys(names):
        snapshots.delete(name)
        output.say(f"deleted snapshot {name}", {"snapshot": name, "is_deleted": True})


def _snapshots(target: Target, place: str | None) -> Snapshots:
    if not target.is_directory:
        raise UserError(
            f"{target.text} is a broker, but snapshots need a data directory; name the broker's"
        )
    return Snapshots(OsFileSystem(), target.directories, place)


def _created(
    snapshots: Snapshots, name: str, now_ms: int, progress: CopyLine, output: Output
) -> Snapshot:
    owners = [owner_of(OsFileSystem(), one) for one in snapshots.directories]
    if len({None if one is None else one.pid for one in owners}) > 1:
        raise RefusalError(
            f"{snapshots.text}: not all of them are in use by the same process; name the "
            "directories of one broker"
        )
    if owners[0] is not None:
        return snapshots.create_beside(
            name, now_ms=now_ms, on_copied=progress.show, recover=_recover
        )
    try:
        return snapshots.create(name, now_ms=now_ms, on_copied=progress.show)
    except UncleanStopError:
        output.remark(f"{snapshots.text} was not stopped cleanly; its logs are recovered")
        snapshots.check_all_named()
        _recover(snapshots.directories)
        return snapshots.create(name, now_ms=now_ms, on_copied=progress.show)


def _recover(directories: Sequence[str]) -> None:
    """Opens and closes directories that a crash left, to recover them."""
    from ottla.cli.opening import open_directories

    with open_directories(directories, AT_REST):
        pass


def _places(paths: Sequence[str], one: str, several: str) -> dict[str, object]:
    """The first directory, and if there are several all of them too."""
    return {one: paths[0], **({several: list(paths)} if len(paths) > 1 else {})}


def _time_name(now_ms: int) -> str:
    return second_text(now_ms).replace(" ", "T").replace(":", "-")


def _fields(one: Snapshot) -> dict[str, object]:
    return {
        "snapshot": one.name,
        **_places(one.paths, "path", "paths"),
        "created_ms": one.created_ms,
        "partitions": one.partition_count,
        "size": one.size,
        "own_size": one.own_size,
        "is_clean": one.is_clean,
    }
