"""Log directories with the segments of their tier: a file system for processes that only read.

In the folder of a partition lie, besides its own files, the `.log` and the indexes of the uploads
that its log consists of before its first local segment. So whatever reads a partition reads one
log, no matter where a segment lies. Kafka has no counterpart: its tier is read through a broker.
"""

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from ottla.base.files import (
    DiskSpace,
    File,
    FileStatus,
    OsFileSystem,
    base_name,
    join,
    parent_directory,
)
from ottla.base.ids import Uuid
from ottla.base.open_files import OpenFiles
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    FileName,
    FileSuffix,
    parse_directory_name,
    parse_file_name,
)
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.tiered_partition import TieredPartition
from ottla.storage.remote.lineage import chain
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import TopicIdPartition

logger = logging.getLogger(__name__)


class TieredFiles:
    """The disk, with what a tier adds to the log directories of one broker."""

    def __init__(
        self,
        tier: RemoteStorage,
        paths: Sequence[str],
        on_damage: Callable[[Finding], None] | None = None,
    ) -> None:
        """With `on_damage` offsets that no upload has are passed to it, once; without, reading them
        raises `CorruptionError`.
        """
        self._disk = OsFileSystem()
        self._tier = tier
        self._paths = frozenset(parent_directory(join(path, "partition")) for path in paths)
        self._on_damage = on_damage
        self._partitions: dict[str, tuple[int | None, TieredPartition | None]] = {}
        """By folder: what a tier adds to it, if anything, and the first local offset for which it
        was looked up.
        """
        self._metadata: RemoteLogMetadata | None = None

    def list(self, directory: str) -> list[str]:
        names = self._disk.list(directory)
        partition = self._look(directory, names)
        return names if partition is None else sorted(partition.names.union(names))

    def status(self, path: str) -> FileStatus | None:
        status = self._disk.status(path)
        found = self._find(path) if status is None else None
        return status if found is None else found[0].status(found[1])

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        try:
            return self._disk.open(path, writable=writable, create=create)
        except FileNotFoundError:
            found = None if writable or create else self._find(path)
            if found is None:
                raise
        return found[0].open(path, found[1])

    def log_start(self, directory: str) -> int | None:
        """Where the log of a partition's folder starts; `None` if its topic has no tier."""
        with suppress(OSError):
            self.list(directory)
        partition = self._known(directory)
        return None if partition is None else partition.start_offset

    # What a tier has no part in

    @property
    def open_files(self) -> OpenFiles:
        return self._disk.open_files

    def list_others(self, directory: str) -> Sequence[str]:
        return self._disk.list_others(directory)

    def boot_id(self) -> str:
        return self._disk.boot_id()

    def space(self, path: str) -> DiskSpace:
        return self._disk.space(path)

    def canonical(self, path: str) -> str:
        return self._disk.canonical(path)

    def lock_holder(self, path: str) -> int | None:
        return self._disk.lock_holder(path)

    # Nothing is changed

    def restrict(self, path: str) -> NoReturn:
        raise _refusal(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> NoReturn:
        raise _refusal(path)

    def make_directory(self, path: str) -> NoReturn:
        raise _refusal(path)

    def rename(self, source: str, target: str) -> NoReturn:
        raise _refusal(target)

    def link(self, source: str, target: str) -> NoReturn:
        raise _refusal(target)

    def exchange(self, one: str, other: str) -> NoReturn:
        raise _refusal(one)

    def remove(self, path: str) -> NoReturn:
        raise _refusal(path)

    def remove_directory(self, path: str) -> NoReturn:
        raise _refusal(path)

    def sync_directory(self, path: str) -> NoReturn:
        raise _refusal(path)

    def lock(self, path: str) -> NoReturn:
        raise _refusal(path)

    # Partitions

    def _find(self, path: str) -> tuple[TieredPartition, FileName] | None:
        """The file of a tier with a path that no file of the disk has."""
        name = parse_file_name(base_name(path))
        if name is None or name.suffix is not FileSuffix.LIVE:
            return None
        directory = parent_directory(path)
        if directory not in self._partitions:
            with suppress(OSError):
                self.list(directory)
        partition = self._known(directory)
        return (partition, name) if partition is not None and partition.has(name) else None

    def _known(self, directory: str) -> TieredPartition | None:
        _, partition = self._partitions.get(directory, (None, None))
        return partition

    def _look(self, directory: str, names: Iterable[str]) -> TieredPartition | None:
        """What a tier adds to a folder, if that is a partition's."""
        parsed = parse_directory_name(base_name(directory))
        if parsed is None or parsed.state is not DirectoryState.LIVE:
            return None
        if parent_directory(directory) not in self._paths:
            return None
        key, first = TopicPartition(parsed.topic, parsed.partition), _first_local(names)
        known = self._partitions.get(directory)
        if known is not None and known[0] == first:
            return known[1]
        found = self._tiered(directory, key, first)
        if found is not None and first is not None and found.end_offset < first:
            # A broker may copy, and then delete what is local, while this process reads.
            self._metadata = None
            found = self._tiered(directory, key, first)
        self._partitions[directory] = first, found
        return found

    def _tiered(
        self, directory: str, key: TopicPartition, first_local: int | None
    ) -> TieredPartition | None:
        local = ReadOnlyLogDirectory(parent_directory(directory), self._disk)
        log_start = local.log_start(*key)
        if first_local is not None and log_start >= first_local:
            return None  # All of the log is here.
        topic_id = read_topic_id(self._disk, join(directory, PARTITION_METADATA))
        index = None if topic_id is None else self._index(topic_id, key)
        if index is None:
            return None
        epochs = LeaderEpochs.read(self._disk, join(directory, LEADER_EPOCHS))
        found = chain(index, epochs.entries, log_start, first_local)
        gaps = [one for one in found.findings if one.lost is not None]
        for one in found.findings:
            if one.lost is None:
                logger.warning("%s: %s", directory, one.reason)
            elif self._on_damage is not None:
                self._on_damage(one)
        return TieredPartition(self._tier, found, () if self._on_damage is not None else gaps)

    def _index(self, topic_id: Uuid, key: TopicPartition) -> SegmentIndex | None:
        """The uploads of a partition, by the metadata records, or by what lies in the tier."""
        if self._metadata is None:
            self._metadata = self._read_metadata()
        indexes = self._metadata.indexes
        # A member of a cluster has some partitions of the topic with the records.
        if self._is_incomplete or indexes.find(topic_id, key.partition) is None:
            wanted = TopicIdPartition(key.topic, topic_id, key.partition)
            listed = self._tier.segments(*key)
            unknown = [one for one in listed if one.partition == wanted]
            if unknown:
                logger.warning(
                    "%s-%d: metadata records of its uploads are missing, and those that lie in %s "
                    "are taken for them", *key, self._tier.address,
                )  # fmt: skip
            for segment in unknown:
                indexes.of(wanted).put(segment)
        return indexes.find(topic_id, key.partition)

    @property
    def _is_incomplete(self) -> bool:
        """Whether records about uploads may be missing."""
        metadata = self._metadata
        return metadata is not None and (not metadata.partitions or bool(metadata.findings))

    def _read_metadata(self) -> RemoteLogMetadata:
        directories = [ReadOnlyLogDirectory(path, self._disk) for path in sorted(self._paths)]
        metadata = read_remote_log_metadata(directories)
        for finding in metadata.findings:
            logger.warning("%s", finding.text)
        return metadata


def _refusal(path: str) -> OSError:
    return OSError(errno.EROFS, "a tier is only read", path)


def _first_local(names: Iterable[str]) -> int | None:
    parsed = map(parse_file_name, names)
    return min(
        (
            one.offset
            for one in parsed
            if one is not None and one.kind is FileKind.LOG and one.suffix is FileSuffix.LIVE
        ),
        default=None,
    )
