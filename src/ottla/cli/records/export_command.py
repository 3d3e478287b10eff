"""`ottla export`: a topic as a Parquet, CSV, JSON lines or Arrow file, or a table of DuckDB."""

import time
from pathlib import Path

import click

from ottla.base.errors import UserError
from ottla.cli.output import quiet_option
from ottla.cli.records.arrow_export import open_range
from ottla.cli.records.file_formats import (
    FORMATS,
    STANDARD_OUTPUT,
    SUFFIXES,
    format_of,
    open_writer,
)
from ottla.cli.records.progress import Flow, report_option
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.tiers import tier_options
from ottla.search.positions import parse_position


class ExportCommand(TargetCommand):
    """An argument that is a file's name gets the option that it needs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, positional = self._separated(ctx, args)
        last = positional[-1] if len(positional) > 1 else ""
        is_file = last == STANDARD_OUTPUT or Path(last).suffix.lower() in SUFFIXES
        if is_file and not values.get("output"):
            raise click.UsageError(f"Name the file to write with an option: -o {last}", ctx)
        return super().parse_args(ctx, args)


@click.command(
    "export",
    cls=ExportCommand,
    examples=(
        "ottla export localhost:9092 orders -o orders.parquet",
        "ottla export data/ orders -o orders.duckdb --from @yesterday --until @today",
        "ottla export data/ orders -o - --as csv | head",
    ),
)
@target_argument(directories=True)
@click.argument("topic", metavar="TOPIC")
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), metavar="FILE",
              help="File to write, replaced once complete; - is standard output.")  # fmt: skip
@click.option("--as", "kind", type=click.Choice(FORMATS), help="Format; by FILE's name otherwise.")
@click.option("--partition", "-p", "partitions", multiple=True, type=int, help="Partition.")
@click.option(
    "--from", "start", default="beginning", metavar="POSITION", help="Start of the range."
)
@click.option("--until", default="end", metavar="POSITION", help="End of the range, exclusive.")
@tier_options
@report_option
@quiet_option()
def export_command(
    target: Target, topic: str, output: Path, kind: str | None, **given: str
) -> None:
    """Write the committed records of TOPIC to a file, with partition, offset, timestamp and
    headers.

    `ottla import` reads it again. In CSV a null is an empty cell, and an empty key or value is
    `""`. In a DuckDB database they go into a table with the topic's name.
    """
    if given["as_json"] and str(output) == "-":
        raise UserError("--json and the records cannot share standard output; name a file with -o")
    target = target.with_tier(given)
    now_ms = time.time_ns() // 1_000_000
    form = format_of(str(output), kind)
    written = open_range(
        target,
        topic,
        partitions=[int(one) for one in given["partitions"]],
        start=parse_position("--from", given["start"], now_ms),
        until=parse_position("--until", given["until"], now_ms),
    )
    flow = Flow(
        "exported",
        is_quiet=bool(given["is_quiet"]),
        as_json=bool(given["as_json"]),
        total=written.count,
    )
    try:
        with open_writer(form, output, topic) as write:
            for batch in written.batches():
                write(batch)
                flow.add(batch.nbytes, batch.num_rows)
    except BaseException:
        flow.clear()
        raise
    by_partition = [
        {
            "partition": place.partition,
            "first_offset": one.from_offset,
            "next_offset": one.until_offset,
        }
        for place, one in sorted(written.ranges.items())
    ]
    fields = {"topic": topic, "output": str(output), "format": form, "by_partition": by_partition}
    flow.finish(f" to {output}", fields)
