"""Rebuilds the other files of a partition from its logs.

Format pages: docs/format/offset-index.md, time-index.md, transaction-index.md,
producer-snapshot.md, leader-epochs.md. Each file but the indexes is replaced atomically, so a crash
leaves the old or the new one. Kafka's counterpart: `LogSegment.recover`, which rebuilds all of them
at once.
"""

from collections.abc import Iterator
from dataclasses import field
from itertools import zip_longest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, parent_directory, remove_if_present, replace_file
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.damage_scan import ScannedBatch, scan_log
from ottla.storage.diagnosis.producer_checks import Knowledge, ProducerReplay
from ottla.storage.files import filenames
from ottla.storage.files.filenames import FileKind, FileSuffix, parse_file_names
from ottla.storage.index.producer_snapshot import newest_snapshot
from ottla.storage.index.transaction_index import AbortedTransaction, TransactionIndex, index_text
from ottla.storage.log.epoch_runs import EpochRuns
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.segment.segment import Segment


def rebuild_indexes(file_system: FileSystem, log_path: str, base_offset: int) -> None:
    """Rebuilds a segment's offset and time index as a broker does, with the default interval.

    A crash leaves them missing, and the next start rebuilds them. Raises `CorruptionError` for a
    damaged log, and changes nothing then.
    """
    directory = parent_directory(log_path)
    segment = Segment(file_system, directory, base_offset, config=TopicConfig(), created_ms=0)
    try:
        segment.rebuild_indexes()
        segment.become_inactive()
        segment.sync()
    finally:
        segment.close_files()
    file_system.sync_directory(directory)


def batches(file_system: FileSystem, log_path: str, base_offset: int) -> Iterator[ScannedBatch]:
    """The batches of a log file; raises `CorruptionError` for damage."""
    file = file_system.open(log_path)
    try:
        for found in scan_log(file, base_offset):
            if not isinstance(found, ScannedBatch):
                raise CorruptionError(log_path, found.position, found.reason)
            yield found
    finally:
        file.close()


@dataclass(slots=True)
class Replayed:
    """The result of a replay of all of a partition's logs."""

    replay: ProducerReplay
    epochs: EpochRuns
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    """The aborted transactions by base offset of the segment that holds their marker."""
    ends: dict[int, int] = field(default_factory=dict)
    """The end of each segment by base offset."""


def replay_partition(file_system: FileSystem, directory: str) -> Replayed:
    """Reads every log once, in order; raises `CorruptionError` and `InvalidBatchError`."""
    bases = log_offsets(file_system, directory)
    first = bases[0] if bases else 0
    path = join(directory, filenames.producer_snapshot_file_name(first))
    found_start = newest_snapshot(file_system, {first: path}, {}, range(first, first + 1))
    start = None if found_start is None else found_start.entries
    result = Replayed(ProducerReplay(first, start, None), EpochRuns())
    for base_offset, end_offset in zip_longest(bases, bases[1:]):
        log_path = join(directory, filenames.log_file_name(base_offset))
        for found in batches(file_system, log_path, base_offset):
            for _ in result.replay.take(found.batch):
                raise AssertionError("there is no snapshot to compare with")
            result.epochs.take(found.batch, log_path, found.position)
        if end_offset is not None:
            result.replay.segment_ended(end_offset)
        result.aborted[base_offset] = result.replay.take_aborted()
        result.ends[base_offset] = end_offset or result.replay.state.map_end_offset
    return result


def log_offsets(file_system: FileSystem, directory: str) -> list[int]:
    """The base offsets of a partition's segments, ascending."""
    names = file_system.list(directory)
    logs = parse_file_names(names, kinds=[FileKind.LOG], suffixes=[FileSuffix.LIVE])
    return sorted(one.offset for one in logs)


def rebuild_transactions(
    file_system: FileSystem, path: str, base_offset: int, replayed: Replayed
) -> None:
    """Rebuilds a segment's transaction index.

    If batches are missing from the log, after compaction or with a hole, readable entries of the
    old index that the log does not contradict are kept.
    """
    entries = list(replayed.aborted[base_offset])
    if replayed.replay.knowledge is not Knowledge.ALL:
        end = replayed.ends[base_offset]
        readable = _readable_entries(file_system, path, base_offset)
        entries = [*(one for one in readable if one.last_offset < end), *entries]
    content = index_text(entries)
    if content:
        replace_file(file_system, path, content)
    else:
        remove_if_present(file_system, path)


def _readable_entries(
    file_system: FileSystem, path: str, base_offset: int
) -> list[AbortedTransaction]:
    """The entries of an index before the first implausible one."""
    index = TransactionIndex(file_system, path, base_offset=base_offset, writable=False)
    found: list[AbortedTransaction] = []
    last_offset = base_offset - 1
    try:
        for one in index.entries:
            is_sane = 0 <= one.first_offset <= one.last_offset and one.last_stable_offset >= 0
            if one.last_offset <= last_offset or not is_sane:
                break
            found.append(one)
            last_offset = one.last_offset
    except CorruptionError:
        return []
    finally:
        index.close()
    return found


def take_snapshot(file_system: FileSystem, directory: str, replayed: Replayed) -> None:
    """Writes a snapshot of the producers at the log's end, unless there is one."""
    snapshots = SnapshotFiles(file_system, directory)
    snapshots.take(replayed.replay.state)


def rebuild_epochs(file_system: FileSystem, path: str, replayed: Replayed) -> None:
    """Rebuilds the leader-epoch checkpoint from the batches, whose epochs must ascend.

    Epochs of what is before the first batch stay: a remote tier may have it.
    """
    entries = [*_front_epochs(file_system, path, replayed), *replayed.epochs.entries]
    if entries:
        LeaderEpochs(file_system, path).assign_all(entries)
    else:
        remove_if_present(file_system, path)


def _front_epochs(file_system: FileSystem, path: str, replayed: Replayed) -> list[EpochEntry]:
    try:
        return list(replayed.epochs.before(LeaderEpochs.read(file_system, path)))
    except CorruptionError:
        return []
