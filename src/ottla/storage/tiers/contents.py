"""What lies in a tier, by partition: its objects, the records about them, and what a log needs.

The records of `__remote_log_metadata` in the broker's directories say which uploads there are;
where records are missing, or there is no directory any more, what lies in the tier is taken for
them, as readers do (`reading.tiered_files`). Kafka has no counterpart.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from functools import cached_property

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    REMOTE_LOG_METADATA,
    partition_directory_name,
)
from ottla.storage.files.known_topics import KnownTopics, read_known_topics
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.remote.lineage import END, Chain, Piece, chain, is_in_lineage
from ottla.storage.remote.metadata_partition import metadata_partition
from ottla.storage.remote.newest_upload import newest_epochs
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex, SegmentIndexes
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from ottla.storage.remote.stored_upload import StoredUpload
from ottla.storage.segment.partition_files import SegmentFiles, list_partition

Takes = Callable[[str, int], bool]
"""Whether a partition is wanted, by its topic and number."""


class Role(Enum):
    """What an upload is to its log; the values appear in `ottla tier list`."""

    READ = "read"
    """The log's records are read from it."""
    LOCAL = "also local"
    """All that the log has of it, its directory has too."""
    SUPERSEDED = "superseded"
    """Another upload has the same records, and is read in its place."""
    OTHER_LINEAGE = "other lineage"
    """Of records that the log lost, as after an unclean election."""
    EXPIRED = "before the log's start"
    COPYING = "unfinished"
    """Its copying was begun: it goes on, or has failed."""
    DELETING = "being deleted"
    ORPHAN = "no record"
    """No record names it, though they are complete: nothing reads it, nor deletes it."""
    HALF = "half"
    """Objects are missing, and no record names it."""
    UNREADABLE = "unreadable"
    """No record says what it is, and its objects cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One upload: `segment` is what is known of it, `stored` what lies in the tier."""

    partition: TopicIdPartition
    segment_id: Uuid
    start_offset: int
    role: Role
    segment: RemoteLogSegmentMetadata | None = None
    stored: StoredUpload | None = None
    pieces: tuple[Piece, ...] = ()
    """The offsets that the log has of it, whether these are local too or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLog:
    """What a directory has of a partition."""

    directory: ReadOnlyLogDirectory
    path: str
    segments: tuple[SegmentFiles, ...]
    log_start: int
    epochs: tuple[EpochEntry, ...]

    @property
    def start_offset(self) -> int | None:
        """The first offset that the directory has; `None` if it has no segment."""
        return max(self.log_start, self.segments[0].base_offset) if self.segments else None


@dataclass(slots=True, kw_only=True)
class TieredLog:
    """The uploads of one partition, and how they make up its log."""

    partition: TopicIdPartition
    index: SegmentIndex
    stored: dict[Uuid, StoredUpload] = field(default_factory=dict)
    local: LocalLog | None = None
    has_records: bool = False
    """Whether the records about it are in the directories; otherwise the tier was taken for
    them."""
    findings: list[Finding] = field(default_factory=list)
    """What was wrong while this was found out."""
    unreadable: set[Uuid] = field(default_factory=set)
    epochs: tuple[EpochEntry, ...] = ()
    """The leader epochs of the log, or, without a directory, of its newest upload."""
    log_start: int | None = None
    """The log's start as recorded; `None` if nothing says it."""

    @property
    def name(self) -> str:
        return str(self.partition)

    def chain(self, until_offset: int | None) -> Chain:
        """The log from its start to an offset, or to the tier's end."""
        if self.log_start is not None:
            return chain(self.index, self.epochs, self.log_start, until_offset)
        # Without a checkpoint the log starts with the first upload of its lineage.
        found = chain(self.index, self.epochs, 0, None).pieces
        return chain(self.index, self.epochs, found[0].first_offset if found else 0, until_offset)

    @property
    def local_start(self) -> int | None:
        return None if self.local is None else self.local.start_offset

    @property
    def needed(self) -> Chain:
        """What must be read of the tier, with the gaps."""
        return self.chain(self.local_start)

    def uploads(self) -> Iterator[Upload]:
        """All of them, by their first offset."""
        pieces: dict[Uuid, list[Piece]] = {}
        for piece in self.chain(None).pieces:
            pieces.setdefault(piece.segment.segment_id, []).append(piece)
        found = [self._known(one, tuple(pieces.get(one.segment_id, ())))
                 for one in self.index.segments()]  # fmt: skip
        known = {one.segment_id for one in found}
        found += [self._unknown(one) for key, one in self.stored.items() if key not in known]
        yield from sorted(found, key=lambda one: (one.start_offset, one.segment_id))

    def _known(self, segment: RemoteLogSegmentMetadata, pieces: tuple[Piece, ...]) -> Upload:
        return Upload(
            partition=self.partition,
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            role=self._role(segment, pieces),
            segment=segment,
            stored=self.stored.get(segment.segment_id),
            pieces=pieces,
        )

    def _role(self, segment: RemoteLogSegmentMetadata, pieces: tuple[Piece, ...]) -> Role:
        if segment.state is SegmentState.COPY_SEGMENT_STARTED:
            return Role.COPYING
        if segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
            return Role.DELETING
        if pieces:
            local_start = self.local_start
            is_local = local_start is not None and pieces[0].first_offset >= local_start
            return Role.LOCAL if is_local else Role.READ
        if segment.end_offset < (self.log_start or 0):
            return Role.EXPIRED
        epochs = self.epochs
        if not epochs or is_in_lineage(segment, epochs, END):
            return Role.SUPERSEDED
        return Role.OTHER_LINEAGE

    def _unknown(self, stored: StoredUpload) -> Upload:
        role = Role.ORPHAN if stored.is_complete else Role.HALF
        return Upload(
            partition=self.partition,
            segment_id=stored.segment_id,
            start_offset=stored.start_offset,
            role=Role.UNREADABLE if stored.segment_id in self.unreadable else role,
            stored=stored,
        )


