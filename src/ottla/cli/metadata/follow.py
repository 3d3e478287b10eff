"""`ottla metadata follow`: the metadata log of a KRaft cluster, as it is written."""

import time
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.ids import ZERO_UUID
from ottla.base.times import time_text
from ottla.cli.output import RESULTS_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.base.ids import Uuid
    from ottla.client.administration.metadata_log import MetadataLog
    from ottla.codec.schema import Message
    from ottla.metadata.following import Entry
    from ottla.metadata.image import MetadataImage

PLACE = frozenset({"topic_id", "partition_id"})
"""Fields that the name before a record says in other words."""


@click.command(
    "follow",
    cls=TargetCommand,
    examples=(
        "ottla metadata follow localhost:9093",
        "ottla metadata follow localhost:9093 --once --json",
    ),
)
@target_argument()
@click.option("--once", is_flag=True, help="Print the image as it is now, and end.")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Print first what the controllers have already: a snapshot, and the log after it.",
)
@click.option(
    "--all", "has_all", is_flag=True, help="Also print NoOp records, which say that nothing is new."
)
@output_options(RESULTS_ONLY)
def follow_command(
    target: Target, once: bool, from_beginning: bool, has_all: bool, output: Output
) -> None:
    """Follow the metadata log of a KRaft cluster, one line for each record.

    TARGET is a controller, or several. Only committed records are printed. Goes on until it is
    interrupted, also when another controller leads; the controllers do not notice it.

    With --once it prints the records that make the cluster as it is now: features, nodes, topics
    with their partitions, settings, quotas, users and access rules, without keys of users.
    """
    from ottla.client.administration.metadata_log import MetadataLog
    from ottla.client.connecting.cluster import SocketTransport

    addresses = target.broker_addresses()
    if not addresses:
        raise UserError("a metadata log is followed at a controller: name one as HOST:PORT")
    settings = target.client_settings()
    listing = Listing(output, has_all=has_all)
    with MetadataLog(
        addresses, settings, SocketTransport(settings), sleep=time.sleep, remark=output.remark
    ) as log:
        for entries in log.until_current():
            listing.take(entries, is_shown=from_beginning and not once)
        image = log.follower.image()
        if once:
            listing.show_image(image)
            return
        output.remark(heading(image, log))
        for entries in log.changes():
            listing.take(entries)


def heading(image: "MetadataImage", log: "MetadataLog") -> str:
    partitions = sum(len(one.partitions) for one in image.topics.values())
    return (
        f"controller {log.leader} leads epoch {log.epoch}, committed to offset {image.end_offset}: "
        f"{counted(len(image.brokers), 'broker')}, {counted(len(image.topics), 'topic')}, "
        f"{counted(partitions, 'partition')}"
    )


class Listing:
    """Prints records, with the names of topics, which most records have as ids only."""

    def __init__(self, output: Output, *, has_all: bool) -> None:
        self._output = output
        self._has_all = has_all
        self._names: dict[Uuid, str] = {}

    def take(self, entries: "Iterable[Entry]", *, is_shown: bool = True) -> None:
        """Notes the names of topics in any case."""
        from ottla.metadata.records import NoOpRecord, TopicRecord

        for one in entries:
            if isinstance(one.record, TopicRecord):
                self._names[one.record.topic_id] = one.record.name
            if is_shown and (self._has_all or not isinstance(one.record, NoOpRecord)):
                self._show(one)

    def _show(self, one: "Entry") -> None:
        place: dict[str, Any] = {
            "offset": one.offset,
            "epoch": one.epoch,
            "timestamp_ms": one.timestamp_ms,
        }
        if one.record is not None:
            self._print(f"{one.offset}  {time_text(one.timestamp_ms)}  ", place, one.record)
        elif self._output.as_json:
            print_json({**place, "type": None, "topic": None, "unknown": one.unknown})
        else:
            click.echo(f"{one.offset}  {time_text(one.timestamp_ms)}  {one.unknown}")

    def show_image(self, image: "MetadataImage") -> None:
        from ottla.metadata.image import MetadataImage
        from ottla.metadata.image_changes import image_changes

        self._names.update(image.topic_names)
        for record, _ in image_changes(MetadataImage(), image):
            self._print("", {}, record)

    def _print(self, before: str, place: dict[str, Any], record: "Message") -> None:
        from ottla.metadata.records import TopicRecord
        from ottla.metadata.showing import record_text, shown_fields

        topic = self._names.get(getattr(record, "topic_id", ZERO_UUID))
        if self._output.as_json:
            fields = shown_fields(record)
            print_json({**place, "type": type(record).__name__, "topic": topic, "fields": fields})
            return
        if topic is None or isinstance(record, TopicRecord):
            click.echo(before + record_text(record, is_brief=True))
            return
        number = getattr(record, "partition_id", None)
        text = record_text(record, is_brief=True, without=PLACE)
        click.echo(f"{before}{topic if number is None else f'{topic}-{number}'}  {text}")
