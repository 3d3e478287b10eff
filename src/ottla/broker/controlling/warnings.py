"""What people must be told of decisions: leaders that may have lost records, and lost leaders."""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.image import RECOVERING, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import PartitionChangeRecord

SHOWN: Final = 3
"""Partitions that a line names."""


def unclean_line(
    image: Callable[[], MetadataImage], records: Sequence[VersionedRecord]
) -> str | None:
    """A line if records of the image have elected replicas that may lack what was committed."""
    unclean = [one for one in _changes(records) if one.leader_recovery_state == RECOVERING]
    if not unclean:
        return None
    return (
        f"{_named(image(), unclean)}: no live replica is known to have all records, and one leads "
        "with what it has (the last leader, or any where an unclean election is allowed or asked "
        "for); records may be lost"
    )


def without_leader(records: Sequence[VersionedRecord]) -> list[PartitionChangeRecord]:
    """Changes of partitions that have no leader any more."""
    return [one for one in _changes(records) if one.leader == NO_LEADER]


def fenced_line(
    image: MetadataImage,
    broker_id: int,
    leaderless: Sequence[PartitionChangeRecord],
    timeout_ms: float,
) -> str:
    """A line about a broker whose session has ended, by what has no leader without it."""
    line = f"broker {broker_id} is fenced: it was not heard for {timeout_ms / 1000:g} s"
    if leaderless:
        line += f"; without a leader until it is back: {_named(image, leaderless)}"
    return line


def _changes(records: Sequence[VersionedRecord]) -> list[PartitionChangeRecord]:
    return [one for one, _ in records if isinstance(one, PartitionChangeRecord)]


def _named(image: MetadataImage, changes: Sequence[PartitionChangeRecord]) -> str:
    names = [f"{image.topic_names[one.topic_id]}-{one.partition_id}" for one in changes[:SHOWN]]
    more = len(changes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
