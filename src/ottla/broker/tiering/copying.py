"""Copies the rolled segments of a partition to the tier, one after the other.

A crash leaves at most one upload per copier that has begun and not ended: the leader's expiration
deletes it (`Reason.ABANDONED`), and the segment is copied again under another id.

Kafka's counterpart: `RemoteLogManager.RLMCopyTask`.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ottla.broker.tiering.steps import Deed, Steps, Until
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tiered_partition import TieredPartition
from ottla.storage.remote.copy_plan import Candidate, Upload, candidates, upload_of
from ottla.storage.remote.local_files import local_files, may_be_copied
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
)

logger = logging.getLogger(__name__)

QUOTA_PAUSE_MS: Final = 1000
"""How long a copy waits before it asks the quota again, as Kafka's does."""


def next_candidate(tier: Tier, tiered: TieredPartition) -> Candidate | None:
    """The segment that may be copied now; `None` while there is none."""
    log = tiered.log
    if not tiered.copies or log.maintenance.go_on_with_snapshot():
        return None
    start = max(log.offsets.highest_remote_offset + 1, log.log_start_offset)
    found: Iterator[Candidate] = candidates(
        log.segments.values, start, log.last_stable_offset, tiered.copy_lag(), tier.now.now_ms
    )
    candidate = next(found, None)
    return candidate if candidate is not None and may_be_copied(log, candidate) else None


def copy_segments(tier: Tier, tiered: TieredPartition) -> Steps[None]:
    """Copies all that may be copied. Raises `ApiError`, `TierError`, and the errors of the local
    disk.
    """
    while tiered.is_led:
        tiered.note_highest(tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition))
        candidate = next_candidate(tier, tiered)
        if candidate is None:
            return
        if tier.copy_quota.is_exceeded(tier.now.monotonic_ms):
            tier.counts.throttled_ms += QUOTA_PAUSE_MS
            yield Until(tier.now.monotonic_ms + QUOTA_PAUSE_MS)
            continue  # by then the segment may be deleted, or another broker lead
        tier.copy_quota.record(candidate.segment.size, tier.now.monotonic_ms)
        yield from _Copy(tier, tiered, candidate).steps()


class _Copy:
    """One upload of one segment."""

    def __init__(self, tier: Tier, tiered: TieredPartition, candidate: Candidate) -> None:
        self._tier = tier
        self._tiered = tiered
        self._candidate = candidate
        self._counts = tier.counts.of(tiered.id.topic)

    def steps(self) -> Steps[None]:
        tier, tiered = self._tier, self._tiered
        segment = self._metadata()
        if segment is None:
            return
        tiered.being_copied.add(segment.segment_id)
        files = local_files(tiered.log, self._candidate)
        try:
            begun = segment
            read: SegmentFiles = yield Deed(lambda: files.read_sound(tier.file_system, begun))
            has_no_transactions = IndexType.TRANSACTION not in read.indexes
            segment = replace(segment, has_no_transactions=has_no_transactions)
            yield from tier.prepare()
            if not tiered.is_led:
                return  # of a topic that is deleted meanwhile nothing may be recorded
            # Before the first object: a crash from here on leaves no object that no record names.
            yield from tier.publish(segment)
            if not tiered.is_led:
                return
            custom = yield from self._put(segment, read)
            yield from self._finish(segment, custom)
        finally:
            files.close()
            # If it has not finished, it counts as abandoned from now on.
            tiered.being_copied.discard(segment.segment_id)

    def _metadata(self) -> RemoteLogSegmentMetadata | None:
        tier, tiered = self._tier, self._tiered
        upload = Upload(partition=tiered.id, segment_id=tier.new_id(), broker_id=tier.node_id)
        epochs = tiered.log.epochs.entries
        try:
            return upload_of(self._candidate, epochs, upload, tier.now.now_ms)
        except ValueError as error:
            self._refuse(f"{error}, and cannot be read from a tier")
            return None

    def _put(self, segment: RemoteLogSegmentMetadata, read: SegmentFiles) -> Steps[bytes | None]:
        storage, counts = self._tier.storage, self._counts
        counts.copies += 1
        try:
            custom: bytes | None = yield Deed(lambda: storage.copy_segment(segment, read))
        except Exception:
            counts.copy_errors += 1
            raise
        self._tier.on_answer()
        counts.copied_bytes += segment.size
        return custom

    def _finish(self, segment: RemoteLogSegmentMetadata, custom: bytes | None) -> Steps[None]:
        tier, tiered = self._tier, self._tiered
        limit = tier.config().remote_log_metadata_custom_metadata_max_bytes
        if custom is not None and len(custom) > limit:
            self._counts.copy_errors += 1
            yield from tier.delete(segment)
            self._refuse(
                f"the tier adds {len(custom)} bytes to the metadata of a segment, and {limit} are "
                "allowed; raise remote.log.metadata.custom.metadata.max.bytes, and start again"
            )
            return
        if not tiered.is_led:
            return  # the new leader copies the segment too, and deletes this upload
        tiered.in_doubt.add(segment.segment_id)
        yield from tier.becomes(segment, SegmentState.COPY_SEGMENT_FINISHED, custom)
        tiered.in_doubt.discard(segment.segment_id)
        # Only now may local retention delete the segment: the record is applied, and durable.
        tiered.note_highest(tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition))
        logger.debug(
            "%s: offsets %d to %d are in the tier",
            tiered.id, segment.start_offset, segment.end_offset,
        )  # fmt: skip

    def _refuse(self, reason: str) -> None:
        self._tiered.copy_refusal = self._tier.now.now_ms, reason
        logger.error("%s is not copied to the tier any more: %s", self._tiered.id, reason)