class TierContents:
    """A tier, and the log directories of one broker that has filled it; there may be none."""

    def __init__(
        self,
        tier: RemoteStorage,
        directories: Sequence[ReadOnlyLogDirectory] = (),
        takes: Takes = lambda topic, partition: True,
    ) -> None:
        self.tier = tier
        self.directories = directories
        self.strangers: list[str] = []
        """The paths of objects beside uploads whose names are of none."""
        self._takes = takes
        self._logs: dict[tuple[Uuid, int], TieredLog] = {}
        self._metadata = (
            read_remote_log_metadata(directories)
            if directories
            else RemoteLogMetadata(indexes=SegmentIndexes(), partitions=(), findings=())
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the records."""
        return self._metadata.findings

    @cached_property
    def topics(self) -> KnownTopics:
        """The topics that the directories' metadata log has."""
        found = (read_known_topics(one.file_system, one.path) for one in self.directories)
        return next((one for one in found if one.is_found or one.entries), KnownTopics())

    def logs(self) -> list[TieredLog]:
        """The wanted partitions that have uploads, sorted by name; raises `UserError` if the tier
        does not answer.
        """
        for index in self._metadata.indexes:
            if len(index) and self._takes(index.partition.topic, index.partition.partition):
                self._log_of(index.partition, index)
        for stored in self.tier.uploads(on_other=self.strangers.append):
            if self._takes(stored.partition.topic, stored.partition.partition):
                self._log_of(stored.partition).stored[stored.segment_id] = stored
        for log in self._logs.values():
            self._complete(log)
        return sorted(
            self._logs.values(),
            key=lambda one: (one.partition.topic, one.partition.partition, one.partition.topic_id),
        )

    def _log_of(self, partition: TopicIdPartition, index: SegmentIndex | None = None) -> TieredLog:
        key = partition.topic_id, partition.partition
        if key not in self._logs:
            found = index or self._metadata.indexes.find(*key)
            self._logs[key] = TieredLog(
                partition=partition,
                index=found or SegmentIndex(partition),
                has_records=found is not None or self._would_have_records(partition),
            )
        return self._logs[key]

    def _would_have_records(self, partition: TopicIdPartition) -> bool:
        """Whether the directories have the partition with the records about this one."""
        known = self._metadata.partitions
        if not known or self._metadata.findings:
            return False
        entry = self.topics.entries.get(REMOTE_LOG_METADATA)
        count = known[-1] + 1 if entry is None else entry.partition_count
        return metadata_partition(partition.topic_id, partition.partition, count) in known

    def _complete(self, log: TieredLog) -> None:
        """Adds what the tier and the directories say of a log."""
        if not log.has_records or self._metadata.findings:
            known = {one.segment_id for one in log.index.segments()}
            for stored in log.stored.values():
                if stored.is_complete and stored.segment_id not in known:
                    self._take(log, stored)
        log.local = self._find_local(log)
        if log.local is not None:
            log.epochs, log.log_start = log.local.epochs, log.local.log_start
        else:
            log.log_start = self._recorded_start(log.partition)
        if not log.epochs:
            try:
                log.epochs = newest_epochs(self.tier, log.index)
            except CorruptionError as error:
                log.findings.append(finding_of(FindingKind.REMOTE_OBJECT, error))

    def _take(self, log: TieredLog, stored: StoredUpload) -> None:
        """Takes an upload without a record for one that was finished."""
        try:
            segment = self.tier.examine(stored)
        except CorruptionError as error:
            log.unreadable.add(stored.segment_id)
            log.findings.append(finding_of(FindingKind.REMOTE_OBJECT, error))
        else:
            if segment is not None:
                log.index.put(segment)

    def _recorded_start(self, partition: TopicIdPartition) -> int | None:
        """The log start of a partition without a directory, by the checkpoints."""
        key = TopicPartition(partition.topic, partition.partition)
        for one in self.directories:
            try:
                start = one.checkpointed(CHECKPOINT_LOG_START).get(key)
            except CorruptionError:
                continue
            entry = self.topics.entries.get(partition.topic)
            is_same = entry is None or entry.topic_id == partition.topic_id
            if start is not None and is_same:
                return start
        return None

    def _find_local(self, log: TieredLog) -> LocalLog | None:
        """What a directory has of a partition, if it is of the same topic."""
        topic, number = log.partition.topic, log.partition.partition
        for one in self.directories:
            if not one.holds(topic, number):
                continue
            path = join(one.path, partition_directory_name(topic, number))
            files = one.file_system
            try:
                if read_topic_id(files, join(path, PARTITION_METADATA)) == log.partition.topic_id:
                    return LocalLog(
                        directory=one,
                        path=path,
                        segments=tuple(list_partition(files, path).segments),
                        log_start=one.log_start(topic, number),
                        epochs=LeaderEpochs.read(files, join(path, LEADER_EPOCHS)).entries,
                    )
            except CorruptionError as error:
                reason = f"{error.reason}; the tier is judged without this directory"
                log.findings.append(
                    Finding(kind=FindingKind.PARTITION_METADATA, path=error.path,
                            position=error.position, reason=reason)
                )  # fmt: skip
        return None


def upload_name(upload: Upload) -> str:
    """The name of an upload for people."""
    return f"upload {uuid_text(upload.segment_id)} of {upload.partition}"
