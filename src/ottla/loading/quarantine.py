"""Records whose values cannot be decoded: set aside, with the reason, by the task that found them.

A task writes what it sets aside into one Parquet file of its own, in the directory of its load. As
with all data files, nothing there counts before the manifest names it. Kafka Connect's dead letter
queue is a topic instead.
"""

from enum import Enum

QUARANTINE_DIRECTORY = "quarantine"


class OnError(Enum):
    """What happens to a record whose value cannot be decoded."""

    FAIL = "fail"
    """The load stops, and the table stays as it was."""
    QUARANTINE = "quarantine"
    """The record is kept beside the table, bytes and all."""
    SKIP = "skip"
    """Its place and the reason are kept, so that every offset is accounted for; the bytes not."""
