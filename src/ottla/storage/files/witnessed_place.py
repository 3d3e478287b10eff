"""Which partition a directory is, and where its log starts, for readers who change nothing.

Both stand in files of Ottla's own that have a checksum, and count for as long as a log's witness is
there: Kafka removes that when it loads the log. Format page: docs/format/ottla-witness.md.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checkpoints import parse_offsets
from ottla.storage.files.checksummed import read_checksummed
from ottla.storage.files.filenames import WITNESS, WITNESSED_LOG_STARTS, partition_directory_name
from ottla.storage.files.witness import Witness, read_witness


def check_home(file_system: FileSystem, directory: str, key: TopicPartition) -> None:
    """Raises `CorruptionError` for a directory that has the name of another partition."""
    witness = _witness(file_system, directory)
    if witness is None or witness.partition in (None, key):
        return
    topic, partition = witness.partition
    reason = f"this is the log of {topic}-{partition}; give the directory that name again"
    raise CorruptionError(join(directory, WITNESS), 0, reason)


def copied_start(file_system: FileSystem, directory: str, key: TopicPartition) -> int | None:
    """The start by the copy of a log directory's checkpoint; `None` if it does not count."""
    if _witness(file_system, join(directory, partition_directory_name(*key))) is None:
        return None
    copy = read_checksummed(file_system, join(directory, WITNESSED_LOG_STARTS), parse_offsets)
    return None if copy is None else copy.get(key, 0)


def _witness(file_system: FileSystem, directory: str) -> Witness | None:
    try:
        return read_witness(file_system, directory)
    except NotADirectoryError:
        return None  # what stands there instead is named by whoever lists it
