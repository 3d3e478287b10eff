"""Deletes uploads: what retention or DeleteRecords has passed, what belongs to no history or was
abandoned, and all of a partition that is deleted or whose tier is turned off.

Kafka's counterparts: `RemoteLogManager.RLMExpirationTask`, `deleteRemoteLogPartition`.
"""

import logging
from typing import Final

from ottla.broker.tiering.steps import Deed, Steps
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tiered_partition import TieredPartition, TierFacts
from ottla.storage.remote.expiration import Reason, plan_expiration
from ottla.storage.remote.lineage import start_after_deletion
from ottla.storage.remote.metadata_records import PartitionDeletion
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)

logger = logging.getLogger(__name__)


FEW: Final = 256
"""So many uploads are looked at under the broker's lock: 1 ms."""


def is_due(tier: Tier, tiered: TieredPartition) -> bool:
    """Whether something is to be deleted now, or may be, of many uploads."""
    index = tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition)
    if index is None:
        tiered.facts.measure_deletion(None, ())
        return False
    if len(index) > FEW or _start_of(tiered, index) > tiered.log.log_start_offset:
        return True
    plan = plan_expiration(index, tiered.log_state(tier), tier.now.now_ms)
    tiered.facts.measure_deletion(index, plan.going)
    return bool(plan.going) or plan.log_start_offset > tiered.log.log_start_offset


def _start_of(tiered: TieredPartition, index: SegmentIndex) -> int:
    log = tiered.log
    local_start = log.offsets.local_start_offset
    return start_after_deletion(index, log.epochs.entries, log.log_start_offset, local_start)


def expire(tier: Tier, tiered: TieredPartition) -> Steps[None]:
    """Deletes what is to be deleted now. Raises `ApiError`, `TierError`, `StorageError`."""
    index = tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition)
    if index is None or not tiered.is_led:
        return
    start = _start_of(tiered, index)
    if start > tiered.log.log_start_offset:
        _move_log_start(tiered, start)
    state, now_ms = tiered.log_state(tier), tier.now.now_ms
    if len(index) <= FEW:
        plan = plan_expiration(index, state, now_ms)
    else:
        known = index.copy()
        plan = yield Deed(lambda: plan_expiration(known, state, now_ms))
        facts = TierFacts()
        yield Deed(lambda: facts.measure_deletion(known, plan.going))
        tiered.facts.take_deletion(facts)
    if not tiered.is_led:
        return
    if plan.log_start_offset > tiered.log.log_start_offset:
        _move_log_start(tiered, plan.log_start_offset)
    for planned, reason in plan.going:
        if not tiered.is_led:
            return
        segment = index.find(planned.segment_id)
        is_begun = segment is not None and segment.state is SegmentState.COPY_SEGMENT_STARTED
        if segment is None or (reason is Reason.ABANDONED and not is_begun):
            continue  # it is gone, or was finished after all
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
    # Also if retention has moved it already: that is in no checkpoint then.
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
    known = index.copy()
    segments: list[RemoteLogSegmentMetadata] = yield Deed(known.segments)
    for segment in segments:
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            yield from tier.becomes(segment, SegmentState.DELETE_SEGMENT_STARTED)
    for segment in segments:
        yield from tier.delete_objects(segment)
    for segment in segments:
        yield from tier.becomes(segment, SegmentState.DELETE_SEGMENT_FINISHED)
