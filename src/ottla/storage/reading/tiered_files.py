"""Log directories with the segments of their tier: a file system for processes that only read.

In the folder of a partition lie, besides its own files, the `.log` and the indexes of the uploads
that its log consists of before its first local segment. So whatever reads a partition reads one
log, no matter where a segment lies. Kafka has no counterpart: its tier is read through a broker.
"""

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
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
    parse_file_names,
)
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.reading.gone_partitions import GonePartition, find_gone
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.tier_share import TierShare
from ottla.storage.reading.tiered_partition import RemoteFile, TieredPartition
from ottla.storage.remote.lineage import Chain, chain
from ottla.storage.remote.newest_upload import newest_epochs
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
        self._on_damage = None if on_damage is None else _once(on_damage)
        self._partitions: dict[str, tuple[int | None, TieredPartition | None]] = {}
        """By folder: what a tier adds to it, if anything, and the first local offset for which it
        was looked up.
        """
        self._metadata: RemoteLogMetadata | None = None
        self._gone: dict[str, GonePartition] | None = None
        self._shares: dict[str, TierShare] = {}
        self._made: dict[str, dict[str, bytes]] = {}
        """The files of gone partitions' folders that are none of a segment's, by folder."""

    def list(self, directory: str) -> list[str]:
        try:
            names = self._disk.list(directory)
        except FileNotFoundError:
            if not self._is_gone(directory):
                raise
            names = []
        if self._is_one(directory):
            shared = (path for path, share in self._shares.items() if share.made)
            every = (*self._gone_ones(), *shared)
            gone = (base_name(one) for one in every if self._holds(directory, one))
            return sorted({*names, *gone})
        partition = self._look(directory, names)
        if partition is None:
            return names
        share = self._shares.get(directory)
        made = self._made.get(directory, ()) if share is None else dict(share.made)
        return sorted(partition.names.union(names, made))

    def names(self, directory: str) -> Sequence[str]:
        return self.list(directory)

    def status(self, path: str) -> FileStatus | None:
        status = self._disk.status(path)
        if status is not None:
            return status
        if self._is_gone(path):
            return FileStatus(number=0, size=0, modified_ms=0, is_directory=True)
        if (content := self._find_made(path)) is not None:
            return FileStatus(number=0, size=len(content), modified_ms=0, is_directory=False)
        found = self._find(path)
        return None if found is None else found[0].status(found[1])

    def sizes(self, directory: str, names: Iterable[str]) -> Sequence[int | None]:
        names = list(names)
        found = zip(names, self._disk.sizes(directory, names), strict=True)
        return [self._size(join(directory, name)) if size is None else size for name, size in found]

    def _size(self, path: str) -> int | None:
        status = self.status(path)
        return None if status is None else status.size

    def read_start(self, path: str, size: int) -> bytes:
        try:
            return self._disk.read_start(path, size)
        except FileNotFoundError:
            with closing(self.open(path)) as file:
                return file.pread(size, 0)

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        try:
            return self._disk.open(path, writable=writable, create=create)
        except FileNotFoundError:
            if writable or create:
                raise
            if (content := self._find_made(path)) is not None:
                return RemoteFile(path, len(content), lambda at, size: content[at : at + size])
            found = self._find(path)
            if found is None:
                raise
        return found[0].open(path, found[1])

    def log_start(self, directory: str) -> int | None:
        """Where the log of a partition's folder starts; `None` if its topic has no tier."""
        with suppress(OSError):
            self.list(directory)
        partition = self._known(directory)
        return None if partition is None else partition.start_offset

    def tiered_end(self, directory: str) -> int:
        """The offset after the last one in the tier; 0 if its topic has none."""
        return 0 if self.log_start(directory) is None else self._end_of(directory)

    def share(self, directory: str, from_offset: int, until_offset: int) -> TierShare:
        """What a reader of these offsets of a partition needs."""
        self.log_start(directory)
        first_local, partition = self._partitions.get(directory, (None, None))
        return TierShare(
            directory=directory,
            chain=None if partition is None else partition.chain,
            first_local=first_local,
            made=tuple(self._made.get(directory, {}).items()),
        ).within(from_offset, until_offset)

    def take(self, share: TierShare) -> None:
        """Reads a partition by what another process has found of it, unless this one knows more.

        If a broker has deleted local segments since, the records are read.
        """
        directory = share.directory
        known = self._shares.get(directory)
        if known is None and directory in self._partitions:
            return
        if known is not None and known.first_local == share.first_local:
            share = known.joined(share)
        self._shares[directory] = share
        self._partitions.pop(directory, None)

    # What a tier has no part in

    @property
    def open_files(self) -> OpenFiles:
        return self._disk.open_files

    def list_others(self, directory: str) -> Sequence[str]:
        return self._disk.list_others(directory)

    def some_files(self, directory: str, max_count: int) -> Sequence[str]:
        return self._disk.some_files(directory, max_count)

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

    def _end_of(self, directory: str) -> int:
        partition = self._known(directory)
        return 0 if partition is None else partition.end_offset

    def _known(self, directory: str) -> TieredPartition | None:
        _, partition = self._partitions.get(directory, (None, None))
        return partition

    def _look(self, directory: str, names: Iterable[str]) -> TieredPartition | None:
        """What a tier adds to a folder, if that is a partition's."""
        parsed = parse_directory_name(base_name(directory))
        if parsed is None or parsed.state is not DirectoryState.LIVE:
            return None
        if not self._is_one(parent_directory(directory)):
            return None
        key, first = TopicPartition(parsed.topic, parsed.partition), _first_local(names)
        known = self._partitions.get(directory)
        if known is not None and known[0] == first:
            return known[1]
        share = self._shares.get(directory)
        if share is not None and share.first_local == first:
            part = share.chain
            given = None if part is None else TieredPartition(self._tier, part, self._on_damage)
            self._partitions[directory] = first, given
            return given
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
        if self._is_gone(directory):
            return self._tiered_alone(directory)
        local = ReadOnlyLogDirectory(parent_directory(directory), self._disk)
        log_start = local.log_start(*key)
        if first_local is not None and log_start >= first_local:
            return None  # All of the log is here.
        topic_id = read_topic_id(self._disk, join(directory, PARTITION_METADATA))
        index = None if topic_id is None else self._index(topic_id, key)
        if index is None:
            return None
        epochs = LeaderEpochs.read(self._disk, join(directory, LEADER_EPOCHS))
        return self._with(chain(index, epochs.entries, log_start, first_local), directory)

    def _with(self, found: Chain, directory: str) -> TieredPartition:
        for one in found.findings:
            if one.lost is None:
                logger.warning("%s: %s", directory, one.reason)
            elif self._on_damage is not None:
                self._on_damage(one)
        return TieredPartition(self._tier, found, self._on_damage)

    def _tiered_alone(self, directory: str) -> TieredPartition | None:
        """The log of a partition whose folder is gone, up to the last offset in the tier."""
        gone = self._gone_ones()[directory]
        one = gone.partition
        index = self._index(one.topic_id, TopicPartition(one.topic, one.partition))
        if index is None:
            return None
        epochs = newest_epochs(self._tier, index)
        start = gone.log_start
        if start is None:
            pieces = chain(index, epochs, 0, None).pieces
            start = pieces[0].first_offset if pieces else 0
        found = self._with(chain(index, epochs, start, None), directory)
        logger.warning(
            "%s: is gone, and read from %s alone, up to offset %d: records that had not been "
            "copied are not there", directory, self._tier.address, found.end_offset - 1,
        )  # fmt: skip
        self._made[directory] = gone.files(epochs, found.end_offset)
        return found

    def _is_one(self, directory: str) -> bool:
        """Whether it is one of the log directories."""
        return parent_directory(join(directory, "partition")) in self._paths

    def _holds(self, directory: str, path: str) -> bool:
        return parent_directory(path) == parent_directory(join(directory, "partition"))

    def _is_gone(self, directory: str) -> bool:
        parsed = parse_directory_name(base_name(directory))
        if parsed is None or not self._is_one(parent_directory(directory)):
            return False
        if directory in self._shares:
            return bool(self._shares[directory].made)
        return directory in self._gone_ones()

    def _gone_ones(self) -> dict[str, GonePartition]:
        if self._shares:
            return {}  # Who plans has looked for them.
        if self._gone is None:
            if self._metadata is None:
                self._metadata = self._read_metadata()
            self._gone = find_gone(self._disk, sorted(self._paths), self._metadata, self._tier)
        return self._gone

    def _find_made(self, path: str) -> bytes | None:
        """A file of a gone partition's folder."""
        directory = parent_directory(path)
        if not self._is_gone(directory):
            return None
        if directory in self._shares:
            return dict(self._shares[directory].made).get(base_name(path))
        if directory not in self._made:
            self.list(directory)
        return self._made.get(directory, {}).get(base_name(path))

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


def _once(on_damage: Callable[[Finding], None]) -> Callable[[Finding], None]:
    """Passes each finding on once, however often what it is about is read."""
    told: set[Finding] = set()

    def tell(finding: Finding) -> None:
        if finding not in told:
            told.add(finding)
            on_damage(finding)

    return tell


def _refusal(path: str) -> OSError:
    return OSError(errno.EROFS, "a tier is only read", path)


def _first_local(names: Iterable[str]) -> int | None:
    logs = parse_file_names(names, kinds=[FileKind.LOG], suffixes=[FileSuffix.LIVE])
    return min((one.offset for one in logs), default=None)
