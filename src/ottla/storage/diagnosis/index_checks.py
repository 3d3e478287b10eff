"""Compares a segment's offset and time index with its log.

Format pages: docs/format/offset-index.md, docs/format/time-index.md. An index is read before its
log is scanned, so for a segment in use it can only lack entries, or have entries for batches that
are not written yet, after the scanned end.
"""

from collections.abc import Iterator

from ottla.record.batch import NO_TIMESTAMP
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch
from ottla.storage.diagnosis.index_entries import IndexContent
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.scan import first_offset_in_header


class IndexFindings:
    """Collects the errors of one index as one finding, since a damaged file may have thousands."""

    def __init__(self, kind: FindingKind, path: str) -> None:
        self._kind = kind
        self._path = path
        self._wrong: dict[int, str] = {}

    def add(self, position: int, reason: str) -> None:
        self._wrong.setdefault(position, reason)

    def condensed(self) -> Iterator[Finding]:
        if not self._wrong:
            return
        position = min(self._wrong)
        others = len(self._wrong) - 1
        more = f" (and {others} more wrong entries after it)" if others else ""
        yield Finding(
            kind=self._kind,
            path=self._path,
            position=position,
            reason=self._wrong[position] + more,
        )


class OffsetIndexCheck:
    """Checks that entries ascend, and that each points to the start of a batch.

    Kafka adds at most one entry per append. For an append of several batches, the entry has the
    last offset of the append, and the position of its first batch.
    """

    def __init__(self, path: str, content: IndexContent, base_offset: int) -> None:
        self._wrong = IndexFindings(FindingKind.OFFSET_INDEX, path)
        self._content = content
        self._by_position: dict[int, int] = {}
        self._by_offset: dict[int, int] = {}
        self._regions: list[DamagedRegion] = []
        self._last_offset = base_offset - 1
        self._read_entries(base_offset)

    def _read_entries(self, base_offset: int) -> None:
        content = self._content
        last_offset, last_position = base_offset - 1, -1
        for number, (offset, position) in enumerate(content.entries):
            if offset <= last_offset or position <= last_position:
                before = f"offset {last_offset} at position {last_position}"
                if last_position < 0:
                    before = f"the segment's start at offset {base_offset}"
                reason = f"offset {offset} at position {position} does not come after {before}"
                self._wrong.add(content.position_of(number), reason)
                continue
            self._by_position[position] = self._by_offset[offset] = number
            last_offset, last_position = offset, position
        if content.excess_size:
            reason = f"the last {content.excess_size} bytes are not a whole entry"
            self._wrong.add(content.excess_position, reason)

    def take(self, scanned: ScannedBatch) -> None:
        batch = scanned.batch
        is_old = batch.magic < 2
        number = self._by_position.pop(scanned.position, None)
        if number is not None:
            offset = self._content.entries[number][0]
            # Old brokers indexed a wrapper by its first offset, which its header does not have.
            first = self._last_offset + 1 if is_old else first_offset_in_header(batch)
            if offset < first:
                reason = f"offset {offset} points to a batch that begins at offset {first}"
                self._wrong.add(self._content.position_of(number), reason)
            if is_old or offset < first:
                self._by_offset.pop(offset, None)
        self._by_offset.pop(batch.last_offset, None)
        self._last_offset = batch.last_offset

    def skip(self, region: DamagedRegion) -> None:
        self._regions.append(region)

    def findings(self, *, end: int, is_growing: bool) -> Iterator[Finding]:
        """The findings, after the log was scanned up to the position `end`."""
        entries, place = self._content.entries, self._content.position_of
        for position, number in self._by_position.items():
            offset = entries[number][0]
            self._by_offset.pop(offset, None)
            if position >= end:
                if not is_growing:
                    reason = f"position {position} of offset {offset} is after the log's end"
                    self._wrong.add(place(number), reason)
            elif not any(one.position <= position < one.end for one in self._regions):
                reason = f"no batch begins at position {position} of offset {offset}"
                self._wrong.add(place(number), reason)
        if not self._regions:
            for offset, number in self._by_offset.items():
                if not is_growing or offset <= self._last_offset:
                    self._wrong.add(place(number), f"no batch ends at offset {offset}")
        yield from self._wrong.condensed()


class TimeIndexCheck:
    """Checks that each entry has the largest timestamp up to its offset, and the last entry that
    of the segment.

    After damage, a timestamp that is larger than those in the log counts as right.
    """

    def __init__(self, path: str, content: IndexContent, base_offset: int) -> None:
        self._wrong = IndexFindings(FindingKind.TIME_INDEX, path)
        self._content = content
        self._next = 0
        self._largest_ms = NO_TIMESTAMP
        self._is_damaged = False
        self._read_entries(base_offset)

    def _read_entries(self, base_offset: int) -> None:
        last_ms, last_offset = NO_TIMESTAMP, base_offset
        for number, (timestamp_ms, offset) in enumerate(self._content.entries):
            if timestamp_ms <= last_ms or offset < last_offset:
                reason = (
                    f"timestamp {timestamp_ms} at offset {offset} does not come after "
                    f"timestamp {last_ms} at offset {last_offset}"
                )
                self._wrong.add(self._content.position_of(number), reason)
            else:
                last_ms, last_offset = timestamp_ms, offset
        if self._content.excess_size:
            reason = f"the last {self._content.excess_size} bytes are not a whole entry"
            self._wrong.add(self._content.excess_position, reason)

    def take(self, scanned: ScannedBatch) -> None:
        entries = self._content.entries
        if self._is_damaged:
            # The batch of an entry may be lost; its timestamp is then a lower bound.
            first = first_offset_in_header(scanned.batch)
            while self._next < len(entries) and entries[self._next][1] < first:
                self._largest_ms = max(self._largest_ms, entries[self._next][0])
                self._next += 1
        self._largest_ms = max(self._largest_ms, scanned.batch.max_timestamp_ms)
        while self._next < len(entries) and entries[self._next][1] <= scanned.batch.last_offset:
            timestamp_ms, offset = entries[self._next]
            is_believed = self._is_damaged and timestamp_ms > self._largest_ms
            if timestamp_ms != self._largest_ms and not is_believed:
                reason = (
                    f"timestamp {timestamp_ms} is not the largest up to offset {offset}, "
                    f"which is {self._largest_ms}"
                )
                self._wrong.add(self._content.position_of(self._next), reason)
            self._next += 1

    def skip(self, region: DamagedRegion) -> None:
        self._is_damaged = True

    def findings(self, *, is_growing: bool, is_active: bool) -> Iterator[Finding]:
        content = self._content
        if not is_growing and not self._is_damaged:
            for number in range(self._next, len(content.entries)):
                reason = f"offset {content.entries[number][1]} is after the log's end"
                self._wrong.add(content.position_of(number), reason)
        if not is_active and not self._is_damaged and self._largest_ms >= 0:
            self._check_last()
        yield from self._wrong.condensed()

    def _check_last(self) -> None:
        """The last entry of an inactive segment must have its largest timestamp."""
        content = self._content
        last_ms = content.entries[-1][0] if content.entries else NO_TIMESTAMP
        if last_ms < self._largest_ms:
            position = content.position_of(max(0, len(content.entries) - 1))
            reason = f"the segment's largest timestamp, {self._largest_ms}, is missing at the end"
            self._wrong.add(position, reason)
