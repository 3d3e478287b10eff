"""Finds and reads the files of `__cluster_metadata-0` in a log directory; never writes them.

Format page: docs/format/cluster-metadata.md. Kafka's counterpart: `KafkaMetadataLog`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file
from ottla.base.patterns import lazy_pattern
from ottla.storage.files.boot_note import read_boot_note
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
)

if TYPE_CHECKING:  # Lazy: most readers meet no metadata log, and need not load its codec.
    from ottla.metadata.log_files import LogReading, MetadataFile, ReadLog
    from ottla.metadata.quorum_state import QuorumState

SNAPSHOT_NAME = lazy_pattern(r"(\d{20})-(\d{10})\.checkpoint")
SEGMENT_NAME = lazy_pattern(r"(\d{20})\.log")
QUORUM_STATE = "quorum-state"
PRODUCER_SNAPSHOT_NAME = lazy_pattern(r"(\d{20})\.snapshot")


def metadata_folder(directory: str) -> str:
    return join(directory, CLUSTER_METADATA_DIRECTORY)


def has_metadata_log(file_system: FileSystem, directory: str) -> bool:
    status = file_system.status(metadata_folder(directory))
    return status is not None and status.is_directory


def find_quorum_state(file_system: FileSystem, directory: str) -> "QuorumState | None":
    """What `quorum-state` says; `None` without it. Raises `CorruptionError` and `OSError`."""
    from ottla.metadata.quorum_state import parse_quorum_state

    folder = metadata_folder(directory)
    path = join(folder, QUORUM_STATE)
    try:
        if QUORUM_STATE in file_system.list_others(folder):
            raise CorruptionError(path, 0, "not a regular file")
        return parse_quorum_state(read_file(file_system, path), path)
    except FileNotFoundError:
        return None


def voters_of(file_system: FileSystem, directory: str) -> frozenset[int]:
    """The voters that `quorum-state` names; raises `CorruptionError`."""
    found = find_quorum_state(file_system, directory)
    return frozenset() if found is None else found.voter_ids


def metadata_size(file_system: FileSystem, directory: str) -> int:
    """The bytes of the log's segments and snapshots."""
    return sum(size for _, size in metadata_file_sizes(file_system, directory))


def metadata_file_sizes(file_system: FileSystem, directory: str) -> tuple[tuple[str, int], ...]:
    """The names and sizes of the log's segments and snapshots, which change with the log."""
    folder = metadata_folder(directory)
    found = []
    for name in sorted(file_system.list(folder)):
        if SNAPSHOT_NAME.fullmatch(name) or SEGMENT_NAME.fullmatch(name):
            status = file_system.status(join(folder, name))
            if status is not None and not status.is_directory:
                found.append((name, status.size))
    return tuple(found)


def has_only_idled(
    file_system: FileSystem,
    directory: str,
    before: tuple[tuple[str, int], ...],
    after: tuple[tuple[str, int], ...],
) -> bool:
    """Whether only what an idle leader writes came to a log between these sizes of its files.

    So that readers need not replay the log of a running quorum twice a second. Raises `OSError`.
    """
    from ottla.metadata.log_files import is_idle

    *rolled, (name, start) = before or (("", 0),)
    *same, (last, end) = after or (("", 0),)
    if rolled != same or name != last or end <= start or not SEGMENT_NAME.fullmatch(name):
        return False
    file = file_system.open(join(metadata_folder(directory), name))
    try:
        return is_idle(file.pread(end - start, start))
    finally:
        file.close()


def read_metadata_log(file_system: FileSystem, directory: str) -> "ReadLog":
    """What the log has; raises `OSError`. Damage is part of the result."""
    from ottla.metadata.log_files import read_log

    folder = metadata_folder(directory)
    # Before the files: a broker that is running may add to both.
    noted = read_boot_note(file_system, directory)
    written_end = 0 if noted is None else noted.of(CLUSTER_METADATA_DIRECTORY)
    names = sorted(file_system.list(folder))
    was_clean = read_clean_shutdown(file_system, join(directory, CLEAN_SHUTDOWN)) is not None
    snapshot = _newest_snapshot(file_system, folder, names)
    segments = [
        _file(file_system, folder, name, int(match[1]))
        for name in names
        if (match := SEGMENT_NAME.fullmatch(name))
    ]
    is_unused = not any(segment.content for segment in segments)
    is_unused &= snapshot is None or snapshot.offset == 0
    voters: frozenset[int] | None = None
    if is_unused and file_system.status(join(directory, BOOTSTRAP_CHECKPOINT)) is not None:
        # Formatted and never started: only the bootstrap records exist, and a snapshot that may
        # name the voters (KIP-853).
        if snapshot is not None:
            voters = read_log(snapshot, (), may_be_torn=False).content.voters
        snapshot = _file(file_system, directory, BOOTSTRAP_CHECKPOINT, 0)
    found = read_log(snapshot, segments, may_be_torn=not was_clean)
    if voters is not None:
        found = replace(found, content=replace(found.content, voters=voters))
    return _with_checked_end(found, folder, max(written_end, _snapshot_end(names)))


def rolled_log(file_system: FileSystem, directory: str) -> Iterator["LogReading | None"]:
    """What the log holds before its active segment: the last element, after many `None`, so that
    the reader can do it in steps.

    Raises `CorruptionError` and `OSError`.
    """
    from ottla.metadata.log_files import LogReading

    folder = metadata_folder(directory)
    names = sorted(file_system.list(folder))
    snapshot = _newest_snapshot(file_system, folder, names)
    end = 0 if snapshot is None else snapshot.offset
    starts = [(name, int(match[1])) for name in names if (match := SEGMENT_NAME.fullmatch(name))]
    segments = [
        _file(file_system, folder, name, start)
        for (name, start), (_, next_start) in pairwise(starts)
        if next_start > end
    ]
    reading = LogReading()
    yield from reading.steps(snapshot, segments, may_be_torn=False)
    yield reading


def _newest_snapshot(
    file_system: FileSystem, folder: str, names: Iterable[str]
) -> "MetadataFile | None":
    matches = [match for name in names if (match := SNAPSHOT_NAME.fullmatch(name))]
    newest = max(matches, key=lambda match: match[1], default=None)
    if newest is None:
        return None
    return _file(file_system, folder, newest[0], int(newest[1]), int(newest[2]))


def _file(
    file_system: FileSystem, folder: str, name: str, offset: int, epoch: int = 0
) -> "MetadataFile":
    from ottla.metadata.log_files import MetadataFile

    path = join(folder, name)
    return MetadataFile(path=path, content=read_file(file_system, path), offset=offset, epoch=epoch)


def _snapshot_end(names: Iterable[str]) -> int:
    """The offset of the newest producer snapshot.

    Kafka writes one at the log's end for each new segment and at a clean shutdown, as Ottla does. A
    log that ends before one has lost whole batches, which a crash does not explain.
    """
    matches = map(PRODUCER_SNAPSHOT_NAME.fullmatch, names)
    return max((int(match[1]) for match in matches if match), default=0)


def _with_checked_end(found: "ReadLog", folder: str, known_end: int) -> "ReadLog":
    """Finds that a log ends before an end that is known."""
    end = found.content.end_offset
    if found.damage is not None or end >= known_end:
        return found
    damage = CorruptionError(folder, 0, f"the log ends at offset {end}, and had {known_end}")
    return replace(found, damage=damage)
