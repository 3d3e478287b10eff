"""The places of records that were deleted on purpose, as files of `FileRole.FORGOTTEN` name them.

Format page: docs/format/table-ledger.md.
"""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.tables.entries import DataFile, FileRole, by_partition, of_role
from ottla.tables.files.data_files import DataFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Offsets = np.ndarray[Any, Any]


def forgotten_columns() -> "pa.Schema":
    """The columns of the files: the place, whether it had a row, and the commit that deleted it."""
    import pyarrow as pa

    return pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("is_row", pa.bool_()),
            ("commit_id", pa.int64()),
        ]
    )


class ForgottenPlaces:
    """Offsets by partition, in order; they are read when they are asked for."""

    def __init__(self, files: DataFiles, parts: Iterable[DataFile]) -> None:
        self._files = files
        self._parts = by_partition(of_role(parts, FileRole.FORGOTTEN))
        self._found = cache(self._read)

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(self._parts)

    def offsets(self, partition: int) -> "Offsets":
        """All offsets."""
        import numpy as np

        return np.unique(np.concatenate(self._found(partition)))

    def count(self, partition: int, wanted: OffsetRange) -> int:
        """How many places there are in a range."""
        return _count(self.offsets(partition), wanted)

    def count_in_quarantine(self, partition: int, wanted: OffsetRange) -> int:
        """How many of them were in quarantine."""
        return _count(self.of_quarantine(partition), wanted)

    def of_rows(self, partition: int) -> "Offsets":
        """Those that had a row."""
        return self._found(partition)[0]

    def of_quarantine(self, partition: int) -> "Offsets":
        """Those that were in quarantine."""
        return self._found(partition)[1]

    def _read(self, partition: int) -> "tuple[Offsets, Offsets]":
        import numpy as np

        offsets, are_rows = [np.empty(0, np.int64)], [np.empty(0, bool)]
        for part in self._parts.get(partition, ()):
            found = self._files.rows(part, ["offset", "is_row"])
            offsets.append(found["offset"].to_numpy())
            are_rows.append(found["is_row"].to_numpy())
        places, mask = np.concatenate(offsets), np.concatenate(are_rows)
        # A row that another program brought back may have been deleted a second time.
        return np.unique(places[mask]), np.unique(places[~mask])


def _count(offsets: "Offsets", wanted: OffsetRange) -> int:
    first, last = offsets.searchsorted([wanted.from_offset, wanted.until_offset])
    return int(last - first)
