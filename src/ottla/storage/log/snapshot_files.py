"""The `.snapshot` files of one log: taken at rolls and stops, read back newest first.

Format page: docs/format/producer-snapshot.md. A crash can leave a torn file, which `load_newest`
removes and passes over. Kafka's counterpart: the file half of `ProducerStateManager`.
"""

import logging
from bisect import bisect_left

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, remove_if_present
from ottla.storage.files.filenames import (
    FileKind,
    FileSuffix,
    parse_file_name,
    producer_snapshot_file_name,
)
from ottla.storage.index.producer_snapshot import (
    ProducerSnapshotEntry,
    read_snapshot,
    write_snapshot,
)
from ottla.storage.log.producer_state import BatchMetadata, ProducerEntry, ProducerState

logger = logging.getLogger(__name__)

HASH_TABLE_MIN_SIZE = 16


class SnapshotFiles:
    """The offsets that have a snapshot; replay starts at the newest.

    `checksums` are those that are known, by offset, to which others are added.
    """

    def __init__(
        self, file_system: FileSystem, directory: str, checksums: dict[int, int] | None = None
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._checksums = {} if checksums is None else checksums
        self._known_without = 0
        self.offsets: list[int] = sorted(
            parsed.offset
            for name in file_system.list(directory)
            if (parsed := parse_file_name(name)) is not None
            and parsed.kind is FileKind.PRODUCER_SNAPSHOT
            and parsed.suffix is FileSuffix.LIVE
        )

    def renamed(self, directory: str) -> None:
        """Records that the directory was renamed."""
        self._directory = directory

    def path(self, offset: int) -> str:
        return join(self._directory, producer_snapshot_file_name(offset))

    def paths(self, from_offset: int, until_offset: int) -> list[str]:
        """Those that a flush from the one offset to the other has to make durable.

        The first offset is one of them: a roll right after a flush takes its snapshot there.
        """
        return [self.path(one) for one in self.offsets if from_offset <= one <= until_offset]

    def take(self, state: ProducerState, *, durably: bool = True) -> None:
        """Writes the state at its end, unless a snapshot says as much already.

        Where a log begins there is nothing to say. One that is not written durably, and lost, costs
        the next recovery a replay from the one before (KAFKA-15046).
        """
        offset = state.map_end_offset
        newest = self.offsets[-1] if self.offsets else self._known_without
        if newest >= offset:
            return
        entries = [snapshot_entry(state.entries[key]) for key in hash_table_order(state.entries)]
        self._checksums.pop(offset, None)  # so that the newest is the last
        self._checksums[offset] = write_snapshot(
            self._file_system, self.path(offset), entries, durably=durably
        )
        self.offsets.append(offset)

    def load_newest(self, state: ProducerState, *, log_start_offset: int) -> None:
        """Fills the state from the newest readable snapshot; leaves it empty without one."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries, checksum = read_snapshot(
                    self._file_system, self.path(offset), self._checksums.get(offset)
                )
            except CorruptionError as error:
                logger.warning("%s; it is removed and an older one used", error)
                self.remove(offset)
                continue
            self._checksums[offset] = checksum
            state.load((producer_entry(entry) for entry in entries), offset)
            return
        state.clear(log_start_offset)
        self._known_without = log_start_offset

    def remove(self, offset: int) -> None:
        remove_if_present(self._file_system, self.path(offset))
        self.offsets.remove(offset)
        self._checksums.pop(offset, None)

    def retire(self, offset: int) -> str | None:
        """Forgets a snapshot that somebody else removes; its path, or `None` if there is none."""
        index = bisect_left(self.offsets, offset)
        if self.offsets[index : index + 1] != [offset]:
            return None
        del self.offsets[index]
        self._checksums.pop(offset, None)
        return self.path(offset)

    def remove_outside(self, first_offset: int, last_offset: int) -> None:
        """Removes snapshots that no longer lie within the log."""
        for offset in [one for one in self.offsets if not first_offset <= one <= last_offset]:
            self.remove(offset)

    def remove_strays(self, base_offsets: set[int]) -> None:
        """Keeps those of a segment's start, and one newer than all of them (the last stop's)."""
        strays = [one for one in self.offsets if one not in base_offsets]
        newest = strays.pop() if strays and strays[-1] > max(base_offsets, default=-1) else None
        for offset in strays:
            assert offset != newest
            self.remove(offset)


def hash_table_order(producer_ids: dict[int, ProducerEntry]) -> list[int]:
    """The order in which Java's `HashMap` would list the ids, which Kafka's snapshots show.

    Ids that share a bucket keep the order in which they were first seen.
    """
    size = HASH_TABLE_MIN_SIZE
    while len(producer_ids) > size * 3 // 4:
        size *= 2

    def bucket(producer_id: int) -> int:
        mixed = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
        return (mixed ^ (mixed >> 16)) & (size - 1)

    return sorted(producer_ids, key=bucket)


def snapshot_entry(entry: ProducerEntry) -> ProducerSnapshotEntry:
    last = entry.last_batch
    return ProducerSnapshotEntry(
        producer_id=entry.producer_id,
        epoch=entry.epoch,
        last_sequence=last.last_sequence if last else -1,
        last_offset=last.last_offset if last else -1,
        offset_delta=last.offset_delta if last else 0,
        timestamp_ms=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        transaction_first_offset=entry.transaction_first_offset,
    )


def producer_entry(entry: ProducerSnapshotEntry) -> ProducerEntry:
    producer = ProducerEntry(
        producer_id=entry.producer_id,
        epoch=entry.epoch,
        coordinator_epoch=entry.coordinator_epoch,
        last_timestamp_ms=entry.timestamp_ms,
        transaction_first_offset=entry.transaction_first_offset,
    )
    if entry.last_offset >= 0:
        producer.batches.append(
            BatchMetadata(
                entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms
            )
        )
        producer.is_partial = True
    return producer
