"""The leader epochs of a log whose `leader-epoch-checkpoint` was lost, by its newest upload.

A start rebuilds the file from the local batches, so that it lacks the epochs of what only the tier
has. Until they are there again, nothing is copied or deleted: an upload carries the file, and the
uploads of epochs that a log does not have are of another history. Kafka does not add them, and
deletes all uploads of epochs before the first local one
(`RemoteLogManager.deleteLogSegmentsDueToLeaderEpochCacheTruncation`).
"""

import logging
from collections.abc import Sequence

from ottla.broker.tiering.steps import Deed, Steps
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tiered_partition import TieredPartition
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.newest_upload import newest_epochs
from ottla.storage.remote.segment_index import SegmentIndex

logger = logging.getLogger(__name__)


def lacks_epochs(tiered: TieredPartition, index: SegmentIndex | None) -> bool:
    """Whether offsets that only the tier has are before the first known epoch, and uploads may say
    what precedes it.
    """
    log = tiered.log
    if index is None or not len(index) or tiered.has_asked_for_epochs:
        return False
    first = log.epochs.earliest_start_offset
    return log.log_start_offset < log.local_start_offset and (
        first is None or first > log.log_start_offset
    )


def add_epochs(tier: Tier, tiered: TieredPartition) -> Steps[None]:
    """Adds the epochs that the newest upload has. Raises `CorruptionError`, `TierError`."""
    index = tier.metadata.index_of(tiered.id.topic_id, tiered.id.partition)
    if index is None or not lacks_epochs(tiered, index):
        return
    uploaded: tuple[EpochEntry, ...] = yield Deed(lambda: newest_epochs(tier.storage, index))
    tier.on_answer()
    if not tiered.is_here or not lacks_epochs(tiered, index):
        return
    tiered.has_asked_for_epochs = True
    log = tiered.log
    found = completed(uploaded, log.epochs.entries, log.log_end_offset)
    if found == log.epochs.entries:
        return
    log.epochs.replace(found)
    log.epochs.truncate_from_start(log.log_start_offset)
    logger.warning(
        "%s lacked the leader epochs of what is in the tier; those before offset %d were added to "
        "its %s from the newest upload", tiered.id, log.local_start_offset, LEADER_EPOCHS,
    )  # fmt: skip


def completed(
    uploaded: Sequence[EpochEntry], known: Sequence[EpochEntry], end_offset: int
) -> tuple[EpochEntry, ...]:
    """The known epochs of a log that ends at an offset, with those before them of an upload."""
    if not known:
        return tuple(one for one in uploaded if one.start_offset < end_offset)
    first = known[0]
    before = [
        one
        for one in uploaded
        if one.epoch <= first.epoch and one.start_offset < first.start_offset
    ]
    begins_there = bool(before) and before[-1].epoch == first.epoch
    return (*before, *(known[1:] if begins_there else known))
