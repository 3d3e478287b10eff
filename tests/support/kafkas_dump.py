"""What Kafka's `DumpLogSegments` says of the indexes of a log directory, written again from what it
does: it reads each index as Kafka opens it, to its full length, and compares it with the log.

It shares no code with Ottla's indexes. Kafka's counterparts: `DumpLogSegments.dumpIndex`,
`dumpTimeIndex` and `dumpTxnIndex`, and the `sanityCheck` of the three indexes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from ottla.record.batch import iter_batches
from ottla.record.record import read_records

OFFSET_ENTRY = Struct(">ii")  # relative offset, position
TIME_ENTRY = Struct(">qi")  # timestamp, relative offset
ABORTED_ENTRY = Struct(">hqqqq")  # version, producer id, first, last and last stable offset


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    position: int
    last_offset: int
    timestamps: list[int]


@dataclass(slots=True)
class Dump:
    """The complaints about one directory, and how much there was to complain of."""

    complaints: list[str] = field(default_factory=list)
    entry_count: int = 0

    def look(self, partition: Path, *, is_stopped: bool) -> None:
        """Every index of a partition; only a stopped broker has cut its last ones to their size."""
        logs = sorted(partition.glob("*.log"))
        for log in logs:
            has_ended = is_stopped or log != logs[-1]
            self._look_at_offsets(log, has_ended=has_ended)
            self._look_at_times(log, has_ended=has_ended)
            self._look_at_aborted(log)

    def _say(self, path: Path, what: str) -> None:
        self.complaints.append(f"{path.parent.name}/{path.name}: {what}")

    def _look_at_offsets(self, log: Path, *, has_ended: bool) -> None:
        path, base = log.with_suffix(".index"), int(log.stem)
        entries = _entries(path, OFFSET_ENTRY)
        if not entries:
            return
        if has_ended and base + entries[-1][0] < base:
            self._say(path, "corrupt: the last offset lies before the first")
        if path.stat().st_size % OFFSET_ENTRY.size:
            self._say(path, "corrupt: its size is no multiple of an entry's")
        batches = {one.position: one for one in _batches(log)}
        for number, (relative, position) in enumerate(entries):
            if number and not relative:
                return  # room that was made ahead
            self.entry_count += 1
            batch = batches.get(position)
            if batch is None or batch.last_offset != base + relative:
                self._say(path, f"entry {number} has offset {base + relative}, the log {batch}")

    def _look_at_times(self, log: Path, *, has_ended: bool) -> None:
        path, base = log.with_suffix(".timeindex"), int(log.stem)
        entries = _entries(path, TIME_ENTRY)
        if not entries:
            return
        if has_ended and entries[-1][0] < entries[0][0]:
            self._say(path, "corrupt: the last timestamp lies before the first")
        if path.stat().st_size % TIME_ENTRY.size:
            self._say(path, "corrupt: its size is no multiple of an entry's")
        offsets = _entries(log.with_suffix(".index"), OFFSET_ENTRY)
        batches, before = list(_batches(log)), -1
        for number, (timestamp, relative) in enumerate(entries):
            if number and not relative:
                return
            self.entry_count += 1
            position = _lookup(offsets, relative)
            found = (one for one in batches if one.position >= position)
            batch = next((one for one in found if one.last_offset >= base + relative), None)
            if batch is None or batch.last_offset != base + relative:
                self._say(path, f"entry {number} has offset {base + relative}, the log {batch}")
            elif max(batch.timestamps) != timestamp:
                self._say(path, f"entry {number} has timestamp {timestamp}, the log {batch}")
            elif before >= timestamp:
                self._say(path, f"entry {number} has timestamp {timestamp} after {before}")
            before = timestamp

    def _look_at_aborted(self, log: Path) -> None:
        path, before = log.with_suffix(".txnindex"), -1
        if path.exists() and path.stat().st_size % ABORTED_ENTRY.size:
            self._say(path, "its last entry is torn")
        for version, _, first, last, _ in _entries(path, ABORTED_ENTRY):
            self.entry_count += 1
            if version > 0 or last < int(log.stem) or not before < last or first > last:
                self._say(path, f"corrupt: version {version}, {first} to {last} after {before}")
            before = last


def _entries(path: Path, layout: Struct) -> list[tuple[int, ...]]:
    """All that the length has room for, zeros included."""
    content = path.read_bytes() if path.exists() else b""
    return list(layout.iter_unpack(content[: len(content) // layout.size * layout.size]))


def _lookup(entries: list[tuple[int, ...]], target: int) -> int:
    """The position of the last entry up to an offset, as a search that knows no end finds it."""
    if not entries or entries[0][0] > target:
        return 0
    low, high = 0, len(entries) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if entries[middle][0] > target:
            high = middle - 1
        else:
            low = middle
    return entries[low][1]


def _batches(log: Path) -> Iterator[DumpedBatch]:
    position = 0
    for batch in iter_batches(log.read_bytes(), allow_torn_tail=True):
        timestamps = [one.timestamp_ms for one in read_records(batch)]
        yield DumpedBatch(position, batch.last_offset, timestamps)
        position += batch.size
