"""`ottla load`: what is new in topics, into directories of Parquet files, with Spark."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import ApiError, CorruptionError
from ottla.cli.load.options import (
    check_load_options,
    follow_rule,
    load_options,
    with_load_options,
)
from ottla.cli.load.text import commit_line, progress_words, show_report
from ottla.cli.terminal import ProgressLine, Stopping, new_console

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadPlace, Progress, Sessions, TableLoad


@click.command("load")
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@with_load_options
def load_command(source: str, topics: tuple[str, ...], **given: Any) -> None:
    """Load new records of topics into Parquet, each record exactly once.

    DIR-OR-BOOTSTRAP is a data directory, read directly, or HOST:PORT of a Kafka broker. Run it
    again to load what was appended since, or use --follow; a load that is killed leaves the table
    unchanged.

    With --rerun, records that were loaded before are read again, all of them or a range. Readers
    see the old rows or the new ones, never both.
    """
    from ottla.base.errors import TaskError
    from ottla.loading.load import LoadPlace, Sessions

    check_load_options(topics, given)
    console = new_console()
    try:
        session = load_options(given, topics[0]).session
        with (
            ProgressLine(console, f"looking at {', '.join(topics)}") as line,
            Sessions(None, session) as sessions,
        ):

            def show(progress: "Progress") -> None:
                words = progress_words(progress)
                if words is not None:
                    line.say(words, progress.tasks_done, progress.task_count)

            if given["rerun"]:
                (topic,) = topics
                _rerun(console, LoadPlace(source, topic, given["into"]), sessions, show, given)
                return
            loads = [
                table_load(source, topic, topics, sessions, show, given)
                for topic in dict.fromkeys(topics)
            ]
            if given["follow"]:
                _follow(console, loads, given)
            else:
                _load(console, loads)
    except (ApiError, CorruptionError, TaskError) as error:
        raise click.ClickException(str(error)) from error


def table_load(
    source: str,
    topic: str,
    topics: tuple[str, ...],
    sessions: "Sessions",
    show: Callable[["Progress"], None],
    given: dict[str, Any],
) -> "TableLoad":
    """The load of one topic: of several, each has a directory of its own."""
    from ottla.loading.load import LoadPlace, TableLoad

    into = given["into"] if len(set(topics)) == 1 else os.path.join(given["into"], topic)
    return TableLoad(LoadPlace(source, topic, into), sessions, show, load_options(given, topic))


def _rerun(
    console: "Console",
    place: "LoadPlace",
    sessions: "Sessions",
    show: Callable[["Progress"], None],
    given: dict[str, Any],
) -> None:
    from ottla.cli.load.rerun import rerun_range, show_rerun
    from ottla.loading.rerun import Rerun

    wanted = rerun_range(given["start"], given["end"])
    again = Rerun(place, sessions, show, load_options(given, place.topic))
    show_rerun(console, again.run_range(wanted))


def _load(console: "Console", loads: list["TableLoad"]) -> None:
    for one in loads:
        with one.claimed():
            show_report(console, one.load_new())


def _follow(console: "Console", loads: list["TableLoad"], given: dict[str, Any]) -> None:
    from ottla.loading.follow import follow

    rule = follow_rule(given)
    with Stopping() as stop:
        for report in follow(loads, rule, stop):
            console.print(commit_line(report))
    console.print("stopped: everything appended so far is loaded")
