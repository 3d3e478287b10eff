"""Detects a partition's directory that has the name of another partition.

The integrity file names the partition. If it is lost, or Kafka has removed it, the topic id in
`partition.metadata` may be that of another topic in the topic file. The broker's start uses the
same facts (`startup_plan`). Kafka has no counterpart.

Format pages: docs/format/ottla-integrity.md, docs/format/partition-metadata.md.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import INTEGRITY, PARTITION_METADATA
from ottla.storage.files.integrity import written_integrity
from ottla.storage.files.known_topics import KnownTopics
from ottla.storage.files.partition_metadata import read_topic_id


def check_owner(
    file_system: FileSystem, directory: str, key: TopicPartition, topics: KnownTopics
) -> None:
    """Raises `CorruptionError` for a directory that has the name of another partition."""
    known = written_integrity(file_system, directory)
    if known is not None and known.partition is not None:
        if known.partition != key:
            reason = f"this is the log of {known.partition}; rename the directory to that"
            raise CorruptionError(join(directory, INTEGRITY), 0, reason)
        return
    path = join(directory, PARTITION_METADATA)
    try:
        topic_id = read_topic_id(file_system, path)
    except (CorruptionError, NotADirectoryError):
        return  # no topic id; code that needs it reports the error
    owner = None if topic_id is None else topics.owner(topic_id, key.topic)
    if owner not in (None, key.topic):
        reason = f"this is the id of topic {owner}; rename the directory accordingly"
        raise CorruptionError(path, 0, reason)
