"""What the records about a tier say of a log in a directory, without asking the tier itself.

So a picture of a log, and the rules of its retention, need no store that answers. Kafka tells it of
a running broker only: ListOffsets with -4 and -5.
"""

from collections.abc import Collection
from functools import cached_property

from ottla.base.errors import CorruptionError
from ottla.base.values import dataclass
from ottla.storage.findings import Finding
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.lineage import Piece, chain, highest_remote_offset
from ottla.storage.remote.segment_index import SegmentIndexes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePart:
    """The part of a log that is in the tier."""

    start_offset: int
    """The log's start, which is in the tier if there are `pieces`."""
    pieces: tuple[Piece, ...] = ()
    """What is in the tier alone: the offsets before the first local segment."""
    gaps: tuple[Finding, ...] = ()
    """Offsets that neither the tier nor the directory has."""
    highest_offset: int = -1
    """The last offset up to which the tier has the log; -1 if it has nothing of it."""
    tier_size: int = 0
    """The bytes of all its uploads, also of those that are local too."""

    @property
    def size(self) -> int:
        """The bytes of the uploads of `pieces`."""
        return sum(one.segment.size for one in self.pieces)


class RemoteRecords:
    """The records in the log directories of one broker, which are read when they are first asked
    for.
    """

    def __init__(self, directories: Collection[ReadOnlyLogDirectory]) -> None:
        self._directories = directories

    def part_of(self, log: ReadOnlyLog) -> RemotePart:
        """Raises `CorruptionError` for a damaged checkpoint of the log."""
        start = log.log_start_offset
        topic_id = log.topic_id
        index = None
        if topic_id is not None:
            index = self._indexes.find(topic_id, log.partition)
        if index is None:
            return RemotePart(start_offset=start)
        try:
            epochs = log.leader_epochs.entries
        except CorruptionError:
            epochs = ()
        recorded = min(start, log.recorded_start)
        found = chain(index, epochs, recorded, start)
        highest = (
            highest_remote_offset(index, epochs, start, log.log_end_offset) if epochs else None
        )
        return RemotePart(
            start_offset=min(found.start_offset, start),
            pieces=found.pieces,
            gaps=tuple(one for one in found.findings if one.lost is not None),
            highest_offset=-1 if highest is None else highest.start_offset,
            tier_size=index.size,
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the records."""
        return self._metadata.findings

    @property
    def _indexes(self) -> SegmentIndexes:
        return self._metadata.indexes

    @cached_property
    def _metadata(self) -> RemoteLogMetadata:
        return read_remote_log_metadata(self._directories)
