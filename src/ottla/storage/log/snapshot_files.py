"""The `.snapshot` files of one log: written at rolls and shutdowns, read newest first.

Format page: docs/format/producer-snapshot.md. A crash can leave a torn file, which `load_newest`
removes. Kafka's counterpart: the file part of `ProducerStateManager`.
"""

import logging
from bisect import bisect_left
from typing import Final

from ottla.base.files import FileSystem, join, remove_if_present, replace_file
from ottla.storage.files.filenames import (
    FileKind,
    FileSuffix,
    parse_file_names,
    producer_snapshot_file_name,
)
from ottla.storage.index.producer_snapshot import (
    ProducerSnapshotEntry,
    checksum_of,
    judged_snapshots,
    write_snapshot,
)
from ottla.storage.log.gradual_snapshot import GradualSnapshot, hash_table_order
from ottla.storage.log.producer_state import BatchMetadata, ProducerEntry, ProducerState

logger = logging.getLogger(__name__)

AT_ONCE: Final = 1000
"""Snapshots of so many producers are written at once, others a few at a time."""


class SnapshotFiles:
    """The snapshot files of a directory, by offset.

    `checksums` are the recorded CRCs by offset; this class adds and removes entries.
    """

    def __init__(
        self, file_system: FileSystem, directory: str, checksums: dict[int, int] | None = None
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._checksums = {} if checksums is None else checksums
        self._known_without = 0
        self._gradual: GradualSnapshot | None = None
        self._unsynced: list[int] = []
        """Snapshots that were written after the flush that would have covered them."""
        there = parse_file_names(
            file_system.list(directory),
            kinds=[FileKind.PRODUCER_SNAPSHOT],
            suffixes=[FileSuffix.LIVE],
        )
        self.offsets: list[int] = sorted(one.offset for one in there)

    def renamed(self, directory: str) -> None:
        """Records that the directory was renamed."""
        self._directory = directory

    def path(self, offset: int) -> str:
        return join(self._directory, producer_snapshot_file_name(offset))

    def paths(self, from_offset: int, until_offset: int) -> list[str]:
        """The paths of the snapshots that a flush between two offsets makes durable."""
        unsynced = {one for one in self._unsynced if one <= until_offset}
        self._unsynced = [one for one in self._unsynced if one > until_offset]
        # Both bounds are included: a roll right after a flush takes a snapshot at `from_offset`.
        return [
            self.path(one)
            for one in self.offsets
            if from_offset <= one <= until_offset or one in unsynced
        ]

    def take(self, state: ProducerState, *, durably: bool = True) -> None:
        """Writes a snapshot of the state, unless there is one at its offset or later.

        None is written at the log start, where the state is empty. If a snapshot that was not
        written durably is lost, the next recovery replays from an earlier one (KAFKA-15046).
        """
        self.finish(state)
        offset = state.map_end_offset
        newest = self.offsets[-1] if self.offsets else self._known_without
        if newest >= offset:
            return
        entries = [snapshot_entry(state.entries[key]) for key in hash_table_order(state.entries)]
        self._checksums.pop(offset, None)  # keeps the newest last
        self._checksums[offset] = write_snapshot(
            self._file_system, self.path(offset), entries, durably=durably
        )
        self.offsets.append(offset)

    def begin(self, state: ProducerState) -> None:
        """As `take`, not durably; a snapshot of many producers is begun, for `advance`.

        One that is begun is finished first, and none is taken meanwhile: recovery then replays
        from an earlier one.
        """
        if self._gradual is not None:
            return
        if len(state.entries) <= AT_ONCE:
            self.take(state, durably=False)
            return
        offset = state.map_end_offset
        if not self.offsets or self.offsets[-1] < offset:
            self._gradual = state.snapshot = GradualSnapshot(state.entries, offset)

    @property
    def is_begun(self) -> bool:
        return self._gradual is not None

    def advance(self, state: ProducerState, count: int) -> None:
        """Continues the snapshot that is begun, by so many producers."""
        gradual = self._gradual
        if gradual is None or not gradual.advance(count):
            return
        self.drop(state)
        content, offset = gradual.content(), gradual.offset
        self._checksums.pop(offset, None)
        replace_file(self._file_system, self.path(offset), content, durably=False)
        self._checksums[offset] = checksum_of(content)
        self.offsets.append(offset)
        self._unsynced.append(offset)

    def finish(self, state: ProducerState) -> None:
        """Writes the snapshot that is begun."""
        while self._gradual is not None:
            self.advance(state, AT_ONCE)

    def drop(self, state: ProducerState) -> None:
        """Gives up the snapshot that is begun."""
        self._gradual = state.snapshot = None

    def load_newest(self, state: ProducerState, *, log_start_offset: int) -> None:
        """Loads the newest valid snapshot and removes damaged ones; without one, clears `state`."""
        self.drop(state)
        paths = {one: self.path(one) for one in self.offsets}
        for found in judged_snapshots(self._file_system, paths, self._checksums):
            if found.fault is None:
                self._checksums[found.offset] = found.checksum
                state.load(map(producer_entry, found.entries), found.offset)
                return
            logger.warning("%s; it is removed, and an older snapshot is used", found.fault.text)
            self.remove(found.offset)
        state.clear(log_start_offset)
        self._known_without = log_start_offset

    def remove(self, offset: int) -> None:
        remove_if_present(self._file_system, self.path(offset))
        self.offsets.remove(offset)
        self._checksums.pop(offset, None)

    def retire(self, offset: int) -> str | None:
        """Forgets a snapshot whose file the caller removes; its path, or `None` without one."""
        index = bisect_left(self.offsets, offset)
        if self.offsets[index : index + 1] != [offset]:
            return None
        del self.offsets[index]
        self._checksums.pop(offset, None)
        return self.path(offset)

    def remove_outside(self, first_offset: int, last_offset: int) -> None:
        """Removes snapshots before `first_offset` or after `last_offset`."""
        for offset in [one for one in self.offsets if not first_offset <= one <= last_offset]:
            self.remove(offset)

    def remove_strays(self, base_offsets: set[int]) -> None:
        """Removes snapshots that are at no segment's start, except the newest of the log.

        That one is kept if it is after the last base offset: the last shutdown wrote it.
        """
        strays = [one for one in self.offsets if one not in base_offsets]
        newest = strays.pop() if strays and strays[-1] > max(base_offsets, default=-1) else None
        for offset in strays:
            assert offset != newest
            self.remove(offset)


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
