"""Deletes uploads: what retention or DeleteRecords has passed, what belongs to no history or was
abandoned, and all of a partition that is deleted or whose tier is turned off.

Kafka's counterparts: `RemoteLogManager.RLMExpirationTask`, `deleteRemoteLogPartition`.
"""

import logging

from ottla.broker.tiering.steps import Steps
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tiered_partition import TieredPartition
from ottla.storage.remote.expiration import Expiration, plan_expiration
from ottla.storage.remote.metadata_records import PartitionDeletion
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)

logger = logging.getLogger(__name__)


def expiration_of(tier: Tier, tiered: TieredPartition) -> Expiration | None:
    """What is to be deleted now; `None` if nothing is."""
    index = tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition)
    if index is None or not len(index):
        return None
    found = plan_expiration(index, tiered.log_state(tier.node_id), tier.now.now_ms)
    is_moved = found.log_start_offset > tiered.log.log_start_offset
    return found if found.going or is_moved else None


def expire(tier: Tier, tiered: TieredPartition) -> Steps[None]:
    """Deletes what is to be deleted now. Raises `ApiError`, `TierError`, `StorageError`."""
    plan = expiration_of(tier, tiered) if tiered.is_led else None
    if plan is None:
        return
    if plan.log_start_offset > tiered.log.log_start_offset:
        _move_log_start(tiered, plan.log_start_offset)
    for segment, reason in plan.going:
        if not tiered.is_led:
            return
        logger.info(
            "%s: offsets %d to %d are deleted from the tier: %s",
            tiered.id, segment.start_offset, segment.end_offset, reason.value,
        )  # fmt: skip
        yield from tier.delete(segment)


def _move_log_start(tiered: TieredPartition, offset: int) -> None:
    # Durable before the first object is deleted: a log must not begin where nothing is any more.
    log = tiered.log
    log.maintenance.delete_records_before(min(offset, log.high_watermark))
    tiered.partition.directory.checkpoints.write_log_starts()


def turn_off(tier: Tier, tiered: TieredPartition) -> Steps[None]:
    """Deletes all uploads of a partition whose tier is turned off; the log then starts where its
    local segments do (KIP-950).
    """
    log = tiered.log
    # If the tier is turned on again meanwhile, nothing local may be taken to be in it.
    log.offsets.highest_remote_offset = -1
    if log.offsets.local_start_offset > log.log_start_offset:
        _move_log_start(tiered, log.offsets.local_start_offset)
    index = tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition)
    if index is not None:
        yield from _delete_all(tier, index)


def delete_partition(tier: Tier, index: SegmentIndex) -> Steps[None]:
    """Deletes all uploads of a partition whose topic was deleted."""
    yield from _delete_all(tier, index)
    for state in (
        PartitionDeleteState.DELETE_PARTITION_STARTED,
        PartitionDeleteState.DELETE_PARTITION_FINISHED,
    ):
        yield from tier.publish(deletion(tier, index.partition, state))


def deletion(
    tier: Tier, partition: TopicIdPartition, state: PartitionDeleteState
) -> PartitionDeletion:
    return PartitionDeletion(
        partition=partition,
        broker_id=tier.node_id,
        event_timestamp_ms=tier.now.now_ms,
        state=state,
    )


def _delete_all(tier: Tier, index: SegmentIndex) -> Steps[None]:
    """In Kafka's order: nothing of the partition is looked up any more before an object goes."""
    segments: list[RemoteLogSegmentMetadata] = index.segments()
    for segment in segments:
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            yield from tier.becomes(segment, SegmentState.DELETE_SEGMENT_STARTED)
    for segment in segments:
        yield from tier.delete_objects(segment)
    for segment in segments:
        yield from tier.becomes(segment, SegmentState.DELETE_SEGMENT_FINISHED)
