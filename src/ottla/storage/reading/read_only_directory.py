"""A log directory for readers that change nothing, such as tools and Spark.

Nothing is written and no lock is taken. A live broker may append, roll, compact and delete
meanwhile; `read_only_log` describes how reads handle that. Kafka has no counterpart.
"""

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileStatus, FileSystem, OsFileSystem, base_name, join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.texts import some_text
from ottla.storage.files.boot_note import WrittenEnds, read_boot_note
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    BOOT_NOTE,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    COPIED_LOG_STARTS,
    COPIED_META_PROPERTIES,
    INTEGRITY,
    LOCK,
    META_PROPERTIES,
    METADATA_MARK,
    PARTITION_METADATA,
    REPLICAS_MARK,
    DirectoryState,
    parse_directory_name,
    partition_directory_name,
)
from ottla.storage.files.integrity import (
    Integrity,
    holds_integrity_files,
    integrity_header,
    is_ours_still,
    read_integrity,
)
from ottla.storage.files.known_topics import NO_TOPICS, KnownTopics, read_known_topics
from ottla.storage.files.log_starts import copied_starts
from ottla.storage.files.meta_properties import MetaProperties, properties_of
from ottla.storage.files.metadata_files import (
    has_metadata_log,
    has_only_idled,
    metadata_file_sizes,
)
from ottla.storage.files.named_partitions import NamedPartitions, find_named_partitions
from ottla.storage.files.ownership import owner_finding
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding, repair_hint
from ottla.storage.log.leader_epochs import start_by_epochs
from ottla.storage.reading.read_damage import KnownEnd, known_end
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.segment.partition_files import (
    PartitionFiles,
    list_partition,
    list_partition_again,
    partition_size,
)

if TYPE_CHECKING:
    from ottla.storage.reading.tier_share import TierShare

MetadataSizes = tuple[tuple[str, int], ...] | None

NAMES_SHOWN = 10

T = TypeVar("T")
Kept = dict[str, tuple[FileStatus | None, T]]
"""What was read of files, by their paths, with their status at that time."""


class Tiers(Protocol):
    """What a file system with the segments of a tier knows of a partition's folder."""

    def log_start(self, directory: str) -> int | None:
        """The start of its log; `None` if it has no tier."""

    def tiered_end(self, directory: str) -> int:
        """The offset after the last one in the tier; 0 if it has none."""

    def share(self, directory: str, from_offset: int, until_offset: int) -> "TierShare":
        """What another process needs to read these offsets of it from the tier."""

    def take(self, share: "TierShare") -> None:
        """Goes by what another process has found of a partition."""


class LostPartitionError(RefusalError):
    """A partition that the directory had, as a file in it says, has no files any more."""


