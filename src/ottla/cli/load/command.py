"""`ottla load`: what is new in topics, into tables, with Spark or in this process."""

import os
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.engines import open_engine
from ottla.cli.load.options import (
    check_load_options,
    follow_rule,
    load_options,
    with_load_options,
)
from ottla.cli.load.text import commit_line, progress_words, show_report
from ottla.cli.terminal import ExampleCommand, ProgressLine, Stopping, new_console

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.engine import Engine
    from ottla.loading.job import LoadJob, OnProgress, Progress


@click.command(
    "load", cls=ExampleCommand, examples=("ottla load data/ orders --into tables/orders",)
)
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@click.argument("topic_arguments", metavar="[TOPIC]...", nargs=-1)
@with_load_options
def load_command(
    source: str, topic_arguments: tuple[str, ...], topics: tuple[str, ...], **given: Any
) -> None:
    """Load new records of topics into Parquet, each record exactly once.

    DIR-OR-BOOTSTRAP is a data directory, read directly, or HOST:PORT of a Kafka broker. Run it
    again to load what was appended since, or use --follow; a load that is killed leaves the table
    unchanged.

    With --rerun, records that were loaded before are read again, all of them or a range. Readers
    see the old rows or the new ones, never both.
    """
    topics = (*topic_arguments, *topics)
    check_load_options(topics, given)
    console = new_console()
    with (
        ProgressLine(console, f"looking at {', '.join(topics)}") as line,
        open_engine(given["engine"]) as engine,
    ):

        def show(progress: "Progress") -> None:
            words = progress_words(progress, given["engine"])
            if words is not None:
                line.say(words, progress.tasks_done, progress.task_count)

        jobs = [
            topic_job(source, topic, topics, engine, show, given) for topic in dict.fromkeys(topics)
        ]
        if given["rerun"]:
            _rerun(console, jobs[0], given)
        elif given["follow"]:
            _follow(console, jobs, given)
        else:
            _load(console, jobs)


def topic_job(
    source: str,
    topic: str,
    topics: tuple[str, ...],
    engine: "Engine",
    show: "OnProgress",
    given: dict[str, Any],
) -> "LoadJob":
    """The load of one topic: of several, each has a directory of its own."""
    from ottla.loading.job import LoadPlace
    from ottla.loading.load import load_job

    into = given["into"] if len(set(topics)) == 1 else os.path.join(given["into"], topic)
    return load_job(LoadPlace(source, topic, into), engine, show, load_options(given, topic))


def _rerun(console: "Console", job: "LoadJob", given: dict[str, Any]) -> None:
    from ottla.cli.load.rerun import show_rerun
    from ottla.loading.rerun import rerun
    from ottla.loading.rerun_plan import rerun_range

    show_rerun(console, rerun(job, rerun_range(given["start"], given["end"], job.place.topic)))


def _load(console: "Console", jobs: list["LoadJob"]) -> None:
    from ottla.loading.load import load

    for job in jobs:
        show_report(console, load(job))


def _follow(console: "Console", jobs: list["LoadJob"], given: dict[str, Any]) -> None:
    from ottla.loading.follow import follow

    rule = follow_rule(given)
    with Stopping() as stop:
        for report in follow(jobs, rule, stop):
            console.print(commit_line(report))
    console.print("stopped: everything appended so far is loaded")
