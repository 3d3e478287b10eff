"""What deleting a topic's records before a place deletes, partition by partition."""

from collections.abc import Sequence

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.topics import TopicAdmin
from ottla.diagnosis.offset_reset import PlannedOffset, Reset, ResetKind, plan_reset


def planned_deletion(
    admin: TopicAdmin, topic: str, partitions: Sequence[int], reset: Reset
) -> list[PlannedOffset]:
    """The new log start offsets of the partitions, or of all, without those that do not change.

    Raises `UnknownNameError`, and `UserError` for an offset after the end of every partition.
    """
    there = admin.partitions([topic])[topic]
    for index in partitions:
        if index not in there:
            raise UnknownNameError("partition", f"{topic}-{index}", map(str, there))
    places = [TopicPartition(topic, index) for index in partitions or there]
    bounds = admin.bounds(places)
    last = max((end for _, end in bounds.values()), default=0)
    if reset.kind is ResetKind.OFFSET and reset.number > last:
        # A mistyped digit must not delete everything.
        raise UserError(
            f"--before {reset.number}: {topic} ends at offset {last}; "
            "--before latest deletes all of its records"
        )
    at_time = {}
    if reset.kind is ResetKind.TIME:
        listed = admin.list_offsets(places, reset.number)
        at_time = {place: one.offset for place, one in listed.items()}
    starts = {place: start for place, (start, _) in bounds.items()}
    return [one for one in plan_reset(reset, starts, bounds, at_time) if one.is_changed]


def deleted_count(one: PlannedOffset) -> int:
    """The offsets that are deleted; fewer records, where compaction has left gaps."""
    assert one.before is not None
    return one.after - one.before
