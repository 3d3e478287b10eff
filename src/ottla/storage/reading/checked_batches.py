"""Stored batches to decode in this process: each is checked first, as a client does.

A fetch hands batches on as they are, for the consumer to check; where this process is the consumer,
it checks. Kafka's counterpart: `CompletedFetch.maybeEnsureValid` (`check.crcs`).
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice, parent_directory
from ottla.record.batch import Batch
from ottla.storage import scan


def checked_batches(found: FileSlice, data: bytes) -> Iterator[Batch]:
    """The whole batches of what a read has found, and read; raises `CorruptionError`."""
    checks, start = (scan.checksum,), found.position
    try:
        for _, batch in scan.batches(
            data, found.file.path, start, checks=checks, allow_torn_tail=True
        ):
            yield batch
    except CorruptionError as error:
        raise _damaged(error.path, error.position, error.reason) from error


def damage_in(found: FileSlice, reason: str) -> CorruptionError:
    """What to raise for records of `checked_batches` that cannot be read."""
    return _damaged(found.file.path, found.position, reason)


def _damaged(path: str, position: int, reason: str) -> CorruptionError:
    return CorruptionError(path, position, f"{reason}; {repair_hint(parent_directory(path))}")


def repair_hint(partition: str) -> str:
    """The commands that help a partition's directory, whose log this process has open."""
    directory = parent_directory(partition)
    return (
        f"`ottla log check {directory}` and `ottla log repair {directory}` help once it is closed"
    )
