"""The names of everything in a log directory, each with its inverse.

Format: docs/format/filenames.md.

A crash can leave names with `.cleaned`, `.swap` or `.deleted` behind; recovery finishes or undoes
what they stand for. Kafka's counterparts: `LogFileUtils`, `UnifiedLog.parseTopicPartitionName`,
`Topic.validate`.
"""

import re
from enum import Enum
from functools import lru_cache

from ottla.base.values import dataclass

CHECKPOINT_RECOVERY_POINT = "recovery-point-offset-checkpoint"
CHECKPOINT_LOG_START = "log-start-offset-checkpoint"
CHECKPOINT_HIGH_WATERMARK = "replication-offset-checkpoint"
CHECKPOINT_CLEANER = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
LOCK = ".lock"
OWNER = "ottla-owner"
SNAPSHOT_NOTE = "ottla-snapshot"
REPLICAS_MARK = "ottla-replicas"
"""Other brokers have a part in what of the logs is committed."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
INTEGRITY = "09223372036854775807.ottla-integrity.index"
"""To Kafka an index whose log is gone: Kafka removes it whenever it loads a log (`integrity`)."""
CLUSTER_METADATA = "__cluster_metadata"
"""The name of the metadata log of a KRaft cluster: never a topic that is served or written here."""
CLUSTER_METADATA_DIRECTORY = CLUSTER_METADATA + "-0"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
COPIED_LOG_STARTS = "ottla-log-starts"
COPIED_META_PROPERTIES = "ottla-meta-properties"
MARKS = {
    "ottla-cluster.json": "ottla-cluster.written",
    "ottla-security.json": "ottla-security.written",
    "ottla-adoption.json": "ottla-adoption.written",
    "ottla-producer-ids": "ottla-producer-ids.written",
}
"""Files of Ottla's own that only some directories have, and what says that a directory has it."""

NAMES_KNOWN = 4096
"""Files of thousands of partitions are listed again and again, and many have the same names."""

MAX_NAME_SIZE = 255
"""What common file systems take as one name; Kafka cuts topics in `-delete` names to fit."""

MAX_OFFSET = (1 << 63) - 1
MAX_PARTITION = (1 << 31) - 1


class FileKind(Enum):
    """The files of a segment; the value is the extension."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"


SEGMENT_KINDS = (
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
    FileKind.LOG,
)
"""What a segment's files are, the log last."""


class FileSuffix(Enum):
    """What is happening to a file; the value stands after the extension."""

    LIVE = ""
    DELETED = ".deleted"
    """Out of the log; removed after `file.delete.delay.ms`."""
    CLEANED = ".cleaned"
    """Compaction is still writing it."""
    SWAP = ".swap"
    """Compaction has finished it; it is about to replace the segments it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """A file of a segment. For a producer snapshot `offset` is where the log ended, not a base."""

    offset: int
    kind: FileKind
    suffix: FileSuffix = FileSuffix.LIVE

    @property
    def text(self) -> str:
        assert 0 <= self.offset <= MAX_OFFSET
        return f"{self.offset:020d}{self.kind.value}{self.suffix.value}"


def log_file_name(base_offset: int) -> str:
    return FileName(offset=base_offset, kind=FileKind.LOG).text


def segment_file_names(base_offset: int, suffix: FileSuffix) -> list[str]:
    """All that a segment may have, the log last."""
    return [FileName(offset=base_offset, kind=kind, suffix=suffix).text for kind in SEGMENT_KINDS]


def transaction_index_file_name(base_offset: int) -> str:
    return FileName(offset=base_offset, kind=FileKind.TRANSACTION_INDEX).text


def producer_snapshot_file_name(offset: int) -> str:
    return FileName(offset=offset, kind=FileKind.PRODUCER_SNAPSHOT).text


_FILE = re.compile(
    r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(|\.deleted|\.cleaned|\.swap)"
)


@lru_cache(NAMES_KNOWN)
def parse_file_name(name: str) -> FileName | None:
    """The inverse of `FileName.text`; `None` for a name that is not a segment's file."""
    match = _FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return FileName(offset=int(match[1]), kind=FileKind(match[2]), suffix=FileSuffix(match[3]))


class DirectoryState(Enum):
    """What a partition's directory is; the value ends its name."""

    LIVE = ""
    DELETE = "-delete"
    """Of a deleted topic; its files go after `file.delete.delay.ms`."""
    FUTURE = "-future"
    """The copy being made when a partition moves to another log directory."""
    STRAY = "-stray"
    """Of a partition that the cluster does not place here (Kafka keeps it for a person to see)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """A partition's directory.

    `unique_id` is 32 hexadecimal digits unless the directory is live. `topic` is a cut one when the
    name of a `-delete` or `-stray` directory would have been longer than 255 characters.
    """

    topic: str
    partition: int
    state: DirectoryState = DirectoryState.LIVE
    unique_id: str | None = None

    @property
    def text(self) -> str:
        assert 0 <= self.partition <= MAX_PARTITION
        if self.state is DirectoryState.LIVE:
            return f"{self.topic}-{self.partition}"
        assert self.unique_id is not None
        ending = f"-{self.partition}.{self.unique_id}{self.state.value}"
        if self.state is DirectoryState.FUTURE:
            # Kafka does not cut this one: the topic must be read back from it after a crash.
            return self.topic + ending
        return self.topic[: MAX_NAME_SIZE - len(ending)] + ending


def partition_directory_name(topic: str, partition: int) -> str:
    return PartitionDirectory(topic=topic, partition=partition).text


def delete_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    return _marked_directory_name(topic, partition, DirectoryState.DELETE, unique_id)


def future_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    return _marked_directory_name(topic, partition, DirectoryState.FUTURE, unique_id)


def stray_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    return _marked_directory_name(topic, partition, DirectoryState.STRAY, unique_id)


def _marked_directory_name(
    topic: str, partition: int, state: DirectoryState, unique_id: bytes
) -> str:
    assert len(unique_id) == 16
    return PartitionDirectory(
        topic=topic, partition=partition, state=state, unique_id=unique_id.hex()
    ).text


_PARTITION = r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})"
_LIVE_DIRECTORY = re.compile(_PARTITION)
_MARKED_DIRECTORY = re.compile(_PARTITION + r"\.([0-9a-f]{32})(-delete|-future|-stray)")


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """The inverse of `PartitionDirectory.text`; `None` for a name that is no partition's.

    Topics may hold dashes and dots, so the partition is what follows the *last* dash that leaves a
    number. Kafka refuses to start on a directory it cannot parse; the caller decides here.
    """
    marked = _MARKED_DIRECTORY.fullmatch(name)
    match = marked or _LIVE_DIRECTORY.fullmatch(name)
    if match is None or int(match[2]) > MAX_PARTITION or not is_legal_topic_name(match[1]):
        return None
    return PartitionDirectory(
        topic=match[1],
        partition=int(match[2]),
        state=DirectoryState(marked[4]) if marked else DirectoryState.LIVE,
        unique_id=marked[3] if marked else None,
    )


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(topic: str) -> bool:
    """Kafka's rule, `Topic.validate`: it keeps a topic's name usable as a directory's."""
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..")
