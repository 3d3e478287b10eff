"""Records whose values cannot be decoded: set aside, with the reason, by the task that found them.

A task writes what it sets aside into one Parquet file of its own, named by the split, in the
directory of its load: tried again, it writes the same file again. As with all data files, nothing
there counts before the manifest names it. Kafka Connect's dead letter queue is a topic instead.
"""

import os
from enum import Enum
from typing import Any

QUARANTINE_DIRECTORY = "quarantine"


class OnError(Enum):
    """What happens to a record whose value cannot be decoded."""

    FAIL = "fail"
    """The load stops, and the table stays as it was."""
    QUARANTINE = "quarantine"
    """The record is kept beside the table, bytes and all."""
    SKIP = "skip"
    """Its place and the reason are kept, so that every offset is accounted for; the bytes not."""


class QuarantineFile:
    """One task's file; made on the first record, and in place when it is whole."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, f"part-{name}.parquet")
        self._open_path = os.path.join(directory, f".part-{name}-{os.getpid()}.parquet")
        self._writer: Any = None

    def write(self, rows: Any) -> None:
        """Adds a record batch."""
        import pyarrow.parquet as pq

        if self._writer is None:
            os.makedirs(self._directory, exist_ok=True)
            self._writer = pq.ParquetWriter(self._open_path, rows.schema, compression="zstd")
        self._writer.write_batch(rows)

    def close(self) -> None:
        """Puts the file into its place, if there is anything in it."""
        if self._writer is not None:
            self._writer.close()
            os.replace(self._open_path, self._path)
