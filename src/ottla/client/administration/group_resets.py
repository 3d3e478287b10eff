"""Resets of a group in a cluster: the partitions, and the plan.

`diagnosis/offset_reset.py` decides what a user's words mean.
"""

from collections.abc import Collection, Mapping, Sequence

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import parse_places
from ottla.client.administration.admin import Admin
from ottla.client.administration.group_members import SHARE
from ottla.diagnosis.offset_reset import PlannedOffset, Reset, ResetKind, plan_reset

NAMES_SHOWN = 3


def places_to_reset(
    admin: Admin, group: str, topics: Sequence[str], committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """The partitions to reset: those named, as `TOPIC[:0,1]`, or all with a committed offset."""
    if not topics:
        places = admin.existing(committed.keys())
        if not places:
            raise RefusalError(f"group {group} has committed nothing; name a topic")
        return places
    found = []
    for text in topics:
        topic, numbers = parse_places(text)
        there = admin.places([topic])
        found += there if numbers is None else [TopicPartition(topic, one) for one in numbers]
    check_there(admin, found)
    return found


def check_there(admin: Admin, places: Sequence[TopicPartition]) -> None:
    """Raises `UnknownNameError` for a partition that does not exist."""
    there = set(admin.places({one.topic for one in places}))
    for place in places:
        if place not in there:
            numbers = [str(one.partition) for one in sorted(there) if one.topic == place.topic]
            raise UnknownNameError("partition", str(place.partition), numbers, place.topic)


def planned_reset(
    admin: Admin,
    reset: Reset,
    places: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[PlannedOffset]:
    """The offset that each partition would have after the reset."""
    at_time = {}
    if reset.kind is ResetKind.TIME:
        listed = admin.list_offsets(places, reset.number)
        at_time = {place: one.offset for place, one in listed.items()}
    return plan_reset(reset, committed, admin.bounds(places), at_time)


def begins_of(admin: Admin, group: str, kind: str) -> dict[TopicPartition, int]:
    """What a group has committed, or the start offsets of a share group."""
    if kind == SHARE:
        found = admin.share_group_offsets(group).items()
        return {key: one.start_offset for key, one in found if one.start_offset is not None}
    return {key: one.offset for key, one in admin.group_offsets(group).items()}


def begin_at(admin: Admin, group: str, kind: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits offsets, or sets those where a share group begins."""
    if kind == SHARE:
        admin.alter_share_group_offsets(group, offsets)
    else:
        admin.alter_group_offsets(group, offsets)


def forget(admin: Admin, group: str, kind: str, places: Collection[TopicPartition]) -> None:
    """Deletes offsets; a share group forgets whole topics, and raises `UserError` for less."""
    if kind != SHARE:
        admin.delete_group_offsets(group, places)
        return
    topics = sorted({one.topic for one in places})
    for place in admin.share_group_offsets(group):
        if place.topic in topics and place not in places:
            raise UserError(
                f"share group {group} forgets whole topics; name {place.topic} without partitions"
            )
    admin.delete_share_group_offsets(group, topics)


def check_nobody_reads(admin: Admin, group: str, known: Collection[str]) -> None:
    """Raises `RefusalError` naming the members: their next commit would undo this one."""
    if group not in known:
        return
    (described,) = admin.describe_groups([group])
    if not described.is_empty:
        count = len(described.members)
        members = ", ".join(sorted({one.client_id for one in described.members})[:NAMES_SHOWN])
        raise RefusalError(
            f"group {group} is {described.state} with {count} member{'s' if count > 1 else ''} "
            f"({members}); stop them first"
        )
