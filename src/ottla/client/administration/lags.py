"""The lag of a group, from its committed offsets and the ends of the partitions."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.base.partitions import TopicPartition
from ottla.client.administration.descriptions import (
    UNKNOWN_OFFSET,
    GroupDescription,
    PartitionLag,
    ShareGroupOffset,
)
from ottla.record.batch import Batch
from ottla.record.record import read_records

if TYPE_CHECKING:
    from ottla.client.administration.activity import ActivityAdmin


def lags_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, int | ShareGroupOffset],
    admin: "ActivityAdmin",
    now_ms: int | None,
) -> list[PartitionLag]:
    """The lags of all partitions of topics of which a group has committed or is assigned some;
    with `now_ms` also in time.

    Raises as `bounds` if one that the group has committed is not answered: no lag is known without
    it. Of the others the offsets are then `UNKNOWN_OFFSET`.
    """
    members = readers_of(group)
    there = admin.existing_of({place.topic for place in (*committed, *members)})
    bounds = admin.bounds([place for place in there if place in committed])
    bounds |= admin.known_bounds([place for place in there if place not in committed])
    found = []
    for place in there:
        offset, counted = begins(committed.get(place))
        start, end = bounds.get(place, (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
        late_ms = None
        if now_ms is not None and offset is not None and max(offset, start) < end and counted != 0:
            timestamp_ms = admin.timestamp_at(place, max(offset, start))
            late_ms = None if timestamp_ms is None else max(0, now_ms - timestamp_ms)
        found.append(
            PartitionLag(
                place=place,
                committed=offset,
                start_offset=start,
                end_offset=end,
                late_ms=late_ms,
                member=members.get(place),
                counted_lag=counted,
            )
        )
    return found


def begins(known: int | ShareGroupOffset | None) -> tuple[int | None, int | None]:
    """The first record to read, and how many there are, as far as that was counted."""
    if isinstance(known, ShareGroupOffset):
        return known.start_offset, known.lag
    return known, None


def readers_of(group: GroupDescription) -> dict[TopicPartition, str]:
    """The client ids of the members that have each partition: in a share group several may."""
    clients: dict[TopicPartition, list[str]] = {}
    for one in group.members:
        for place in one.assigned:
            clients.setdefault(place, []).append(one.client_id)
    return {place: ", ".join(sorted(set(its))) for place, its in clients.items()}


def first_time(batches: Iterable[Batch], offset: int) -> int | None:
    """The timestamp of the first record from an offset on, by the first batch; `None` without
    one.
    """
    for batch in batches:
        for record in read_records(batch):
            if record.offset >= offset and record.timestamp_ms >= 0:
                return record.timestamp_ms
        return batch.max_timestamp_ms if batch.max_timestamp_ms >= 0 else None
    return None
