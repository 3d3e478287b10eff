"""`ottla topics move`: which log directory of its broker a partition is in."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnreachableError, UserError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.texts import matching, parse_places, size_text
from ottla.cli.completion.names import complete_topics
from ottla.cli.losses import Losses
from ottla.cli.output import Output, may_move, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import LOOK_S, confirm, counted, progress_line, yes_option

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.directory_plans import DirectoryMove
    from ottla.client.administration.log_directories import LogDirectoryDescription


@click.command(
    "move",
    cls=TargetCommand,
    examples=(
        "ottla topics move localhost:9092 orders --to /disk2/kafka",
        "ottla topics move localhost:9092 --from /disk1/kafka --to /disk2/kafka --dry-run",
        "ottla topics move localhost:9092",
    ),
)
@target_argument(directories=True)
@click.argument(
    "words", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1, shell_complete=complete_topics
)
@click.option(
    "--to",
    "targets",
    multiple=True,
    metavar="DIR",
    help="Log directory to move to; repeatable, to spread partitions over several by their size.",
)
@click.option("--from", "source", metavar="DIR", help="Move only what is in this log directory.")
@click.option(
    "--broker", type=int, metavar="ID", help="Broker whose replicas are moved. Default: all."
)
@click.option("--cancel", is_flag=True, help="Cancel the moves that are under way.")
@click.option("--dry-run", is_flag=True, help="Print the moves without beginning them.")
@click.option("--no-wait", is_flag=True, help="Return once the moves have begun.")
@yes_option
@output_options()
def move_command(
    target: Target, words: tuple[str, ...], is_confirmed: bool, output: Output, **how: Any
) -> None:
    """Move partitions of topics to other log directories of their broker, while they are used.

    Without TOPIC, everything in the directory of --from is moved. Without --to and --cancel, list
    the moves that are under way. A broker copies in the background; its setting
    replica.alter.log.dirs.io.max.bytes.per.second limits how fast.
    """
    from ottla.client.administration.directory_plans import plan_moves

    targets: tuple[str, ...] = how["targets"]
    source: str | None = how["source"]
    losses = Losses()
    with target.admin() as admin:
        places = _places(admin, words) if words else None
        is_list = not how["cancel"] and not targets
        known = _described(admin, how["broker"], losses if is_list else None)
        if how["cancel"]:
            _cancel(admin, known, places, output, is_confirmed=is_confirmed)
        elif not targets:
            if source is not None:
                raise UserError(f"--from {source}: name the log directory to move to with --to DIR")
            _list(known, places, output)
        elif places is None and source is None:
            raise UserError(
                "name the topics to move, or the log directory to empty with --from; '*' means all"
                " topics"
            )
        else:
            moves = plan_moves(known, places, targets, source)
            _carry_out(moves, admin, output, is_confirmed=is_confirmed, how=how)
    losses.end()


def _places(admin: "Admin", words: Iterable[str]) -> set[TopicPartition]:
    """The partitions that are named; raises `UserError` if there is none."""
    known = admin.list_topics(internal=True)
    found: set[TopicPartition] = set()
    for word in words:
        pattern, indexes = parse_places(word)
        there = set(admin.places(matching("topic", [pattern], known)))
        chosen = {one for one in there if indexes is None or one.partition in indexes}
        if not chosen:
            raise UserError(f"{word}: there is no such partition")
        found |= chosen
    return found


def _described(
    admin: "Admin", broker: int | None, losses: Losses | None
) -> "list[LogDirectoryDescription]":
    """Raises `UnreachableError` for a broker that does not answer and is wanted, unless its loss
    may be told.
    """
    silent: list[UnreachableError] = []
    known = admin.log_directories(on_unreachable=silent.append)
    found = [one for one in known if broker in (None, one.broker)]
    if silent and losses is not None:
        for error in silent:
            losses.directories_are_left_out(error)
    elif silent and (broker is None or not found):
        raise silent[0]
    elif not found and broker is not None:
        there = ", ".join(str(one) for one in sorted({one.broker for one in known}))
        raise UserError(f"--broker {broker}: no such broker is up; brokers that are up: {there}")
    return found


def _carry_out(
    moves: "Sequence[DirectoryMove]",
    admin: "Admin",
    output: Output,
    *,
    is_confirmed: bool,
    how: dict[str, Any],
) -> None:
    plan = [f"{_text(one)} ({size_text(one.size)})" for one in moves]
    planned = _objects(moves, is_done=False)
    is_dry_run = bool(how["dry_run"])
    if not may_move(plan, planned, output, is_dry_run=is_dry_run, is_confirmed=is_confirmed):
        return
    for broker, group in groupby(sorted(moves, key=lambda one: one.broker), lambda one: one.broker):
        admin.move_partitions(broker, {one.place: one.after for one in group})
    if how["no_wait"]:
        text = "the moves have begun; ottla topics move TARGET lists them"
        output.say(text, *_objects(moves, is_done=False))
        return
    _wait_for(moves, admin, is_shown=not output.is_quiet)
    output.say(f"moved {counted(len(moves), 'partition')}", *_objects(moves, is_done=True))


def _wait_for(moves: "Sequence[DirectoryMove]", admin: "Admin", *, is_shown: bool) -> None:
    """Waits until the moves are done; raises `UserError` if one was given up."""
    from ottla.client.administration.directory_plans import running_moves

    wanted = by_topic({one.place for one in moves})
    total = sum(one.size for one in moves)
    missed: set[DirectoryMove] = set()
    with progress_line("moving", noun="partitions", is_shown=is_shown) as line:
        while True:
            known = admin.log_directories(wanted)
            left = [one for one in moves if not one.is_done_in(known)]
            if not left:
                return
            running = {(one.move.broker, one.move.place): one for one in running_moves(known)}
            copied = sum(one.copy.size for one in running.values())
            done = sum(one.size for one in moves) - sum(one.size for one in left)
            words = f"moving, {size_text(done + copied)} of {size_text(total)} copied"
            line.say(words, len(moves) - len(left), len(moves))
            idle = {one for one in left if (one.broker, one.place) not in running}
            # Directories are described one after the other: a move may end in between.
            if given_up := sorted(idle & missed, key=lambda one: one.place):
                raise UserError(
                    f"{_text(given_up[0])}: the move was cancelled or given up; the broker's log"
                    " says why"
                )
            missed = idle
            time.sleep(LOOK_S)


def _cancel(
    admin: "Admin",
    known: "Sequence[LogDirectoryDescription]",
    places: set[TopicPartition] | None,
    output: Output,
    *,
    is_confirmed: bool,
) -> None:
    from ottla.client.administration.directory_plans import running_moves

    moves = [one.move for one in running_moves(known) if places is None or one.move.place in places]
    if not moves:
        output.say("no moves are under way")
        return
    confirm(f"Cancel {counted(len(moves), 'move')}?", is_confirmed=is_confirmed)
    for one in moves:
        admin.move_partitions(one.broker, {one.place: one.before})
    objects = ({"broker": one.broker, **_place_fields(one), "is_cancelled": True} for one in moves)
    output.say(f"cancelled {counted(len(moves), 'move')}", *objects)


def _list(
    known: "Sequence[LogDirectoryDescription]", places: set[TopicPartition] | None, output: Output
) -> None:
    from ottla.client.administration.directory_plans import running_moves

    running = [one for one in running_moves(known) if places is None or one.move.place in places]
    if output.is_brief:
        output.names(one.move.place for one in running)
        return
    if not running:
        output.say("no moves are under way")
    for one in running:
        copy = one.copy
        output.say(
            f"{_text(one.move)}: {size_text(copy.size)} of {size_text(one.move.size)} copied, "
            f"{copy.offset_lag:,} offsets behind",
            {
                **next(_objects([one.move], is_done=False)),
                "copied": copy.size,
                "offset_lag": copy.offset_lag,
            },
        )


def _text(move: "DirectoryMove") -> str:
    return f"{move.place} of broker {move.broker}: {move.before} -> {move.after}"


def _place_fields(move: "DirectoryMove") -> dict[str, object]:
    return {"topic": move.place.topic, "partition": move.place.partition}


def _objects(moves: "Iterable[DirectoryMove]", *, is_done: bool) -> Iterator[dict[str, object]]:
    for one in moves:
        yield {
            "broker": one.broker,
            **_place_fields(one),
            "before": one.before,
            "after": one.after,
            "size": one.size,
            "is_done": is_done,
        }
