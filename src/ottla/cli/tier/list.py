"""`ottla tier list`: what lies in a tier."""

from typing import TYPE_CHECKING, Any

import click

from ottla.base.ids import uuid_text
from ottla.base.texts import size_text
from ottla.base.times import second_text
from ottla.cli.endings import named_files
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, offsets_text
from ottla.cli.tier.options import chosen_options, contents_of, found_logs

if TYPE_CHECKING:
    from ottla.storage.tiers.contents import Upload

COLUMNS = ("partition", "offsets", "#size", "state", "leader epochs", "copied (UTC)", "upload")


@click.command(
    "list",
    cls=ExampleCommand,
    examples=("ottla tier list data/ --tier tier/", "ottla tier list --tier tier/ -t orders"),
)
@click.argument("directories", metavar="[DIR]...", nargs=-1)
@chosen_options
@output_options(NAMES_ONLY)
def list_command(directories: tuple[str, ...], output: Output, **given: Any) -> None:
    """List the uploads of a tier by partition and offset, with their state.

    DIR are the log directories of a broker that has filled it: their records say what is read, and
    what is local. Without them the objects alone are listed. SIZE is that of the log, or, if no
    record names an upload, of its objects. Nothing is written.
    """
    with named_files(directories[0] if directories else str(given["tier"] or given["tier_config"])):
        contents = contents_of(directories, given)
        uploads = [one for log in found_logs(contents, output) for one in log.uploads()]
    output.listing(
        uploads,
        COLUMNS,
        map(_row, uploads),
        fields=_fields,
        name=lambda one: f"{one.partition} {one.start_offset} {uuid_text(one.segment_id)}",
        none=f"{contents.tier.address}: no uploads lie here, of what was asked for",
    )


def _row(one: "Upload") -> tuple[object, ...]:
    segment = one.segment
    if segment is None:
        size = None if one.stored is None else one.stored.size
        return (one.partition, f"{one.start_offset}–?", size_text(size), one.role.value, "", "",
                uuid_text(one.segment_id))  # fmt: skip
    is_known = segment.event_timestamp_ms >= 0
    return (
        one.partition,
        offsets_text(segment.start_offset, segment.end_offset),
        size_text(segment.size),
        one.role.value,
        ", ".join(str(epoch) for epoch, _ in segment.leader_epochs),
        second_text(segment.event_timestamp_ms) if is_known else "",
        uuid_text(one.segment_id),
    )


def _fields(one: "Upload") -> dict[str, object]:
    segment, stored = one.segment, one.stored
    return {
        "topic": one.partition.topic,
        "topic_id": uuid_text(one.partition.topic_id),
        "partition": one.partition.partition,
        "upload": uuid_text(one.segment_id),
        "start_offset": one.start_offset,
        "end_offset": segment and segment.end_offset,
        "state": one.role.value,
        "recorded_state": segment and segment.state.name,
        "log_size": segment and segment.size,
        "leader_epochs": [] if segment is None else [list(each) for each in segment.leader_epochs],
        "max_timestamp_ms": segment and segment.max_timestamp_ms,
        "copied_ms": segment and segment.event_timestamp_ms,
        "broker": segment and segment.broker_id,
        "read_offsets": [[each.first_offset, each.last_offset] for each in one.pieces],
        "objects": {} if stored is None else {each.path: each.size for each in stored.objects},
    }
