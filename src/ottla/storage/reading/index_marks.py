"""Evenly spaced entries of a segment's offset index, at which a read is split by bytes.

Format page: docs/format/offset-index.md. A broker may be writing the log meanwhile. For a missing
or damaged index the result is empty, and the caller splits by offsets instead. Kafka has no
counterpart.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage.files.filenames import FileKind
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.segment.partition_files import SegmentFiles


def index_marks(
    file_system: FileSystem, segment: SegmentFiles, count: int
) -> list[tuple[int, int]]:
    """Up to `count` pairs (offset, position of its batch), ascending and about evenly spaced."""
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
    """Drops marks that are out of order or after `size`, which only a damaged index holds."""
    kept: list[tuple[int, int]] = []
    for offset, position in marks:
        if position < size and (not kept or (offset > kept[-1][0] and position > kept[-1][1])):
            kept.append((offset, position))
    return kept
