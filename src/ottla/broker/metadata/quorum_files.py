"""Judges the files of a quorum's node: whether it may go on with them, and the mend if not.

A start refuses by it, and `ottla doctor` says the same of a node that is stopped. Everything here
only reads.

Format pages: docs/format/cluster-metadata.md, docs/format/quorum-state.md. Kafka has no
counterpart.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file
from ottla.broker.metadata.quorum_log import find_snapshots, snapshot_name
from ottla.metadata.log_check import LogEnd, check_log
from ottla.metadata.log_files import MetadataFile
from ottla.quorum.election_state import ElectionState, election_in
from ottla.storage.directory.log_directory import had_metadata_log
from ottla.storage.files.boot_note import WrittenEnds, read_boot_note
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCHS,
    METADATA_MARK,
)
from ottla.storage.files.integrity import read_integrity
from ottla.storage.files.metadata_files import (
    PRODUCER_SNAPSHOT_NAME,
    QUORUM_STATE,
    SEGMENT_NAME,
    find_quorum_state,
    has_metadata_log,
    metadata_folder,
)
from ottla.storage.log.leader_epochs import read_epoch_entries

SNAPSHOT_SUFFIX = ".checkpoint"

MEND = (
    "a node that has lost records must not vote: restore the directory from a copy of this node, "
    "or remove the node from the voters, format a new directory and let it join again"
)

FETCH_AGAIN = (
    f"move {CLUSTER_METADATA_DIRECTORY} and {METADATA_MARK} away, and the broker fetches all of it "
    "again"
)

LOST_STATE = "remove the file, and the node takes part again when it has heard all other voters"

MOVE_AWAY = "move it away: what the log has beside it is whole without it"


class QuorumFiles(NamedTuple):
    """The directory with a node's metadata log, and what its last use has left beside it.

    `written` is `None` if the system was started again since. `had_log` says that a note names a
    metadata log there, or that a node of a cluster was stopped cleanly.
    """

    file_system: FileSystem
    path: str
    was_clean_stop: bool
    written: WrittenEnds | None
    had_log: bool

    @property
    def folder(self) -> str:
        return metadata_folder(self.path)


class Judged(NamedTuple):
    """`election` is what `Quorum.start` takes, and `end` where the log ends. `was_used` says that
    the node may have voted, so that `quorum-state` must not be missing.
    """

    election: ElectionState | None
    end: int
    was_used: bool


def files_of_stopped(file_system: FileSystem, path: str) -> QuorumFiles:
    """Those of a directory that no node has open."""
    mark = join(path, CLEAN_SHUTDOWN)
    return QuorumFiles(
        file_system,
        path,
        was_clean_stop=read_clean_shutdown(file_system, mark) is not None,
        written=read_boot_note(file_system, path),
        had_log=had_metadata_log(file_system, path),
    )


def judge_files(files: QuorumFiles, *, is_controller: bool) -> Judged:
    """What the files say of elections, and the end of the log. Raises `CorruptionError`, and
    `OSError`.

    A broker that does not vote may begin without a log, and fetches all of it.
    """
    file_system, folder = files.file_system, files.folder
    has_mark = file_system.status(join(files.path, METADATA_MARK)) is not None
    if not has_metadata_log(file_system, files.path):
        if has_mark:
            reason = f"it is missing, though {METADATA_MARK} says that there was one"
            raise CorruptionError(folder, 0, reason)
        if is_controller and files.had_log:
            reason = "it is missing, though a node of a cluster has used the directory before"
            raise CorruptionError(folder, 0, reason)
        return Judged(ElectionState(), 0, False)
    snapshots = _snapshots(file_system, folder)
    segments = _segments(file_system, folder)
    found = find_quorum_state(file_system, files.path)
    if not snapshots and not segments and (found is not None or _written_end(files)):
        raise CorruptionError(folder, 0, "the log's segments are missing")
    epochs = _epochs(file_system, folder)
    end = check_log(snapshots, segments, epochs, may_be_torn=not files.was_clean_stop)
    _check_end(files, end.offset)
    has_records = end.offset > 0 or any(one.offset > 0 for one in snapshots)
    was_used = has_mark or has_records
    if found is None:
        return Judged(None if was_used else ElectionState(), end.offset, was_used)
    election = election_in(found)
    _check_epoch(join(folder, QUORUM_STATE), election, end)
    return Judged(election, end.offset, was_used)


def mend_of(error: CorruptionError, files: QuorumFiles, *, is_controller: bool) -> str:
    """What to do about what `judge_files` has found."""
    if error.path == join(files.folder, QUORUM_STATE):
        return LOST_STATE
    if _is_whole_without(error.path, files):
        return MOVE_AWAY
    return MEND if is_controller else FETCH_AGAIN


def _check_epoch(path: str, election: ElectionState, end: LogEnd) -> None:
    if election.epoch < end.epoch:
        reason = f"it says epoch {election.epoch}, and the log has records of epoch {end.epoch}"
        raise CorruptionError(path, 0, reason)


def _written_end(files: QuorumFiles) -> int:
    return 0 if files.written is None else files.written.of(CLUSTER_METADATA_DIRECTORY)


def _is_whole_without(path: str, files: QuorumFiles) -> bool:
    """Whether all that a damaged snapshot has is in the log, or an earlier snapshot and the log."""
    if not path.endswith(SNAPSHOT_SUFFIX):
        return False
    every = _snapshots(files.file_system, files.folder)
    others = [one for one in every if one.path != path]
    segments = _segments(files.file_system, files.folder)
    try:
        end = check_log(others, segments, (), may_be_torn=not files.was_clean_stop)
    except CorruptionError:
        return False
    return end.offset >= every[-1].offset


def _epochs(file_system: FileSystem, folder: str) -> Sequence[tuple[int, int]]:
    """Those of the checkpoint; opening the log rebuilds a lost or damaged one."""
    try:
        entries = read_epoch_entries(file_system, join(folder, LEADER_EPOCHS))
    except (FileNotFoundError, CorruptionError):
        return ()
    return [(one.epoch, one.start_offset) for one in entries]


def _check_end(files: QuorumFiles, end: int) -> None:
    """Raises `CorruptionError` for a log that ends before an end that is known."""
    file_system, folder = files.file_system, files.folder
    known_end = 0
    if files.was_clean_stop:
        # Kafka writes one at the end of a log that is closed, as Ottla does.
        matches = map(PRODUCER_SNAPSHOT_NAME.fullmatch, file_system.list(folder))
        known_end = max((int(one[1]) for one in matches if one), default=0)
    integrity = read_integrity(file_system, folder)
    if integrity is not None:
        known_end = max(known_end, _written_end(files))
    if integrity is not None and (files.was_clean_stop or files.written is not None):
        starts = [one.offset for one in _segments(file_system, folder, is_read=False)]
        known_end = max(known_end, integrity.end_of_missing(starts))
    if end < known_end:
        raise CorruptionError(folder, 0, f"the log ends at offset {end}, and had {known_end}")


def _snapshots(file_system: FileSystem, folder: str) -> list[MetadataFile]:
    found = []
    for one in find_snapshots(file_system, folder):
        path = join(folder, snapshot_name(one))
        content = read_file(file_system, path)
        found.append(
            MetadataFile(path=path, content=content, offset=one.end_offset, epoch=one.epoch)
        )
    return found


def _segments(file_system: FileSystem, folder: str, *, is_read: bool = True) -> list[MetadataFile]:
    found = []
    for name in sorted(file_system.list(folder)):
        if match := SEGMENT_NAME.fullmatch(name):
            path = join(folder, name)
            content = read_file(file_system, path) if is_read else b""
            found.append(MetadataFile(path=path, content=content, offset=int(match[1])))
    return found
