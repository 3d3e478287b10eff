"""What the files of a log and of its directory record, for a process that only reads.

Read when it is first asked for. The integrity file is read again where it contradicts the log:
compaction may have replaced a segment and its recorded facts meanwhile.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from ottla.base.files import join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    partition_directory_name,
)
from ottla.storage.files.integrity import Integrity
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.reading.listed_segments import ListedSegments
from ottla.storage.reading.read_damage import KnownEnd
from ottla.storage.segment.partition_files import ListedSegmentFiles, PartitionFiles

if TYPE_CHECKING:
    from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory


class LogFacts:
    """The recorded facts of one partition, and its segments as listed.

    `known_end` was read before the listing.
    """

    def __init__(
        self,
        directory: "ReadOnlyLogDirectory",
        topic: str,
        partition: int,
        files: PartitionFiles,
        known_end: KnownEnd,
    ) -> None:
        self.directory = directory
        self.file_system = directory.file_system
        self.topic = topic
        self.partition = partition
        self.path = join(directory.path, partition_directory_name(topic, partition))
        self.listed = ListedSegments(self.file_system, self.path, files)
        self.known_end = known_end

    @property
    def segments(self) -> ListedSegmentFiles:
        return self.listed.values

    @cached_property
    def topic_id(self) -> Uuid | None:
        return read_topic_id(self.file_system, join(self.path, PARTITION_METADATA))

    @cached_property
    def leader_epochs(self) -> LeaderEpochs:
        return LeaderEpochs.read(self.file_system, join(self.path, LEADER_EPOCHS))

    @cached_property
    def integrity(self) -> Integrity | None:
        return self.directory.integrity_of(self.path)

    def forget_integrity(self) -> None:
        """Reads the integrity file again when it is next asked for."""
        self.__dict__.pop("integrity", None)

    @cached_property
    def recorded_start(self) -> int:
        return self.directory.log_start(self.topic, self.partition)

    def checkpointed(self, name: str) -> int:
        """The log's offset in a checkpoint; 0 without one."""
        return self.directory.checkpointed(name).get(TopicPartition(self.topic, self.partition), 0)

    def cleaned_until(self) -> int:
        return self.checkpointed(CHECKPOINT_CLEANER)

    def look_again(self) -> None:
        """Reads the log's recorded end and lists its files again.

        A broker may have started, or rebuilt the partition, after the listing.
        """
        self.known_end = self.directory.known_end(self.topic, self.partition)
        self.forget_integrity()
        self.listed.list_all()
