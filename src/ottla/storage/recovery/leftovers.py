"""Phase 1: finishes or undoes an interrupted deletion, compaction or split.

`.deleted` and `.cleaned` files are removed, and so are the `.swap` files of unfinished work. Other
`.swap` files replace the segments that they were made from. Kafka's counterparts: in `LogLoader`,
`removeTempFilesAndCollectSwapFiles` and the swaps of `load`.
"""

from ottla.base.files import FileSystem, join, remove_if_present
from ottla.storage import scan
from ottla.storage.files.filenames import FileKind, FileName, FileSuffix, parse_file_name
from ottla.storage.files.log_file import LogFile


def finish_leftovers(file_system: FileSystem, directory: str) -> None:
    finish_swaps(file_system, directory, clean_temporary_files(file_system, directory))


def clean_temporary_files(file_system: FileSystem, directory: str) -> list[FileName]:
    """Removes temporary files; returns the `.swap` files of finished work (KAFKA-6264)."""
    listed = listed_files(file_system, directory)
    cleaned = [one for one in listed if one.suffix is FileSuffix.CLEANED]
    swaps = [one for one in listed if one.suffix is FileSuffix.SWAP]
    least_cleaned = min((one.offset for one in cleaned), default=None)
    unfinished = [one for one in swaps if least_cleaned is not None and one.offset >= least_cleaned]
    deleted = [one for one in listed if one.suffix is FileSuffix.DELETED]
    # A `.cleaned` file marks later `.swap` files as unfinished, so it is removed after them.
    for one in (*deleted, *unfinished, *cleaned):
        remove_if_present(file_system, join(directory, one.text))
    return [one for one in swaps if one not in unfinished]


def finish_swaps(file_system: FileSystem, directory: str, swaps: list[FileName]) -> None:
    """Replaces live segments by the `.swap` files of finished work, durably."""
    logs = [one for one in swaps if one.kind is FileKind.LOG]
    if logs:
        first = min(one.offset for one in logs)
        end = max(_next_offset_of(file_system, directory, one) for one in logs)
        for one in listed_files(file_system, directory):
            is_replaced = one.suffix is FileSuffix.LIVE and first <= one.offset < end
            if is_replaced and one.kind is not FileKind.PRODUCER_SNAPSHOT:
                remove_if_present(file_system, join(directory, one.text))
    for one in swaps:
        live = FileName(offset=one.offset, kind=one.kind).text
        file_system.rename(join(directory, one.text), join(directory, live))
    if swaps:
        file_system.sync_directory(directory)


def _next_offset_of(file_system: FileSystem, directory: str, swap: FileName) -> int:
    log = LogFile.open(file_system, join(directory, swap.text))
    try:
        next_offset = swap.offset
        for _, header in scan.headers(log):
            next_offset = header.last_offset + 1
        return next_offset
    finally:
        log.close()


def listed_files(file_system: FileSystem, directory: str) -> list[FileName]:
    parsed = map(parse_file_name, file_system.list(directory))
    return [name for name in parsed if name is not None]