def open_for_reading(
    path: str,
    file_system: FileSystem | None = None,
    *,
    on_damage: Callable[[Finding], None] | None = None,
    tiers: Tiers | None = None,
) -> "ReadOnlyLogDirectory":
    """Opens the log directory at a path; raises `UserError` if there is none.

    With `on_damage`, reads skip damage and pass each damage to it once. `tiers` belongs to a file
    system with the segments of a tier.

    Applications use `ottla.open(path, read_only=True)`.
    """
    file_system = file_system or OsFileSystem()
    directory = ReadOnlyLogDirectory(path, file_system, on_damage, tiers)
    try:
        names = file_system.list(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name one of a broker's log directories") from None
    except NotADirectoryError:
        raise UserError(f"{path} is a file; name its log directory") from None
    except PermissionError:
        raise UserError(f"no permission to read {path}; ask for read access") from None
    # A controller's has no partitions; the copy and the mark remain where the first file is lost.
    own = {META_PROPERTIES, COPIED_META_PROPERTIES, METADATA_MARK}
    if own.intersection(names) or directory.topics():
        return directory
    if parse_directory_name(base_name(path)) and PARTITION_METADATA in names:
        raise UserError(f"{path} is a single partition; name its log directory")
    raise UserError(
        f"{path} is not a Kafka log directory: it has neither {META_PROPERTIES} nor a partition"
    )


class ReadOnlyLogDirectory:
    """One of a broker's `log.dirs`."""

    def __init__(
        self,
        path: str,
        file_system: FileSystem,
        on_damage: Callable[[Finding], None] | None = None,
        tiers: Tiers | None = None,
    ) -> None:
        self.path = path
        self.file_system = file_system
        self._on_damage = on_damage
        self._tiers = tiers
        self._reported: set[Finding] = set()
        self._checkpoints: Kept[dict[TopicPartition, int] | None] = {}
        self._listed: dict[str, PartitionFiles] = {}
        self._copied: Kept[dict[TopicPartition, int] | None] = {}
        self._headers: Kept[Integrity | None] = {}
        self._integrity: Kept[Integrity | None] = {}
        self._boot_note: Kept[WrittenEnds | None] = {}
        self._known_topics: tuple[MetadataSizes, KnownTopics] | None = None
        self.tiered_topics: Container[str] = ()
        """Topics that have a tier by the metadata log in another directory of the broker."""

    @property
    def was_stopped_cleanly(self) -> bool:
        """Whether the last broker that used the directory has shut down cleanly."""
        return self.file_system.status(join(self.path, CLEAN_SHUTDOWN)) is not None

    @property
    def is_complete(self) -> bool:
        """Whether all that was ever written has to be there.

        After a kill it has, unless the system was started again: a power failure loses writes. Not
        said of a directory in use, whose broker has recovered it.
        """
        return self.was_stopped_cleanly or self.is_same_boot

    @property
    def is_same_boot(self) -> bool:
        """Whether the last broker has ended, and the system was not started again since."""
        return self._written_ends() is not None

    def _written_ends(self) -> WrittenEnds | None:
        """The ends of the logs if the last broker was killed since the system was started.

        Cached until the file changes: there may be thousands of logs. A broker replaces the file at
        its start, and changes the ends in it while it holds the lock.
        """
        with suppress(OSError):
            if self.file_system.lock_holder(join(self.path, LOCK)) is not None:
                return None
        path = join(self.path, BOOT_NOTE)
        return self._kept(
            self._boot_note, path, lambda: read_boot_note(self.file_system, self.path)
        )

    @property
    def is_ottlas(self) -> bool:
        """Whether Ottla has used the directory."""
        is_marked = self.file_system.status(join(self.path, METADATA_MARK)) is not None
        return is_marked or holds_integrity_files(self.file_system, self.path)

    @property
    def has_replicas(self) -> bool:
        """Whether the Ottla broker that last used the directory is a member of a cluster."""
        try:
            self.file_system.open(join(self.path, REPLICAS_MARK)).close()
        except OSError:
            return False  # a FIFO, a link or a folder is no mark
        return True

    @property
    def is_replicated(self) -> bool:
        """Whether other brokers may hold replicas, so that log ends are not committed offsets."""
        return self.has_replicas or not self.is_ottlas

    @property
    def properties(self) -> MetaProperties | None:
        """The contents of `meta.properties`, or `None`; raises `CorruptionError`."""
        return properties_of(self.file_system, self.path)

    @property
    def node_id(self) -> int:
        """The node id in `meta.properties`; 0 if there is none."""
        properties = self.properties
        return 0 if properties is None else properties.node_id or 0

    def topics(self) -> dict[str, list[int]]:
        """The partitions of each topic that have a directory here now, topics and numbers sorted.

        The metadata log of a KRaft cluster is left out, but `partition` can read it.
        """
        found: dict[str, list[int]] = {}
        for name in self.file_system.list(self.path):
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.LIVE:
                continue
            if parsed.topic == CLUSTER_METADATA:
                continue
            if self._is_directory(name):
                found.setdefault(parsed.topic, []).append(parsed.partition)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def holds(self, topic: str, partition: int) -> bool:
        """Whether a partition has a directory here now."""
        return self._is_directory(partition_directory_name(topic, partition))

    def partition(
        self, topic: str, partition: int, listed: PartitionFiles | None = None
    ) -> "ReadOnlyLog":
        """The log as it is now; raises `UserError` if it is not in this directory.

        With `listed`, its files as they were then: listing ten thousand segments takes long, and a
        read lists them again where one is gone.
        """
        if partition < 0 or "/" in topic:
            raise self._unknown(topic, partition)
        directory = join(self.path, partition_directory_name(topic, partition))
        key = TopicPartition(topic, partition)
        header = self._header_of(directory)
        wrong = owner_finding(self.file_system, directory, key, self._topics(), header)
        if wrong is not None:
            raise CorruptionError(wrong.path, 0, wrong.reason)
        # Read before the listing, as a broker may write and flush more meanwhile.
        known = self.known_end(topic, partition)
        try:
            files = listed or self._list(directory)
        except (FileNotFoundError, NotADirectoryError):
            raise self._unknown(topic, partition) from None
        return ReadOnlyLog(self, topic, partition, files, known)

    def _list(self, directory: str) -> PartitionFiles:
        before = self._listed.get(directory)
        if before is None:
            found = list_partition(self.file_system, directory)
        else:
            found = list_partition_again(self.file_system, directory, before)
        self._listed[directory] = found
        return found

    def topic_id_of(self, topic: str, partition: int) -> Uuid | None:
        """The topic's id as it is now; `None` if it has none, or the partition is not here."""
        directory = join(self.path, partition_directory_name(topic, partition))
        return read_topic_id(self.file_system, join(directory, PARTITION_METADATA))

    def _header_of(self, directory: str) -> Integrity | None:
        """The first line of a partition's integrity file, cached until the file changes."""
        path = join(directory, INTEGRITY)
        return self._kept(
            self._headers, path, lambda: integrity_header(self.file_system, directory)
        )

    def integrity_of(self, directory: str) -> Integrity | None:
        """A partition's integrity file, cached until it changes; as `read_integrity`."""
        path = join(directory, INTEGRITY)
        return self._kept(
            self._integrity, path, lambda: read_integrity(self.file_system, directory)
        )

    def _kept(self, kept: Kept[T], path: str, read: Callable[[], T]) -> T:
        """What was read of a file, until the file changes."""
        status = self.file_system.status(path)
        known = kept.get(path)
        if known is None or known[0] != status:
            known = kept[path] = status, read()
        return known[1]

    def size_of(self, topic: str, partition: int) -> int:
        """The bytes of a partition's log files, also of one that cannot be read; raises `UserError`
        if it is not in this directory.
        """
        directory = join(self.path, partition_directory_name(topic, partition))
        try:
            return partition_size(self.file_system, directory)
        except (FileNotFoundError, NotADirectoryError):
            raise self._unknown(topic, partition) from None

    def lost_partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that a checkpoint names and that have no directory here."""
        named = self._named_partitions().partitions()
        here = sorted(partition for name, partition in named if name == topic)
        return [partition for partition in here if not self.holds(topic, partition)]

    def lost_topics(self, here: Container[str]) -> set[str]:
        """The topics that a checkpoint names, without those in `here`."""
        named = self._named_partitions().lost((), self._topics())
        return {key.topic for key in named if key.topic not in here}

    def lost(self) -> dict[TopicPartition, str]:
        """The partitions that have no directory here, each with the checkpoint that names it."""
        # Listed before the checkpoints, which a broker changes before it deletes a log.
        names = (one for one in self.file_system.list(self.path) if self._is_directory(one))
        parsed = (parse_directory_name(one) for one in names)
        here = {TopicPartition(one.topic, one.partition) for one in parsed if one is not None}
        return self._named_partitions().lost(here, self._topics())

    def _is_directory(self, name: str) -> bool:
        status = self.file_system.status(join(self.path, name))
        return status is not None and status.is_directory

    def log_start(self, topic: str, partition: int) -> int:
        """The recorded log start offset, 0 if none; raises `CorruptionError`.

        Ottla's copy with a checksum takes precedence over Kafka's checkpoint where it is valid.
        """
        key = TopicPartition(topic, partition)
        directory = join(self.path, partition_directory_name(topic, partition))
        tiered = None if self._tiers is None else self._tiers.log_start(directory)
        if tiered is not None:
            return tiered
        is_ours = self._header_of(directory) is not None
        copied = self._copied_starts() if is_ours else None
        if copied is not None:
            return copied.get(key, 0)
        stated = self.checkpointed(CHECKPOINT_LOG_START)
        if not stated and is_ours:
            return start_by_epochs(self.file_system, directory)  # both files are missing
        return stated.get(key, 0)

    def _copied_starts(self) -> dict[TopicPartition, int] | None:
        """The copy of the log starts, cached until it changes."""
        path = join(self.path, COPIED_LOG_STARTS)
        return self._kept(self._copied, path, lambda: copied_starts(self.file_system, self.path))

    def tiered_end(self, topic: str, partition: int) -> int:
        """The offset after the last one in the tier, all of which is committed; 0 without one."""
        if self._tiers is None:
            return 0
        return self._tiers.tiered_end(join(self.path, partition_directory_name(topic, partition)))

    def tier_share(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> "TierShare | None":
        """What another process needs to read these offsets from the tier; `None` without one."""
        if self._tiers is None:
            return None
        folder = join(self.path, partition_directory_name(topic, partition))
        return self._tiers.share(folder, from_offset, until_offset)

    def take_tier_share(self, share: "TierShare") -> None:
        """Goes by what another process has found of a partition, if it is of this directory."""
        if self._tiers is not None:
            self._tiers.take(share)

    def known_end(self, topic: str, partition: int) -> KnownEnd:
        """The recorded end of a log; raises `CorruptionError`."""
        key = TopicPartition(topic, partition)
        was_stopped_cleanly = self.was_stopped_cleanly
        points: dict[TopicPartition, int] = {}
        # A damaged high watermark checkpoint counts as missing; the recovery point is needed.
        high_watermark = self._high_watermarks_if_whole().get(key)
        try:
            points = self.checkpointed(CHECKPOINT_RECOVERY_POINT)
        except CorruptionError as error:
            if not self.steps_over_damage:
                reason = f"{error.reason}; {repair_hint(self.path)}"
                raise CorruptionError(error.path, error.position, reason) from error
        written = self._written_ends()
        return known_end(
            was_stopped_cleanly=was_stopped_cleanly,
            recovery_point=points.get(key, 0),
            high_watermark=high_watermark,
            is_complete=was_stopped_cleanly or written is not None,
            reached=0 if key in points else self._reached(key, was_stopped_cleanly or not points),
            written=0 if written is None else self._written_end(key, written),
        )

    def _written_end(self, key: TopicPartition, ends: WrittenEnds) -> int:
        name = partition_directory_name(*key)
        end = ends.of(name)
        directory = join(self.path, name)
        # Kafka may have cut the log since.
        is_trusted = end and is_ours_still(self.file_system, directory)
        return end if is_trusted else 0

    def _reached(self, key: TopicPartition, is_point_lost: bool) -> int:
        """The end of a log without recovery point, by the other checkpoints; 0 if not certain.

        Ottla writes all checkpoints together. Kafka adds a new partition to the others first, and
        a power failure may then leave a shorter log than they state.
        """
        directory = join(self.path, partition_directory_name(*key))
        if is_point_lost or self._header_of(directory) is not None:
            return self._named_partitions().offset_of(key) or 0
        return 0

    def _high_watermarks_if_whole(self) -> dict[TopicPartition, int]:
        try:
            return self.checkpointed(CHECKPOINT_HIGH_WATERMARK)
        except CorruptionError:
            return {}

    @property
    def steps_over_damage(self) -> bool:
        return self._on_damage is not None

    def report(self, damage: Finding) -> None:
        """Passes damage that a read has skipped to `on_damage`, once."""
        if self._on_damage is not None and damage not in self._reported:
            self._reported.add(damage)
            self._on_damage(damage)

    def checkpointed(self, name: str) -> dict[TopicPartition, int]:
        """An offset checkpoint, cached until its file changes; raises `CorruptionError`."""
        return self._find_checkpoint(name) or {}

    def _find_checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        path = join(self.path, name)
        return self._kept(
            self._checkpoints, path, lambda: OffsetCheckpoint(self.file_system, path).find()
        )

    def metadata_sizes(self) -> MetadataSizes:
        """What changes with the directory's metadata log; `None` without one."""
        if not has_metadata_log(self.file_system, self.path):
            return None
        return metadata_file_sizes(self.file_system, self.path)

    def take_topics(self, topics: KnownTopics, sizes: MetadataSizes) -> None:
        """Takes the topics of its metadata log from who has read it, when it had `sizes`."""
        self._known_topics = sizes, topics

    def _topics(self) -> KnownTopics:
        """The topics of the metadata log, cached until it changes."""
        sizes = self.metadata_sizes()
        if sizes is None:
            return NO_TOPICS
        if self._known_topics is None or not self._is_still(self._known_topics[0], sizes):
            self._known_topics = sizes, read_known_topics(self.file_system, self.path)
        self._known_topics = sizes, self._known_topics[1]
        return self._known_topics[1]

    def _is_still(self, before: MetadataSizes, sizes: MetadataSizes) -> bool:
        """Whether a metadata log has the topics that it had: the leader of a quorum writes into it
        twice a second.
        """
        if before == sizes or before is None or sizes is None:
            return before == sizes
        try:
            return has_only_idled(self.file_system, self.path, before, sizes)
        except OSError:
            return False  # The file is gone meanwhile.

    def is_tiered(self, topic: str) -> bool:
        """Whether a topic is known to have a remote tier, where the first segments may be alone."""
        return topic in self.tiered_topics or self._topics().is_tiered(topic)

    def _named_partitions(self) -> NamedPartitions:
        return find_named_partitions(self._find_checkpoint)

    def _unknown(self, topic: str, partition: int) -> UserError:
        key = TopicPartition(topic, partition)
        named_by = self._named_partitions().file_of(key)
        is_wanted = named_by is not None and self._topics().still_has(topic, partition)
        if is_wanted and not self.holds(topic, partition):
            path = join(self.path, partition_directory_name(topic, partition))
            return LostPartitionError(
                f"{path} is not there, though {named_by} names it; put it back"
            )
        topics = self.topics()
        if topic in topics:
            have = _some(map(str, topics[topic]))
            return UserError(
                f"{self.path} has no partition {partition} of topic {topic}; it has {have}"
            )
        return UserError(f"{self.path} has no topic {topic}; it has {_some(topics)}")


def _some(names: Iterable[str]) -> str:
    return some_text(list(names), NAMES_SHOWN) or "none"
