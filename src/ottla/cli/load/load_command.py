"""`ottla load`: loads new records of topics into tables, with Spark or in this process."""

from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.cli.engines import open_engine, quicken
from ottla.cli.load.following import run_follower
from ottla.cli.load.objects import report_object
from ottla.cli.load.options import check_load_options, load_options, with_load_options
from ottla.cli.load.routes import matching_routes, named_routes
from ottla.cli.load.text import progress_words, show_report, show_rerun
from ottla.cli.output import Output
from ottla.cli.terminal import ExampleCommand, ProgressLine, counted, new_console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.job import LoadJob, LoadRoute
    from ottla.tables import Progress


@click.command(
    "load",
    cls=ExampleCommand,
    examples=(
        "ottla load data/ orders --into tables/orders",
        "ottla load localhost:9092 --pattern 'shop[.].*' --into tables/ --follow --engine local",
    ),
)
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@click.argument("topic_arguments", metavar="[TOPIC]...", nargs=-1)
@with_load_options
def load_command(
    source: str,
    topic_arguments: tuple[str, ...],
    topics: tuple[str, ...],
    output: Output,
    **given: Any,
) -> None:
    """Load new records of topics into Delta or Iceberg tables, each record exactly once.

    DIR-OR-BOOTSTRAP is a data directory, read directly, or HOST:PORT of a Kafka broker. Run it
    again to load newer records, or use --follow; a load that is killed leaves the table unchanged.

    --follow keeps the tables of any number of topics fresh. A table that cannot be loaded, or whose
    topic does not exist yet, is retried with growing pauses, while the others continue.

    With --rerun, records that were loaded before are read again, all of them or a range. Readers
    see the old rows or the new ones, never both.
    """
    quicken(given["engine"])
    topics = (*topic_arguments, *topics)
    given["source"] = source
    check_load_options(topics, given)
    console = new_console(is_quiet=output.is_quiet)
    named = named_routes(source, topics, given)
    if given["check"]:
        for one in named:
            load_options(given, one.topic)
        return
    words = ", ".join(one.topic for one in named) or given["pattern"]
    with (
        ProgressLine(console, f"looking at {words}") as line,
        open_engine(given["engine"]) as engine,
    ):

        def show(progress: "Progress") -> None:
            words = progress_words(progress, given["engine"])
            if words is not None:
                line.say(words, progress.tasks_done, progress.task_count)

        def routes() -> "list[LoadRoute]":
            return [*named, *(matching_routes(source, given) if given["pattern"] else ())]

        def open_job(route: "LoadRoute") -> "LoadJob":
            from ottla.loading.load import load_job

            return load_job(route, engine, show, load_options(given, route.topic))

        if given["follow"]:
            run_follower(console, routes, open_job, given, output)
            return
        jobs = [open_job(one) for one in routes()]
        if not jobs:
            raise UserError(f"{source} has no topic that matches {given['pattern']}")
        if given["redrive"]:
            _redrive(console, jobs[0], output)
        elif given["rerun"]:
            _rerun(console, jobs[0], given, output)
        else:
            _load(console, jobs, output)


def _rerun(console: "Console", job: "LoadJob", given: dict[str, Any], output: Output) -> None:
    from ottla.loading.rerun import rerun
    from ottla.loading.rerun_plan import rerun_range

    report = rerun(job, rerun_range(given["start"], given["end"], job.route.topic))
    if output.as_json:
        print_json(report_object(report))
    else:
        show_rerun(console, report)


def _redrive(console: "Console", job: "LoadJob", output: Output) -> None:
    from ottla.loading.quarantined import quarantined_files
    from ottla.loading.rerun import redrive

    reports = redrive(job)
    if not reports:
        count = sum(one.row_count for one in quarantined_files(job.table))
        told = "no record is in quarantine"
        if count:
            told = (
                f"nothing changes: {counted(count, 'record')} in quarantine cannot be decoded yet"
            )
        output.say(f"{job.table.address}: {told}", {"commit_id": None})
    for report in reports:
        if output.as_json:
            print_json(report_object(report))
        else:
            show_rerun(console, report)


def _load(console: "Console", jobs: "list[LoadJob]", output: Output) -> None:
    from ottla.loading.load import load

    for job in jobs:
        try:
            report = load(job)
        except OSError as error:
            if error.errno is None:  # Of a library that asked an object store.
                from ottla.objects.refusal import refusal

                raise refusal(job.route.into, error) from error
            error.filename = error.filename or job.route.into
            raise
        if output.as_json:
            print_json(report_object(report))
        else:
            show_report(console, report)
