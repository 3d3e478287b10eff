"""The names of the files and directories in a log directory, formatted and parsed.

Format: docs/format/filenames.md.

A crash can leave files with the suffix `.cleaned`, `.swap` or `.deleted`; recovery finishes or
undoes the operation. Kafka's counterparts: `LogFileUtils`, `UnifiedLog.parseTopicPartitionName`,
`Topic.validate`.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from functools import lru_cache

from ottla.base.ids import Uuid
from ottla.base.partitions import CLUSTER_METADATA as CLUSTER_METADATA
from ottla.base.partitions import REMOTE_LOG_METADATA as REMOTE_LOG_METADATA
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

CHECKPOINT_RECOVERY_POINT = "recovery-point-offset-checkpoint"
CHECKPOINT_LOG_START = "log-start-offset-checkpoint"
CHECKPOINT_HIGH_WATERMARK = "replication-offset-checkpoint"
CHECKPOINT_CLEANER = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
LOCK = ".lock"
OWNER = "ottla-owner"
BOOT_NOTE = "ottla-boot"
SNAPSHOT_NOTE = "ottla-snapshot"
RESTORING = "ottla-restoring"
REPLICAS_MARK = "ottla-replicas"
"""Marks a directory whose last broker was in a cluster: its logs may have uncommitted records."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
INTEGRITY = "09223372036854775807.ottla-integrity.index"
"""Kafka takes it for an index without a log, and removes it when it loads a log (`integrity`)."""
CLUSTER_METADATA_DIRECTORY = CLUSTER_METADATA + "-0"
CLUSTER_METADATA_ID = Uuid(bytes(15) + b"\x01")
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
COPIED_LOG_STARTS = "ottla-log-starts"
COPIED_META_PROPERTIES = "ottla-meta-properties"
METADATA_MARK = "ottla-metadata.written"
"""Marks a directory that has had a metadata log, whose loss would cost settings, users and ACLs."""

REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""A folder of indexes out of a remote tier, which may be lost (`remote.index_cache`)."""

SET_ASIDE = ".damaged"
"""The ending of files that a repair or a start has set aside, and that nothing reads."""

OFFSET_DIGITS = 20
"""The digits of the offset in a file's name, with zeros before it."""

NAMES_KNOWN = 4096
"""Size of the cache of parsed names; partitions have many file names in common."""

MAX_NAME_SIZE = 255
"""The limit of common file systems; Kafka shortens the topic in `-delete` names to fit."""

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
"""The kinds of a segment's files, the log last."""


class FileSuffix(Enum):
    """The state of a file; the value follows the extension."""

    LIVE = ""
    DELETED = ".deleted"
    """No longer part of the log; removed after `file.delete.delay.ms`."""
    CLEANED = ".cleaned"
    """Compaction is still writing it."""
    SWAP = ".swap"
    """Written by compaction, and about to replace the original segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """A file of a segment. A producer snapshot's `offset` is a log end offset, not a base."""

    offset: int
    kind: FileKind
    suffix: FileSuffix = FileSuffix.LIVE

    @property
    def text(self) -> str:
        assert 0 <= self.offset <= MAX_OFFSET
        # By attributes that are no properties: a check of a log makes forty thousand names.
        return f"{self.offset:0{OFFSET_DIGITS}d}{self.kind._value_}{self.suffix._value_}"


def log_file_name(base_offset: int) -> str:
    assert 0 <= base_offset <= MAX_OFFSET
    return f"{base_offset:0{OFFSET_DIGITS}d}{LOG_END}"


def segment_file_names(base_offset: int, suffix: FileSuffix) -> list[str]:
    """The names of all files that a segment may have, the log last."""
    return [FileName(offset=base_offset, kind=kind, suffix=suffix).text for kind in SEGMENT_KINDS]


def transaction_index_file_name(base_offset: int) -> str:
    return FileName(offset=base_offset, kind=FileKind.TRANSACTION_INDEX).text


def producer_snapshot_file_name(offset: int) -> str:
    return FileName(offset=offset, kind=FileKind.PRODUCER_SNAPSHOT).text


LOG_END = FileKind.LOG.value
SNAPSHOT_END = FileKind.PRODUCER_SNAPSHOT.value

_ENDS = {kind.value + suffix.value: (kind, suffix) for kind in FileKind for suffix in FileSuffix}


def file_offset(name: str) -> int | None:
    """The offset in a segment's file's name; `None` if it does not begin with one."""
    digits = name[:OFFSET_DIGITS]
    if not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset <= MAX_OFFSET else None


@lru_cache(NAMES_KNOWN)
def parse_file_name(name: str) -> FileName | None:
    """The inverse of `FileName.text`; `None` for a name that is not a segment's file."""
    return _parsed(name)


def parse_file_names(
    names: Iterable[str],
    *,
    kinds: Collection[FileKind] = tuple(FileKind),
    suffixes: Collection[FileSuffix] = tuple(FileSuffix),
) -> list[FileName]:
    """As `parse_file_name`, the names of files of these kinds and suffixes: a log has forty
    thousand, of which few are looked for. None is kept in a cache.
    """
    ends = {end for end, (kind, suffix) in _ENDS.items() if kind in kinds and suffix in suffixes}
    parsed = (_parsed(name) for name in names if name[OFFSET_DIGITS:] in ends)
    return [one for one in parsed if one is not None]


def _parsed(name: str) -> FileName | None:
    ends, offset = _ENDS.get(name[OFFSET_DIGITS:]), file_offset(name)
    if ends is None or offset is None:
        return None
    return FileName(offset=offset, kind=ends[0], suffix=ends[1])


class DirectoryState(Enum):
    """The state of a partition's directory; the value is the suffix of its name."""

    LIVE = ""
    DELETE = "-delete"
    """Of a deleted topic; its files are removed after `file.delete.delay.ms`."""
    FUTURE = "-future"
    """The copy being made when a partition moves to another log directory."""
    STRAY = "-stray"
    """Of a partition that the cluster does not assign to this broker; kept for inspection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """A partition's directory.

    `unique_id` is 32 hexadecimal digits unless the directory is live. `topic` is shortened if the
    name of a `-delete` or `-stray` directory would be longer than 255 characters.
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
            # Kafka does not shorten this name: the topic is parsed from it after a crash.
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
_LIVE_DIRECTORY = lazy_pattern(_PARTITION)
_MARKED_DIRECTORY = lazy_pattern(_PARTITION + r"\.([0-9a-f]{32})(-delete|-future|-stray)")


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """The inverse of `PartitionDirectory.text`; `None` for any other name.

    Topics may contain dashes and dots, so the partition is the number after the *last* dash. Kafka
    refuses to start on a directory that it cannot parse; the caller decides here.
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


_TOPIC = lazy_pattern(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(topic: str) -> bool:
    """Kafka's rule, `Topic.validate`, by which a topic's name can be part of a directory's."""
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..")
