"""Phase 5: brings leader epochs, producer state and the integrity file to the log's end.

Kafka's counterparts: the rest of `LogLoader.load`, `UnifiedLog.rebuildProducerState`.
"""

import logging
from collections.abc import Sequence

from ottla.base.errors import CorruptionError
from ottla.base.files import base_name, join
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS, parse_directory_name
from ottla.storage.files.integrity import (
    HELD_SOMETHING,
    Integrity,
    SegmentFacts,
    changed_index,
    checksum_of,
)
from ottla.storage.files.losses import KnownLosses
from ottla.storage.log.epoch_replay import check_epochs, complete_epochs
from ottla.storage.log.epoch_runs import beyond_end
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.log.state import RecoveredLog
from ottla.storage.recovery.ending import LogEnd
from ottla.storage.recovery.missing_segments import name_missing_between, name_missing_front
from ottla.storage.recovery.opened_log import OpenedLog
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_facts import first_checksum, known_losses

logger = logging.getLogger(__name__)


def reconcile(log: OpenedLog, end: LogEnd) -> RecoveredLog:
    try:
        log.segments.active.check_last_entry(end.end_offset)
    except CorruptionError as error:
        logger.error("%s; its indexes stay as they are", error)
    log.segments.active.become_active()
    lost = _name_missing(log)
    _cut_epochs(log, end.end_offset)
    snapshots = log.snapshot_files()
    recovered = RecoveredLog(
        file_system=log.request.file_system,
        directory=log.request.directory,
        config=log.request.config,
        segments=log.segments,
        epochs=log.epochs,
        producers=_producers(log, snapshots, end.end_offset),
        snapshots=snapshots,
        log_start_offset=log.log_start_offset,
        local_start_offset=log.local_start_offset,
        log_end_offset=end.end_offset,
        recovery_point=_flush_unknown_gaps(log, end),
        integrity=log.integrity,
    )
    _write_integrity(log, end.end_offset, lost)
    return recovered


def _name_missing(log: OpenedLog) -> list[int]:
    """Logs the missing segments of a log that only Ottla has written.

    Returns the offsets where missing segments began, if the integrity file is lost and so does not
    list them. Runs before the epochs are truncated to the remaining segments.
    """
    request = log.request
    start = request.log_start_offset
    # In a tiered log they begin at the log start, also where the local segments begin later.
    epochs_begin = None if request.is_tiered else log.epochs.earliest_start_offset
    if request.integrity is not None:
        begun = request.integrity.begin_of_missing(
            log.segments.first.base_offset,
            epochs_begin,
            is_same_boot=request.is_same_boot or request.is_tiered,
        )
        name_missing_front(begun, log.segments, start)
        losses = known_losses(request.integrity, log.all_files, request.gaps_before)
        name_missing_between(log.segments, losses, start)
    elif request.is_integrity_lost:
        logger.warning(
            "%s is missing or damaged, and Kafka has not removed it; it is rebuilt, and gaps count "
            "as losses where the log was not compacted",
            join(request.directory, INTEGRITY),
        )
        begun = None if epochs_begin is None else (epochs_begin, LEADER_EPOCHS)
        name_missing_front(begun, log.segments, start)
        return name_missing_between(log.segments, KnownLosses(request.gaps_before), start)
    return []


def _cut_epochs(log: OpenedLog, end_offset: int) -> None:
    bounds = {"start_offset": log.local_start_offset, "end_offset": end_offset}
    complete_epochs(log.epochs, log.segments, **bounds)
    check_epochs(log.epochs, log.segments, **bounds)
    # Kafka truncates the end first, and so drops an epoch that begins at the end of an empty log
    # only at the second start.
    log.epochs.truncate_from_start(log.log_start_offset)
    beyond = beyond_end(log.epochs, end_offset)
    if beyond is not None:
        logger.warning("%s; it is removed", beyond.text)
    log.epochs.truncate_from_end(end_offset)


def _producers(log: OpenedLog, snapshots: SnapshotFiles, end_offset: int) -> ProducerState:
    """The producer state at the log's end; also written as a snapshot."""
    snapshots.remove_strays({one.base_offset for one in log.segments.values})
    snapshots.remove_outside(log.local_start_offset, end_offset)
    producers = ProducerState()
    request = log.request
    is_kafkas = request.integrity is None and not request.is_integrity_lost
    if request.was_clean_stop and is_kafkas and not snapshots.offsets:
        # Written by a Kafka version without snapshots, or they were removed: start without state.
        producers.clear(end_offset)
    else:
        has_records = end_offset > log.local_start_offset
        if request.was_clean_stop and has_records and end_offset not in snapshots.offsets:
            logger.warning(
                "%s is missing, though the log was closed there; its producers are read from "
                "the log",
                snapshots.path(end_offset),
            )
        log.rebuild_producers(producers, snapshots, end_offset)
    producers.opened()
    snapshots.take(producers)
    return producers


def _flush_unknown_gaps(log: OpenedLog, end: LogEnd) -> int:
    """Flushes recovered segments whose gaps cannot be judged; returns the recovery point.

    In a compacted log without a gap checkpoint, a hole that a power failure leaves looks like a
    gap that compaction left.
    """
    request = log.request
    recovery_point = end.recovery_point
    known = log.integrity.known.gap_checkpoint
    is_open = request.config.is_compacted and known is None
    if is_open and recovery_point < log.segments.active.base_offset:
        for segment in log.segments.from_offset(recovery_point):
            segment.sync()
        log.sync_directory()
        recovery_point = end.end_offset
    if known is None:
        known = max(recovery_point, request.cleaned_until)
    log.integrity.tight_from = min(known, end.end_offset)
    return recovery_point


def _write_integrity(log: OpenedLog, end_offset: int, lost: Sequence[int]) -> None:
    """Writes the integrity file, as the last step: its facts must hold for all later appends."""
    facts = {one.base_offset: _facts(log, one) for one in log.segments.values}
    log.integrity.loaded(
        Integrity(
            topic_id=log.request.topic_id,
            partition=_partition_of(log.request.directory),
            gapless_from=end_offset,
            # In an empty log no abort can lack an index entry.
            aborts_are_indexed=not any(one.size for one in log.segments.values),
        ),
        {**dict.fromkeys(lost, HELD_SOMETHING), **facts},
        end_offset,
    )
    first = log.all_files[0].base_offset
    if min(log.integrity.now().segments, default=first) < first:
        log.integrity.removed_before(first)  # they are named, or were removed on purpose


def _facts(log: OpenedLog, segment: Segment) -> SegmentFacts:
    file_system, index = log.request.file_system, segment.transaction_index.path
    known = log.integrity.of_segment(segment.base_offset)
    aborted = known.aborted
    if aborted is None or changed_index(file_system, index, known):
        is_known = log.integrity.known.aborts_are_indexed
        aborted = checksum_of(file_system, index) if is_known else None
    size = None
    if segment is not log.segments.active:
        size = segment.log.size if known.size is None else known.size
    return SegmentFacts(first_checksum(segment.log), aborted, size)


def _partition_of(directory: str) -> TopicPartition | None:
    """The partition in a directory's name, also in that of a copy being moved."""
    name = parse_directory_name(base_name(directory))
    return None if name is None else TopicPartition(name.topic, name.partition)
