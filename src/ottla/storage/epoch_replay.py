"""Leader epochs out of the batches: as they are appended, and where their file lacks them.

A crash can leave the file behind the log's start or without entries that the log still has: it is
cut at the front before the new start is on the disk. Kafka's counterpart is the part of
`LogSegment.recover` that fills `LeaderEpochFileCache`; Kafka does not fill gaps at the front.
"""

from collections.abc import Iterator, Sequence

from ottla.record.batch import Batch
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.segments import Segments


def take_epochs(epochs: LeaderEpochs, batches: Sequence[Batch]) -> None:
    """Notes the epochs of batches that are appended.

    As in Kafka one of an old format, which has none, makes all be forgotten: what comes before says
    nothing of what is there now.
    """
    latest = epochs.latest_epoch
    for batch in batches:
        epoch = batch.partition_leader_epoch
        if epoch == latest:
            continue
        if epoch >= 0:
            epochs.assign(epoch, batch.base_offset)
        elif latest is not None and batch.magic < 2:
            epochs.clear()
        latest = epochs.latest_epoch


def complete_epochs(
    epochs: LeaderEpochs, segments: Segments, *, start_offset: int, end_offset: int
) -> None:
    """Adds the epochs of the batches from the log's start to the first known epoch.

    Costs one look at the batch before that epoch: in the old formats batches have none.
    """
    known = epochs.entries
    unknown_until = min(known[0].start_offset, end_offset) if known else end_offset
    if unknown_until <= start_offset or not _has_epoch(segments, unknown_until - 1):
        return
    found: list[EpochEntry] = []
    for batch in _headers(segments, start_offset, unknown_until):
        epoch = batch.partition_leader_epoch
        if epoch >= 0 and (not found or epoch > found[-1].epoch):
            found.append(EpochEntry(epoch, batch.base_offset))
    epochs.assign_all([*found, *known])


def _has_epoch(segments: Segments, offset: int) -> bool:
    batch = next(_headers(segments, offset, offset + 1), None)
    return batch is not None and batch.partition_leader_epoch >= 0


def _headers(segments: Segments, start_offset: int, end_offset: int) -> Iterator[Batch]:
    """The headers of the batches that reach into a range of offsets."""
    for segment in segments.from_offset(start_offset):
        if segment.base_offset >= end_offset:
            return
        for _, header in segment.log.headers(segment.offset_index.lookup(start_offset)[1]):
            if header.last_offset >= start_offset:
                yield header
            # Asked of the last offset: the first one of an old wrapper is not in its header.
            if header.last_offset >= end_offset - 1:
                return
