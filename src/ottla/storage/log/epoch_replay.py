"""Takes leader epochs from batches: on append, and in recovery if their file lacks them.

The file is truncated at the front before a new log start is durable, so a crash can leave it
without epochs that the log still has. Kafka's counterpart is the part of `LogSegment.recover` that
fills `LeaderEpochFileCache`; Kafka does not fill gaps at the front.
"""

import logging
from collections.abc import Iterator, Sequence

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch, batch_at
from ottla.storage import scan
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.epoch_runs import EpochRuns, agree, missing_file
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def read_epochs(file_system: FileSystem, path: str) -> LeaderEpochs:
    """The epochs in the file; none if it is damaged, as they are rebuilt from the log.

    Kafka takes the whole directory offline then.
    """
    try:
        return LeaderEpochs.read(file_system, path)
    except CorruptionError as error:
        logger.warning("%s; the leader epochs are rebuilt from the log", error)
        return LeaderEpochs(file_system, path)


def check_epochs(
    epochs: LeaderEpochs, segments: Segments, *, start_offset: int, end_offset: int
) -> None:
    """Compares the epochs with the batches at the start of each epoch and of each segment.

    If any differs, all headers are read, and judged as a check does (`epoch_runs`): the file is
    rebuilt, or reads of damaged batches are refused (`header_check`). Kafka does not check the
    file.
    """
    if all(_agrees(epochs, batch) for batch in _batches_at_edges(epochs, segments, start_offset)):
        return
    runs = EpochRuns(one.start_offset for one in epochs.entries)
    for segment, position, batch in _headers(segments, start_offset, end_offset):
        runs.take(batch, segment.log.path, position)
    verdict = runs.judge(epochs, start_offset)
    for finding in verdict.findings():
        if finding is verdict.wrong_file:
            logger.warning("%s; the leader epochs are rebuilt", finding.text)
            epochs.replace(verdict.epochs.entries)
        else:
            logger.error("%s; its batch is not served", finding.text)
    for run in verdict.damaged:
        for segment in segments.from_offset(run.first_offset):
            if segment.base_offset <= run.last_offset:
                # So that `header_check` checks the batch even after recovery has checked it.
                segment.forget_checks(size=segment.log.size)


def _agrees(epochs: LeaderEpochs, batch: Batch) -> bool:
    """Whether a batch has the epoch of the file; true before the first entry."""
    if batch.magic < 2:
        return True
    return agree(epochs, batch.partition_leader_epoch, (batch.base_offset, batch.last_offset))


def _batches_at_edges(
    epochs: LeaderEpochs, segments: Segments, start_offset: int
) -> Iterator[Batch]:
    """The first batch of each segment, the last batch, and the two batches at each new epoch."""
    for segment in segments.values:
        first = scan.header_at(segment.log, 0)
        if first is not None and first.last_offset >= start_offset:
            yield first
    try:
        last = segments.active.last_header()
    except CorruptionError:
        last = None
    if last is not None:
        yield last
    for entry in epochs.entries[1:]:
        for offset in (entry.start_offset - 1, entry.start_offset):
            yield from _batch_at(segments, offset)


def _batch_at(segments: Segments, offset: int) -> list[Batch]:
    """The header of the batch that holds an offset, or of the next; none after the last."""
    found = next(_headers(segments, offset, offset + 1), None)
    return [] if found is None else [found[2]]


def take_epochs(epochs: LeaderEpochs, batches: Sequence[Batch]) -> None:
    """Records the epochs of appended batches.

    As in Kafka, a batch of an old format, which has no epoch, clears all epochs: those before it
    say nothing about later offsets.
    """
    latest = epochs.latest_epoch
    for batch in batches:
        epoch = batch.partition_leader_epoch
        if epoch == latest and not epochs.is_ahead:
            continue
        if epoch >= 0:
            epochs.assign(epoch, batch.base_offset)
        elif latest is not None and batch.magic < 2:
            epochs.clear()
        latest = epochs.latest_epoch


class StoredEpochs:
    """Adds the epochs of a segment's stored batches that the file lacks.

    `following` is the first batch after the segment. `is_complete` says that only Ottla has written
    the file: each entry was then durable before the first batch of its epoch.
    """

    def __init__(self, epochs: LeaderEpochs, following: Batch | None, *, is_complete: bool) -> None:
        self._epochs = epochs
        self._following = following
        self._is_complete = is_complete

    def take(self, batch: Batch, path: str) -> None:
        epoch = batch.partition_leader_epoch
        latest = self._epochs.latest_epoch
        if epoch < 0 or (latest is not None and epoch <= latest):
            return
        if isinstance(batch, RecordBatch) and self._has_changed(batch):
            return
        if latest is not None:
            logger.warning(
                "%s: offset %d has leader epoch %d, which %s lacks; it is added",
                path, batch.base_offset, epoch, LEADER_EPOCHS,
            )  # fmt: skip
        self._epochs.assign(epoch, batch.base_offset)

    def _has_changed(self, batch: RecordBatch) -> bool:
        """Whether the batch's epoch is damaged, rather than missing from the file.

        It is damaged if the next sound batch has a lower epoch. In the last batch, an epoch that a
        complete file lacks is damaged too, unless the file's last epoch begins at that batch: then
        the file may be damaged.
        """
        after = _next_sound(batch, self._following)
        if after is not None:
            return after.magic == 2 and after.partition_leader_epoch < batch.partition_leader_epoch
        entries = self._epochs.entries
        return self._is_complete and bool(entries) and batch.base_offset > entries[-1].start_offset


def _next_sound(batch: RecordBatch, following: Batch | None) -> Batch | None:
    end = batch.position + batch.size
    if end == len(batch.buffer):
        return following
    try:
        after = batch_at(batch.buffer, end)
        after.check()
    except InvalidBatchError:
        return None
    return after


def complete_epochs(
    epochs: LeaderEpochs, segments: Segments, *, start_offset: int, end_offset: int
) -> None:
    """Adds the epochs of the batches between the log's start and the first known epoch.

    Only the batch before that epoch is read if it is of an old format, which has no epochs.
    """
    known = epochs.entries
    unknown_until = min(known[0].start_offset, end_offset) if known else end_offset
    if unknown_until <= start_offset or not any(
        batch.partition_leader_epoch >= 0 for batch in _batch_at(segments, unknown_until - 1)
    ):
        return
    runs = EpochRuns()
    for _, _, batch in _headers(segments, start_offset, unknown_until):
        runs.take(batch)
    if runs.entries and not known and not epochs.has_file:
        logger.warning("%s; it is rebuilt from the log", missing_file(epochs.path).text)
    epochs.assign_all([*runs.entries, *known])


def _headers(
    segments: Segments, start_offset: int, end_offset: int
) -> Iterator[tuple[Segment, int, Batch]]:
    """The headers of the batches that overlap with a range of offsets, up to the first damage.

    Yields each with its segment and position.
    """
    for segment in segments.from_offset(start_offset):
        if segment.base_offset >= end_offset:
            return
        try:
            for position, header in scan.headers(
                segment.log, segment.offset_index.lookup(start_offset)[1]
            ):
                if header.last_offset >= start_offset:
                    yield segment, position, header
                # By the last offset, as an old wrapper's header does not have its first offset.
                if header.last_offset >= end_offset - 1:
                    return
        except CorruptionError as error:
            logger.warning("%s; the leader epochs after it are unknown", error)
