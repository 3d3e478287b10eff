"""Finds the metadata log of a KRaft cluster in a log directory, and reads it; never writes it.

Format page: docs/format/cluster-metadata.md. Kafka's counterpart: `KafkaMetadataLog`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file
from ottla.base.patterns import lazy_pattern
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
)

if TYPE_CHECKING:  # Lazy: most brokers have no metadata log, and need not load its reader.
    from ottla.metadata.image import MetadataImage
    from ottla.metadata.log_files import MetadataFile

SNAPSHOT_NAME = lazy_pattern(r"(\d{20})-(\d{10})\.checkpoint")
SEGMENT_NAME = lazy_pattern(r"(\d{20})\.log")
PRODUCER_SNAPSHOT_NAME = lazy_pattern(r"(\d{20})\.snapshot")

FileSizes = Mapping[str, int]
"""Names and sizes of the log's files; they change when Kafka writes to the log."""


def metadata_file_sizes(file_system: FileSystem, directory: str) -> dict[str, int] | None:
    """Returns the metadata log's segments and snapshots; `None` without such a log."""
    folder = join(directory, CLUSTER_METADATA_DIRECTORY)
    status = file_system.status(folder)
    if status is None or not status.is_directory:
        return None
    sizes = {}
    for name in sorted(file_system.list(folder)):
        if SNAPSHOT_NAME.fullmatch(name) or SEGMENT_NAME.fullmatch(name):
            file_status = file_system.status(join(folder, name))
            if file_status is not None and not file_status.is_directory:
                sizes[name] = file_status.size
    return sizes


def read_metadata_log(file_system: FileSystem, directory: str, names: FileSizes) -> "MetadataImage":
    """Returns the image at the log's end; raises `OSError`, or `CorruptionError` with the file."""
    from ottla.metadata.log_files import read_image

    folder = join(directory, CLUSTER_METADATA_DIRECTORY)
    was_clean = read_clean_shutdown(file_system, join(directory, CLEAN_SHUTDOWN)) is not None
    matches = [match for name in names if (match := SNAPSHOT_NAME.fullmatch(name))]
    newest = max(matches, key=lambda match: match[1], default=None)
    snapshot = None
    if newest is not None:
        snapshot = _file(file_system, folder, newest[0], int(newest[1]), int(newest[2]))
    segments = [
        _file(file_system, folder, name, int(match[1]))
        for name in sorted(names)
        if (match := SEGMENT_NAME.fullmatch(name))
    ]
    is_unused = snapshot is None and not any(segment.content for segment in segments)
    if is_unused and file_system.status(join(directory, BOOTSTRAP_CHECKPOINT)) is not None:
        # Formatted and never started: only the bootstrap records exist.
        snapshot = _file(file_system, directory, BOOTSTRAP_CHECKPOINT, 0)
    image = read_image(snapshot, segments, may_be_torn=not was_clean)
    _check_end(file_system, folder, image)
    return image


def _file(
    file_system: FileSystem, folder: str, name: str, offset: int, epoch: int = 0
) -> "MetadataFile":
    from ottla.metadata.log_files import MetadataFile

    path = join(folder, name)
    return MetadataFile(path=path, content=read_file(file_system, path), offset=offset, epoch=epoch)


def _check_end(file_system: FileSystem, folder: str, image: "MetadataImage") -> None:
    """Raises `CorruptionError` for a log that ends before a producer snapshot of it.

    Kafka writes a producer snapshot at the log's end for each new segment and at a clean shutdown.
    A log that ends before one has lost whole batches, which a crash does not explain.
    """
    names = map(PRODUCER_SNAPSHOT_NAME.fullmatch, file_system.list(folder))
    known_end = max((int(match[1]) for match in names if match), default=0)
    if image.end_offset < known_end:
        raise CorruptionError(
            folder, 0, f"the log ends at offset {image.end_offset}, and had {known_end}"
        )
