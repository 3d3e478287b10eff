"""Decides on elections that are asked for, or that are due from time to time.

Kafka's counterpart: `ReplicationControlManager.electLeaders` and `maybeElectUncleanLeaders`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.deciding.partition_changes import (
    NO_DEFAULTS,
    Election,
    PartitionChanges,
    TopicDefaults,
    Wanted,
)
from ottla.metadata.image import NO_TOPIC, MetadataImage, PartitionImage
from ottla.metadata.record_versions import VersionedRecord

UNCLEAN = Wanted(election=Election.UNCLEAN)
PREFERRED = Wanted(election=Election.PREFERRED)

Elected = Mapping[TopicPartition, ApiError | None]
"""Why a partition got no other leader, or `None` if it got one."""


def elect_leaders(
    image: MetadataImage,
    partitions: Sequence[TopicPartition],
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    is_unclean: bool,
) -> tuple[list[VersionedRecord], Elected]:
    """Returns the records, and the outcome of each partition.

    The preferred replica is to lead, or with `is_unclean` any, but only where nobody does.
    """
    changes, records = PartitionChanges(image, defaults), []
    outcomes: dict[TopicPartition, ApiError | None] = {}
    for place in dict.fromkeys(partitions):
        try:
            records.append(_elected(changes, place, is_unclean=is_unclean))
            outcomes[place] = None
        except ApiError as error:
            outcomes[place] = error.without_traceback()
    return records, outcomes


def to_elect_for(image: MetadataImage, *, is_unclean: bool) -> Iterator[TopicPartition]:
    """All partitions that need an election: see `elect_leaders`."""
    for topic in image.topics.values():
        for index, known in topic.partitions.items():
            if not _is_led(known, is_unclean=is_unclean):
                yield TopicPartition(topic.name, index)


def _is_led(known: PartitionImage, *, is_unclean: bool) -> bool:
    return known.leader != NO_LEADER if is_unclean else known.leader == known.replicas[0]


def _elected(
    changes: PartitionChanges, place: TopicPartition, *, is_unclean: bool
) -> VersionedRecord:
    """Raises `ApiError` if nothing changes."""
    topic = changes.image.topics.get(place.topic, NO_TOPIC)
    known = topic.partitions.get(place.partition)
    if known is None:
        what = f"partition as {place.topic}-{place.partition}"
        what = f"topic as {place.topic}" if topic is NO_TOPIC else what
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
    if _is_led(known, is_unclean=is_unclean):
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    record = changes.record(topic, place.partition, UNCLEAN if is_unclean else PREFERRED)
    if record is None and is_unclean:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    if record is None:
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return record


def unclean_elections(
    image: MetadataImage, most: int, defaults: TopicDefaults = NO_DEFAULTS
) -> list[VersionedRecord]:
    """Elects any replica where nobody leads and the topic's settings allow that; returns at most
    `most` records. For settings that have changed (unclean.leader.election.interval.ms).
    """
    changes = PartitionChanges(image, defaults)
    allowed = {
        name: topic
        for name, topic in image.topics.items()
        if any(one.leader == NO_LEADER for one in topic.partitions.values())
        and changes.allows_unclean(topic)
    }
    found = changes.made(lambda one: UNCLEAN if one.leader == NO_LEADER else None, allowed)
    return list(islice(found, most))
