"""Checks the CRC of stored batches that this process decodes.

A fetch response carries batches unchecked, and the consumer checks them. Code that decodes batches
in this process is the consumer. Kafka's counterpart: `CompletedFetch.maybeEnsureValid`
(`check.crcs`).
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice, parent_directory
from ottla.record.batch import Batch
from ottla.storage import scan


def checked_batches(found: FileSlice, data: bytes) -> Iterator[Batch]:
    """The complete batches of `data`, the bytes of the slice `found`; raises `CorruptionError`."""
    checks, start = (scan.checksum,), found.position
    try:
        for _, batch in scan.batches(
            data, found.file.path, start, checks=checks, allow_torn_tail=True
        ):
            yield batch
    except CorruptionError as error:
        raise _damaged(error.path, error.position, error.reason) from error


def damage_in(found: FileSlice, reason: str) -> CorruptionError:
    """The error for a batch of a slice whose records cannot be decoded."""
    return _damaged(found.file.path, found.position, reason)


def _damaged(path: str, position: int, reason: str) -> CorruptionError:
    return CorruptionError(path, position, f"{reason}; {repair_hint(parent_directory(path))}")


def repair_hint(partition: str) -> str:
    """The repair commands for a partition's directory whose log this process has open."""
    directory = parent_directory(partition)
    return (
        f"`ottla log check {directory}` and `ottla log repair {directory}` help once it is closed"
    )
