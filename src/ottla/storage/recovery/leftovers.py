"""Phase 1: finishes or undoes an interrupted deletion, compaction or split.

`.deleted` and `.cleaned` files are removed, and so are the `.swap` files of unfinished work. Other
`.swap` files replace the segments that they were made from, if they are sound (`segment/swaps.py`);
otherwise they are set aside, and the old segments are kept. Kafka's counterparts: in `LogLoader`,
`removeTempFilesAndCollectSwapFiles` and the swaps of `load`, which trust every swap.
"""

import logging
from collections.abc import Iterable, Sequence

from ottla.base.files import FileSystem, join, remove_if_present
from ottla.storage.files.filenames import (
    SET_ASIDE,
    FileKind,
    FileName,
    FileSuffix,
    log_file_name,
    parse_file_names,
    segment_file_names,
)
from ottla.storage.files.integrity import Integrity
from ottla.storage.segment.swaps import SwapGroup, judge_swaps, swap_groups

logger = logging.getLogger(__name__)


def finish_leftovers(
    file_system: FileSystem, directory: str, integrity: Integrity | None = None
) -> None:
    remove_unfinished(file_system, directory)
    leftovers = _Leftovers(file_system, directory, integrity)
    leftovers.finish_swaps()
    leftovers.remove_deleted()


def remove_unfinished(file_system: FileSystem, directory: str) -> None:
    """Removes `.cleaned` files, and the `.swap` files of unfinished work (KAFKA-6264)."""
    kinds = FileSuffix.CLEANED, FileSuffix.SWAP
    listed = parse_file_names(file_system.list(directory), suffixes=kinds)
    cleaned = [one for one in listed if one.suffix is FileSuffix.CLEANED]
    least = min((one.offset for one in cleaned), default=None)
    swaps = [one for one in listed if one.suffix is FileSuffix.SWAP]
    unfinished = [one for one in swaps if least is not None and one.offset >= least]
    # A `.cleaned` file marks later `.swap` files as unfinished, so it is removed after them.
    for one in (*unfinished, *cleaned):
        remove_if_present(file_system, join(directory, one.text))


def finish_split(file_system: FileSystem, directory: str, base_offsets: Sequence[int]) -> None:
    """Puts the pieces of a split in place, which this process has just written."""
    names = [FileName(offset=one, kind=FileKind.LOG, suffix=SWAP) for one in base_offsets]
    leftovers = _Leftovers(file_system, directory, None)
    leftovers.replace(SwapGroup(logs=tuple(names)), [base_offsets[0]])
    leftovers.remove_deleted()


SWAP, LIVE, DELETED = FileSuffix.SWAP, FileSuffix.LIVE, FileSuffix.DELETED


class _Leftovers:
    """The swaps and the deleted files of one directory."""

    def __init__(
        self, file_system: FileSystem, directory: str, integrity: Integrity | None
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._integrity = integrity

    def finish_swaps(self) -> None:
        names = self._file_system.list(self._directory)
        if not parse_file_names(names, suffixes=[SWAP]):
            return
        for group in swap_groups(parse_file_names(names, kinds=[FileKind.LOG])):
            live = self._offsets(LIVE)
            found = judge_swaps(self._file_system, self._directory, group, live, self._integrity)
            if found.fault is None:
                self.replace(group, [one for one in live if found.replaces(group, one)])
                continue
            logger.error(
                "%s; it replaces no segment, and is set aside as *%s",
                found.fault.text,
                SET_ASIDE,
            )
            self._restore(group)
            for one in group.logs:
                self._set_aside(one.offset)
        self._finish_indexes()
        self._file_system.sync_directory(self._directory)

    def replace(self, group: SwapGroup, replaced: Iterable[int]) -> None:
        """Replaces live segments by swaps, which are marked as deleted until then."""
        for base_offset in replaced:
            self._rename_all(base_offset, LIVE, DELETED)
        for one in group.logs:
            self._rename_all(one.offset, SWAP, LIVE)
        self._file_system.sync_directory(self._directory)

    def remove_deleted(self) -> None:
        names = self._file_system.list(self._directory)
        for one in parse_file_names(names, suffixes=[DELETED]):
            remove_if_present(self._file_system, join(self._directory, one.text))

    def _restore(self, group: SwapGroup) -> None:
        """Puts old segments back that were marked as deleted, but not replaced."""
        following = min((one for one in self._offsets(LIVE) if one > group.first), default=None)
        for base_offset in self._offsets(DELETED):
            is_of_group = base_offset >= group.first
            if is_of_group and (following is None or base_offset < following):
                path = join(self._directory, log_file_name(base_offset))
                if self._file_system.status(path) is None:
                    logger.warning("%s was marked as deleted, and is put back", path)
                    self._rename_all(base_offset, DELETED, LIVE)

    def _finish_indexes(self) -> None:
        """Places the swaps of indexes whose log was placed before a crash."""
        names = self._file_system.list(self._directory)
        for one in parse_file_names(names, suffixes=[SWAP]):
            live = FileName(offset=one.offset, kind=one.kind).text
            path = join(self._directory, one.text)
            status = self._file_system.status(join(self._directory, live))
            if status is None:
                self._file_system.rename(path, join(self._directory, live))
            else:
                logger.error("%s replaces no file, and is set aside as *%s", path, SET_ASIDE)
                self._set_aside(one.offset)

    def _set_aside(self, base_offset: int) -> None:
        for name in segment_file_names(base_offset, SWAP):
            path = join(self._directory, name)
            if self._file_system.status(path) is not None:
                self._file_system.rename(path, path + SET_ASIDE)

    def _rename_all(self, base_offset: int, before: FileSuffix, after: FileSuffix) -> None:
        """Renames the files of a segment; its log last, by which it is found again."""
        olds = segment_file_names(base_offset, before)
        for old, new in zip(olds, segment_file_names(base_offset, after), strict=True):
            path = join(self._directory, old)
            if self._file_system.status(path) is not None:
                self._file_system.rename(path, join(self._directory, new))

    def _offsets(self, suffix: FileSuffix) -> list[int]:
        names = self._file_system.list(self._directory)
        logs = parse_file_names(names, kinds=[FileKind.LOG], suffixes=[suffix])
        return [one.offset for one in logs]
