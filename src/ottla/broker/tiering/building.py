"""Begins a follower's replica where the leader's local segments do: what is before them is in the
tier, and so is the state there, leader epochs and producers (KIP-405).

Kafka's counterpart: `TierStateMachine.buildRemoteLogAuxState`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.tiering.steps import Deed, Steps, Until
from ottla.broker.tiering.tier import Tier
from ottla.broker.topics.partition import Partition
from ottla.storage.index.producer_snapshot import parse_snapshot
from ottla.storage.log.leader_epochs import parse_epoch_entries
from ottla.storage.log.maintenance import TierStart
from ottla.storage.log.snapshot_files import producer_entry
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata

if TYPE_CHECKING:
    from ottla.broker.replication.effects import BuildFromTier

logger = logging.getLogger(__name__)

READY_MS: Final = 10_000
"""How long to wait until the list of uploads is read."""

LOOK_MS: Final = 100
RETRY_MS: Final = 1000
"""The pause after a failure, before the leader is asked again, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A replica to be begun. `is_wanted`: whether this broker still follows, in the same leader
    epoch. `done` continues to follow; it is called once, whatever has happened.
    """

    wanted: "BuildFromTier"
    partition: Partition
    topic_id: Uuid
    is_wanted: Callable[[], bool]
    done: Callable[[], None]


def build_replica(tier: Tier, build: Build) -> Steps[None]:
    """Raises nothing: a failure is logged, and the leader asked again after a pause."""
    counts = tier.counts.of(build.partition.topic)
    counts.builds += 1
    try:
        yield from _built(tier, build)
    except Exception as error:
        counts.build_errors += 1
        logger.error(
            "%s-%d cannot be begun with what the tier has, which is tried again: %s",
            build.partition.topic, build.partition.index, error,
        )  # fmt: skip
        yield Until(tier.now.monotonic_ms + RETRY_MS)
    if build.is_wanted():
        build.done()


def _built(tier: Tier, build: Build) -> Steps[None]:
    segment = yield from _segment_before(tier, build)
    storage, partition = tier.storage, build.partition
    epochs: bytes = yield Deed(lambda: storage.read_index(segment, IndexType.LEADER_EPOCH))
    producers: bytes = yield Deed(lambda: storage.read_index(segment, IndexType.PRODUCER_SNAPSHOT))
    tier.on_answer()
    if not build.is_wanted():
        return
    name = f"{partition.topic}-{partition.index}"
    start = TierStart(
        # The end of the upload, which may be after the leader's local start: it is whole.
        offset=segment.end_offset + 1,
        log_start_offset=build.wanted.log_start_offset,
        epochs=parse_epoch_entries(name, epochs),
        producers=[producer_entry(one) for one in parse_snapshot(name, producers)],
    )
    logger.info(
        "%s begins at offset %d, with what the tier has of its state before",
        name, start.offset,
    )  # fmt: skip
    partition.log.maintenance.start_from_tier(start, now_ms=tier.now.now_ms)
    partition.directory.checkpoints.write_log_starts()
    partition.log.offsets.highest_remote_offset = segment.end_offset


def _segment_before(tier: Tier, build: Build) -> Steps[RemoteLogSegmentMetadata]:
    """The upload that has the offset before the one where the replica is to begin."""
    metadata, wanted = tier.metadata, build.wanted
    key = build.topic_id, build.partition.index
    deadline_ms = tier.now.monotonic_ms + READY_MS
    while True:
        metadata.watch(*key)
        index = metadata.index_of(*key) if metadata.is_ready(*key) else None
        last = wanted.start_offset - 1
        found = None if index is None else index.look_up(wanted.epoch, last)
        if found is not None:
            return found
        if tier.now.monotonic_ms >= deadline_ms:
            reason = f"no upload has offset {last} of leader epoch {wanted.epoch}"
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, reason)
        yield Until(tier.now.monotonic_ms + LOOK_MS)
