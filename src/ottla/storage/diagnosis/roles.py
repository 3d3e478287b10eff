"""The meaning of each name in a log directory, and the order of a listing.

Format page: docs/format/filenames.md.
"""

from enum import Enum

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, base_name, join
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.storage.files import filenames
from ottla.storage.files.filenames import (
    OFFSET_DIGITS,
    FileKind,
    FileSuffix,
    file_offset,
    parse_directory_name,
)


class Role(Enum):
    """The kinds of files, in the order of a listing; values appear in messages."""

    META_PROPERTIES = "meta.properties"
    CLEAN_SHUTDOWN = "clean shutdown mark"
    OTTLA_COPY = "copy of this broker"
    OTTLA_OWNER = "note of the running broker"
    OTTLA_BOOT = "note of the system's last start"
    OTTLA_SNAPSHOT = "note of a snapshot's time"
    OTTLA_REPLICAS = "mark of a cluster's broker"
    OTTLA_WRITTEN = "mark that a file exists"
    OFFSET_CHECKPOINT = "offset checkpoint"
    PARTITION_METADATA = "partition metadata"
    LEADER_EPOCHS = "leader epochs"
    INTEGRITY = "integrity file of this broker"
    QUORUM_STATE = "quorum state"
    METADATA_SNAPSHOT = "metadata snapshot"
    LOG = "log"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LOCK = "lock"
    UNKNOWN = "unknown"


SEGMENT_ROLES = {
    FileKind.LOG: Role.LOG,
    FileKind.OFFSET_INDEX: Role.OFFSET_INDEX,
    FileKind.TIME_INDEX: Role.TIME_INDEX,
    FileKind.TRANSACTION_INDEX: Role.TRANSACTION_INDEX,
    FileKind.PRODUCER_SNAPSHOT: Role.PRODUCER_SNAPSHOT,
}

NAMED_ROLES = {
    filenames.META_PROPERTIES: Role.META_PROPERTIES,
    filenames.CLEAN_SHUTDOWN: Role.CLEAN_SHUTDOWN,
    filenames.PARTITION_METADATA: Role.PARTITION_METADATA,
    filenames.LEADER_EPOCHS: Role.LEADER_EPOCHS,
    filenames.INTEGRITY: Role.INTEGRITY,
    filenames.COPIED_LOG_STARTS: Role.OTTLA_COPY,
    filenames.COPIED_META_PROPERTIES: Role.OTTLA_COPY,
    filenames.OWNER: Role.OTTLA_OWNER,
    filenames.BOOT_NOTE: Role.OTTLA_BOOT,
    filenames.SNAPSHOT_NOTE: Role.OTTLA_SNAPSHOT,
    filenames.RESTORING: Role.OTTLA_SNAPSHOT,
    filenames.REPLICAS_MARK: Role.OTTLA_REPLICAS,
    filenames.CHECKPOINT_RECOVERY_POINT: Role.OFFSET_CHECKPOINT,
    filenames.CHECKPOINT_LOG_START: Role.OFFSET_CHECKPOINT,
    filenames.CHECKPOINT_HIGH_WATERMARK: Role.OFFSET_CHECKPOINT,
    filenames.CHECKPOINT_CLEANER: Role.OFFSET_CHECKPOINT,
    filenames.LOCK: Role.LOCK,
    # Files that only Ottla's broker writes.
    filenames.METADATA_MARK: Role.OTTLA_WRITTEN,
    "quorum-state": Role.QUORUM_STATE,
    filenames.BOOTSTRAP_CHECKPOINT: Role.METADATA_SNAPSHOT,
}

_OF_SEGMENTS = {
    kind.value + suffix.value: (role, suffix)
    for kind, role in SEGMENT_ROLES.items()
    for suffix in FileSuffix
}
"""The role and the state of a file by what follows the offset in its name."""

