"""Replaces segments by the `.cleaned` files that were made from them.

The order of steps allows a crash at any point. All `.cleaned` files are renamed to `.swap`, the
last first, and the renames are synced. Then the old files are renamed to `.deleted`, and the
`.swap` files lose their suffix. If a crash leaves a `.cleaned` file, recovery discards the `.swap`
files from its offset on; if it leaves only `.swap` files, recovery finishes the replacement.
Kafka's counterpart: `LocalLog.replaceSegments`.
"""

from collections.abc import Iterable, Sequence

from ottla.base.files import FileSystem, join, remove_if_present
from ottla.storage.compaction.compaction import CleanedGroup
from ottla.storage.files.filenames import (
    SEGMENT_KINDS,
    FileKind,
    FileName,
    FileSuffix,
    segment_file_names,
)
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.partition_log import PartitionLog


def fits(log: PartitionLog, groups: Sequence[CleanedGroup]) -> bool:
    """Whether the source segments of a pass are still in the log, and inactive."""
    sealed = {one.base_offset for one in log.segments.values[:-1]}
    return all(sealed.issuperset(group.replaced) for group in groups)


def replace_segments(
    log: PartitionLog, groups: Sequence[CleanedGroup], file_system: FileSystem, now_ms: int
) -> list[DeletedSegment]:
    """Carries out the replacement; returns the removed segments, which reads may still use.

    Raises `StorageError`; the next start then finishes or undoes the replacement.
    """
    if not groups:
        return []  # every segment is damaged, and stays as it is
    assert fits(log, groups)
    renaming = _Renaming(file_system, log.directory)
    old = {base_offset for group in groups for base_offset in group.replaced}
    new = {base_offset for group in groups for base_offset in group.cleaned}
    with log.health.guarding(changes_files=True):
        log.maintenance.leave_gaps_below(old | new, sorted(new))
        for group in reversed(groups):
            for base_offset in reversed(group.cleaned):
                renaming.rename(base_offset, FileSuffix.CLEANED, FileSuffix.SWAP)
                if len(group.cleaned) > 1:
                    # After each rename, so that a crash never keeps an earlier segment of a group
                    # without a later one. Groups are independent.
                    log.sync_directory()
        log.sync_directory()
        deleted = log.maintenance.retire(old, by=new)
        for base_offset in sorted(new):
            renaming.rename(base_offset, FileSuffix.SWAP, FileSuffix.LIVE)
            log.maintenance.adopt(base_offset, now_ms)
        log.sync_directory()
    return deleted


def remove_cleaned(file_system: FileSystem, directory: str, groups: Iterable[CleanedGroup]) -> None:
    """Removes the `.cleaned` files of a pass."""
    names = set(file_system.list(directory))
    for group in groups:
        for base_offset in group.cleaned:
            for name in segment_file_names(base_offset, FileSuffix.CLEANED):
                if name in names:
                    file_system.remove(join(directory, name))


def remove_all_cleaned(file_system: FileSystem, directory: str) -> None:
    """Removes the `.cleaned` files of a pass that could not remove them itself."""
    if file_system.status(directory) is None:
        return
    for name in file_system.list(directory):
        if name.endswith(FileSuffix.CLEANED.value):
            remove_if_present(file_system, join(directory, name))


class _Renaming:
    """Renames all files of a segment from one suffix to another."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory

    def rename(self, base_offset: int, before: FileSuffix, after: FileSuffix) -> None:
        for kind in SEGMENT_KINDS:
            source = self._path(base_offset, kind, before)
            if self._file_system.status(source) is not None:
                self._file_system.rename(source, self._path(base_offset, kind, after))

    def _path(self, base_offset: int, kind: FileKind, suffix: FileSuffix) -> str:
        return join(self._directory, FileName(offset=base_offset, kind=kind, suffix=suffix).text)
