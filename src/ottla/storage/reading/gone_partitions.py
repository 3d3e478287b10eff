"""Partitions that have no folder in a broker's directories any more, and whose tier has uploads.

Where a checkpoint names such a partition, its folder is lost; in a directory without partitions,
all of them are. A partition that another broker of a cluster has is none of them. Kafka has no
counterpart: its followers begin with the leader's local log.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    REMOTE_LOG_METADATA,
    DirectoryState,
    log_file_name,
    parse_directory_name,
    partition_directory_name,
)
from ottla.storage.files.known_topics import NO_TOPICS, read_known_topics
from ottla.storage.files.named_partitions import find_named_partitions
from ottla.storage.files.partition_metadata import topic_id_content
from ottla.storage.log.leader_epochs import EpochEntry, epochs_content
from ottla.storage.reading.metadata_reader import RemoteLogMetadata
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import SegmentState, TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GonePartition:
    """A partition that is read from its tier alone. `log_start` is `None` if nothing records it."""

    partition: TopicIdPartition
    log_start: int | None

    def files(self, epochs: Sequence[EpochEntry], end_offset: int) -> dict[str, bytes]:
        """The files that its folder would have besides those of its segments.

        The last is an active segment without records: what ends the tier is no torn append.
        """
        return {
            PARTITION_METADATA: topic_id_content(self.partition.topic_id),
            LEADER_EPOCHS: epochs_content(epochs),
            log_file_name(end_offset): b"",
        }


def find_gone(
    disk: FileSystem, paths: Sequence[str], metadata: RemoteLogMetadata, tier: RemoteStorage
) -> dict[str, GonePartition]:
    """The gone partitions, by the paths of the folders that they would have."""
    here = _partitions_here(disk, paths)
    known = (read_known_topics(disk, path) for path in paths)
    topics = next((each for each in known if each.is_found or each.entries), NO_TOPICS)
    was_in = {key: path for path in paths for key in _named(disk, path)}
    newest: dict[TopicPartition, tuple[int, TopicIdPartition]] = {}
    for when, one in _uploaded(metadata, tier):
        key = TopicPartition(one.topic, one.partition)
        entry = topics.entries.get(one.topic)
        is_other = entry is not None and entry.topic_id != one.topic_id
        is_deleted = entry is None and topics is not NO_TOPICS
        is_ours = key in was_in or not here.keys() - {REMOTE_LOG_METADATA}
        if key.partition in here.get(key.topic, ()) or is_other or is_deleted or not is_ours:
            continue
        # Without a metadata log nothing says which of two topics with one name was deleted.
        newest[key] = max(newest.get(key, (when, one)), (when, one), key=lambda pair: pair[0])
    return {
        join(was_in.get(key, paths[0]), partition_directory_name(*key)): GonePartition(
            partition=one, log_start=_recorded_start(disk, was_in.get(key), key)
        )
        for key, (_, one) in newest.items()
    }


def _partitions_here(disk: FileSystem, paths: Sequence[str]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for path in paths:
        for name in disk.list(path):
            parsed = parse_directory_name(name)
            if parsed is not None and parsed.state is DirectoryState.LIVE:
                found.setdefault(parsed.topic, set()).add(parsed.partition)
    return found


def _named(disk: FileSystem, path: str) -> set[TopicPartition]:
    """The partitions that a directory had, by its checkpoints."""

    def find(name: str) -> Mapping[TopicPartition, int] | None:
        return OffsetCheckpoint(disk, join(path, name)).find()

    return find_named_partitions(find).partitions()


def _uploaded(
    metadata: RemoteLogMetadata, tier: RemoteStorage
) -> Iterator[tuple[int, TopicIdPartition]]:
    """The partitions that have finished uploads, with the times of these."""
    for index in metadata.indexes:
        for one in index.segments():
            if one.state is SegmentState.COPY_SEGMENT_FINISHED:
                yield one.event_timestamp_ms, index.partition
    if not metadata.partitions or metadata.findings:
        for upload in tier.uploads():
            if upload.is_complete:
                yield -1, upload.partition


def _recorded_start(disk: FileSystem, path: str | None, key: TopicPartition) -> int | None:
    if path is not None:
        with suppress(CorruptionError):
            return OffsetCheckpoint(disk, join(path, CHECKPOINT_LOG_START)).read().get(key)
    return None
