"""Which rows a rerun replaces, and which it leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.entries import DataFile, by_partition
from ottla.tables.files.data_files import DataFiles

if TYPE_CHECKING:
    import numpy as np

    Offsets = np.ndarray[Any, Any]

_NOTHING = OffsetRange(from_offset=0, until_offset=0)
_CACHED_FILES = 16
"""The written files whose offsets stay in memory, as neighbouring rows need the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """The rows at the offsets of ranges, by partition; with `written` those alone of which a rerun
    has written a row, a change or a quarantined record to these files, as the log may lack records
    of which the table has rows.
    """

    ranges: Mapping[int, OffsetRange] = field(default_factory=dict)
    written: Sequence[DataFile] | None = None

    def range_of(self, partition: int) -> OffsetRange:
        return self.ranges.get(partition, _NOTHING)

    def has_all(self, part: DataFile) -> bool:
        """Whether all rows of a file's part are replaced, whichever offsets they have."""
        wanted = self.range_of(part.partition)
        is_within = (
            wanted.from_offset <= part.first_offset and part.last_offset < wanted.until_offset
        )
        return is_within and self._is_complete(part.partition)

    def _is_complete(self, partition: int) -> bool:
        if self.written is None:
            return True
        count = sum(part.row_count for part in self.written if part.partition == partition)
        return count == self.range_of(partition).count


class OtherRows:
    """Finds the rows that are not replaced."""

    def __init__(self, files: DataFiles, again: ReadAgain) -> None:
        self._again = again
        self._parts = by_partition(again.written or ())
        self._offsets = lru_cache(_CACHED_FILES)(
            lambda partition, index: files.offsets(self._parts[partition][index])
        )

    def mask(self, partition: int, offsets: "Offsets") -> "Offsets":
        """Of rows at these offsets, those that stay."""
        import numpy as np

        wanted = self._again.range_of(partition)
        found = (offsets < wanted.from_offset) | (offsets >= wanted.until_offset)
        if self._again.written is None or found.all():
            return np.asarray(found, bool)
        is_written = np.zeros(len(offsets), bool)
        for index, part in enumerate(self._parts.get(partition, ())):
            if part.first_offset <= offsets.max() and offsets.min() <= part.last_offset:
                is_written |= np.isin(offsets, self._offsets(partition, index))
        return np.asarray(found | ~is_written, bool)