_METADATA_SNAPSHOT = lazy_pattern(r"([0-9]{20})-[0-9]{10}\.checkpoint(\.deleted|\.part)?")
_CUT = lazy_pattern(r"(.+)\.(?:cut-[0-9]+|damaged)")
_ORDER = {role: place for place, role in enumerate(Role)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDescription:
    """The meaning of a file name. `offset` is 0 for names without an offset."""

    role: Role
    offset: int = 0
    suffix: FileSuffix = FileSuffix.LIVE
    is_whole_snapshot: bool = False
    """Whether it is a metadata snapshot that is neither being written nor deleted."""
    is_cut: bool = False
    """Whether a repair set the file aside, or bytes of a file of this role."""

    @property
    def is_live_segment_file(self) -> bool:
        is_of_segment = self.role in SEGMENT_ROLES.values()
        return is_of_segment and self.suffix is FileSuffix.LIVE and not self.is_cut


def describe(name: str) -> FileDescription:
    """Describes any name; `Role.UNKNOWN` if nothing else fits."""
    if name in NAMED_ROLES:
        role = NAMED_ROLES[name]
        return FileDescription(role=role, is_whole_snapshot=role is Role.METADATA_SNAPSHOT)
    of_segment = _OF_SEGMENTS.get(name[OFFSET_DIGITS:])
    offset = None if of_segment is None else file_offset(name)
    if of_segment is not None and offset is not None:
        return FileDescription(role=of_segment[0], offset=offset, suffix=of_segment[1])
    snapshot = _METADATA_SNAPSHOT.fullmatch(name)
    if snapshot is not None:
        return FileDescription(
            role=Role.METADATA_SNAPSHOT,
            offset=int(snapshot[1]),
            is_whole_snapshot=snapshot[2] is None,
        )
    cut = _CUT.fullmatch(name)
    if cut is not None:
        original = describe(cut[1])
        return FileDescription(role=original.role, offset=original.offset, is_cut=True)
    return FileDescription(role=Role.UNKNOWN)


class DirectoryKind(Enum):
    """The kind of a directory; values appear in messages."""

    LOG_DIRECTORY = "log directory"
    PARTITION = "partition directory"


def directory_kind(file_system: FileSystem, path: str) -> DirectoryKind:
    """The kind of a directory by its content; raises `UserError` without files of Kafka."""
    # Not by its name, since the user may have copied it to any name.
    names = file_system.list(path)
    roles = {describe(name).role for name in names}
    if roles & {*SEGMENT_ROLES.values(), Role.PARTITION_METADATA, Role.LEADER_EPOCHS}:
        return DirectoryKind.PARTITION
    if roles & {Role.META_PROPERTIES, Role.OFFSET_CHECKPOINT} or any(
        parse_directory_name(name) is not None for name in names
    ):
        return DirectoryKind.LOG_DIRECTORY
    if parse_directory_name(base_name(path)) is not None and not names:
        return DirectoryKind.PARTITION
    raise UserError(f"{path} holds no Kafka log; name a directory of log.dirs, or of one partition")


def files_in_order(file_system: FileSystem, directory: str) -> list[str]:
    """The paths of the files in a directory: the small files first, then segment by segment."""
    return [
        join(directory, name)
        for name in sorted(file_system.list(directory), key=_place)
        if not is_directory(file_system, join(directory, name))
    ]


def partitions_in_order(file_system: FileSystem, directory: str) -> list[str]:
    """The paths of all directories named after a partition, by topic and number."""
    parsed = [(parse_directory_name(name), name) for name in file_system.list(directory)]
    named = [(one.topic, one.partition, name) for one, name in parsed if one is not None]
    return [
        join(directory, name)
        for _, _, name in sorted(named)
        if is_directory(file_system, join(directory, name))
    ]


def is_directory(file_system: FileSystem, path: str) -> bool:
    status = file_system.status(path)
    return status is not None and status.is_directory


def _place(name: str) -> tuple[int, int, int, str]:
    described = describe(name)
    role = described.role
    if role in SEGMENT_ROLES.values():
        return _ORDER[Role.LOG], described.offset, _ORDER[role], name
    return _ORDER[role], 0, 0, name
