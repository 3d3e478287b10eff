"""Detects a partition's directory that has the name of another partition.

The integrity file names the partition. If it is lost, or Kafka has removed it, the topic id in
`partition.metadata` may be that of another topic in the topic file. The broker's start
(`startup_plan`), readers and checks ask `wrong_owner`. Kafka has no counterpart.

Format pages: docs/format/ottla-integrity.md, docs/format/partition-metadata.md.
"""

from contextlib import suppress

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import INTEGRITY, PARTITION_METADATA
from ottla.storage.files.integrity import Integrity
from ottla.storage.files.known_topics import KnownTopics
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding, FindingKind


def wrong_owner(
    directory: str,
    key: TopicPartition,
    topics: KnownTopics,
    *,
    home: TopicPartition | None,
    topic_id: Uuid | None,
) -> Finding | None:
    """The finding about a directory that has the name of another partition.

    `home` is the partition by the integrity file, `topic_id` the id of its topic; `None` if
    unknown.
    """
    if home is not None and home != key:
        topic, partition = home
        file, reason = INTEGRITY, f"this is the log of {topic}-{partition}"
        mend = f"rename the directory to that, or remove this file if it is to be {key}"
    else:
        owner = None if topic_id is None else topics.owner(topic_id, key.topic)
        if owner in (None, key.topic):
            return None
        file, reason = PARTITION_METADATA, f"this is the id of topic {owner}"
        mend = "rename the directory accordingly, or move it away"
    return Finding(
        kind=FindingKind.WRONG_FILE,
        path=join(directory, file),
        position=None,
        reason=f"{reason}; {mend}",
    )


def owner_finding(
    file_system: FileSystem,
    directory: str,
    key: TopicPartition,
    topics: KnownTopics,
    known: Integrity | None,
) -> Finding | None:
    """As `wrong_owner`, by the files in the directory; `known` is the `integrity_header`."""
    home, topic_id = (None, None) if known is None else (known.partition, known.topic_id)
    if home is None:
        # Without a topic id the code that needs one reports the error.
        with suppress(CorruptionError, NotADirectoryError):
            topic_id = read_topic_id(file_system, join(directory, PARTITION_METADATA))
    return wrong_owner(directory, key, topics, home=home, topic_id=topic_id)
