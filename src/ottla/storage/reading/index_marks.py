"""Places along a segment's log file that its offset index knows, so that bytes can be shared out.

Format page: docs/format/offset-index.md. Only read, of a log that a broker may be writing: an index
that is missing or damaged has no marks, and the caller shares out by offsets instead. Kafka has no
counterpart.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage.files.filenames import FileKind
from ottla.storage.files.partition_files import SegmentFiles
from ottla.storage.index.offset_index import OffsetIndex


def index_marks(
    file_system: FileSystem, segment: SegmentFiles, count: int
) -> list[tuple[int, int]]:
    """Up to `count` offsets with the positions of their batches, ascending, about evenly apart."""
    index = OffsetIndex(
        file_system,
        segment.path_of(FileKind.OFFSET_INDEX),
        base_offset=segment.base_offset,
        writable=False,
    )
    try:
        index.sanity_check()
        wanted = min(count, index.entry_count)
        return _ascending(
            [index.entry(index.entry_count * number // wanted) for number in range(wanted)],
            segment.size,
        )
    except (FileNotFoundError, CorruptionError):
        return []
    finally:
        index.abandon()


def _ascending(marks: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """What of them can be: a damaged page may hold anything."""
    kept: list[tuple[int, int]] = []
    for offset, position in marks:
        if position < size and (not kept or (offset > kept[-1][0] and position > kept[-1][1])):
            kept.append((offset, position))
    return kept
