"""Decides on elections that are asked for, or that are due from time to time.

Kafka's counterpart: `ReplicationControlManager.electLeaders` and `maybeElectUncleanLeaders`.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from ottla.metadata.image import NO_TOPIC, MetadataImage
from ottla.metadata.record_versions import VersionedRecord

UNCLEAN = Wanted(election=Election.UNCLEAN)
PREFERRED = Wanted(election=Election.PREFERRED)

Elected = Mapping[TopicPartition, ApiError | None]
"""Why a partition got no other leader, or `None` if it got one."""


def elect_leaders(
    image: MetadataImage,
    partitions: Sequence[TopicPartition] | None,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    is_unclean: bool,
) -> tuple[list[VersionedRecord], Elected]:
    """Returns the records, and the outcome of each partition; of all partitions (`None`), those
    that need no election are left out.

    The preferred replica is to lead, or with `is_unclean` any, but only where nobody does.
    """
    changes, records = PartitionChanges(image, defaults), []
    outcomes: dict[TopicPartition, ApiError | None] = {}
    for place in _all(image) if partitions is None else dict.fromkeys(partitions):
        try:
            records.append(_elected(changes, place, is_unclean=is_unclean))
            outcomes[place] = None
        except ApiError as error:
            if partitions is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes[place] = error.without_traceback()
    return records, outcomes


def _all(image: MetadataImage) -> Iterable[TopicPartition]:
    for topic in image.topics.values():
        for index in topic.partitions:
            yield TopicPartition(topic.name, index)


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
    is_led = known.leader != NO_LEADER
    is_preferred = known.leader == known.replicas[0]
    if is_led if is_unclean else is_preferred:
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
    allowed = {name: topic for name, topic in image.topics.items() if changes.allows_unclean(topic)}
    found = changes.made(lambda one: UNCLEAN if one.leader == NO_LEADER else None, allowed)
    return list(islice(found, most))
