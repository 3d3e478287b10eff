"""`ottla bench`: records a second and latencies of a target, in a table or as JSON."""

import click

from ottla.base.addresses import address_text
from ottla.cli.bench.measuring import MEGABYTE, Figures, Load, measure
from ottla.cli.output import RESULTS_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import parse_size, print_json, progress_line

PERCENTILES = (50.0, 90.0, 99.0)


@click.command(
    "bench",
    cls=TargetCommand,
    examples=("ottla bench localhost:9092", "ottla bench data/ -n 1000000 --size 1k --json"),
)
@target_argument()
@click.option(
    "--count", "-n", type=click.IntRange(1), default=100_000, show_default=True,
    help="Records to produce and to consume.",
)  # fmt: skip
@click.option("--size", default="100", show_default=True, help="Size of a record's value.")
@click.option(
    "--partitions", "-p", type=click.IntRange(1), default=1, show_default=True,
    help="Partitions of the topic.",
)  # fmt: skip
@click.option(
    "--latencies", type=click.IntRange(1), default=500, show_default=True,
    help="Single records for the latency measurement.",
)  # fmt: skip
@output_options(RESULTS_ONLY)
def bench_command(target: Target, size: str, output: Output, **counts: int) -> None:
    """Measure how fast TARGET accepts and serves records, with Ottla's own client.

    The records go to a temporary topic. Latency is the time from sending a single record to its
    acknowledgement. Other programs on the machine affect the figures: to compare two targets,
    alternate between them.
    """
    load = Load(size=parse_size("--size", size), **counts)
    target.check_directories()
    addresses = target.broker_addresses()
    name = ",".join(address_text(*one) for one in addresses) or target.directories[0]
    with progress_line("begin", noun="records", is_shown=not output.is_quiet) as progress:
        figures = measure(name, target.settings, load, progress.say)
    if output.as_json:
        print_json(_fields(load, figures))
        return
    for label, seconds in (("produce", figures.produce_s), ("consume", figures.consume_s)):
        rate = load.count / seconds
        click.echo(f"{label}  {rate:>11,.0f} records/s  {rate * load.size / MEGABYTE:>8.1f} MB/s")
    shown = "  ".join(f"p{one:.0f} {figures.percentile_ms(one):.2f} ms" for one in PERCENTILES)
    click.echo(f"latency  {shown}  max {max(figures.latencies_ms):.2f} ms")
    ratio = figures.produce_s / figures.consume_s
    output.remark(f"a record is consumed {ratio:.1f} times as fast as it is produced")


def _fields(load: Load, figures: Figures) -> dict[str, object]:
    return {
        "records": load.count,
        "size": load.size,
        "partitions": load.partitions,
        "produce_records_per_s": round(load.count / figures.produce_s),
        "consume_records_per_s": round(load.count / figures.consume_s),
        "consume_to_produce": round(figures.produce_s / figures.consume_s, 3),
        "latency_ms": {
            **{f"p{one:.0f}": round(figures.percentile_ms(one), 3) for one in PERCENTILES},
            "max": round(max(figures.latencies_ms), 3),
        },
    }
