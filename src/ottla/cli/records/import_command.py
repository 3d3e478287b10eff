"""`ottla import`: writes the records of exported files, or others with such columns, to a topic."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ottla.base.errors import UserError
from ottla.cli.output import quiet_option
from ottla.cli.records.file_formats import FORMATS, format_of, read_file
from ottla.cli.records.new_record import NewRecord
from ottla.cli.records.produce import send_all, sending_options
from ottla.cli.records.progress import Flow, report_option
from ottla.cli.target import Target, TargetCommand, target_argument


@click.command(
    "import",
    cls=TargetCommand,
    examples=(
        "ottla import localhost:9092 orders orders.parquet --create",
        "ottla import data/ my_topic kafka-0.7-logs/ --from 0.7 --create",
    ),
)
@target_argument()
@click.argument("topic", metavar="TOPIC")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--as", "kind", type=click.Choice(FORMATS), help="Format; by FILE's name otherwise.")
@click.option("--table", metavar="NAME", help="Table of the DuckDB database.")
@click.option("--keep-partitions", is_flag=True, help="Write to the records' original partitions.")
@click.option(
    "--from",
    "version",
    type=click.Choice(["0.7"]),
    help="FILE is a log directory of that Kafka version.",
)
@click.option(
    "--positions", is_flag=True, help="Keep the positions that were offsets in 0.7 as headers."
)
@sending_options
@report_option
@quiet_option()
def import_command(target: Target, topic: str, files: tuple[Path, ...], **given: Any) -> None:
    """Write the records of Parquet, CSV, JSON lines, Arrow or DuckDB files to TOPIC.

    With --from 0.7 the topic of that name is read from a log directory of Kafka 0.7. TOPIC must
    have no other records; after an interruption, the next import continues.

    Columns are key, value, headers, timestamp and partition, as `ottla export` writes them; all but
    value may be missing. Records get new offsets, and their keys choose the partitions again.
    """
    flow = Flow("imported", is_quiet=given["is_quiet"], as_json=given["as_json"])
    if given["version"] is not None:
        send_all(target, topic, _of_old_log(target, topic, files, given), flow, given)
        return
    kinds = [format_of(str(path), given["kind"]) for path in files]

    def records() -> Iterator[NewRecord]:
        for path, kind in zip(files, kinds, strict=True):
            for one in read_file(kind, path, given["table"]):
                yield one if given["keep_partitions"] else one.without_partition()

    send_all(target, topic, records(), flow, given)


def _of_old_log(
    target: Target, topic: str, files: tuple[Path, ...], given: dict[str, Any]
) -> Iterator[NewRecord]:
    from ottla.cli.records.old_logs import old_records

    if len(files) != 1 or not files[0].is_dir():
        raise UserError("--from 0.7 reads one log directory, with directories like my_topic_0")
    if given["transaction"] or given["transactional_id"]:
        raise UserError("--from 0.7 continues after an interruption without --transaction")
    return old_records(
        target,
        topic,
        str(files[0]),
        may_create=given["create"],
        with_positions=given["positions"],
    )
