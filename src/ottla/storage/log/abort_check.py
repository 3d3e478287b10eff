"""Checks that the transaction indexes of a log have every abort, if they have no checksums.

If an index is missing or has lost entries, aborted records look committed. An index that Ottla
wrote has a checksum (`integrity`); one that Kafka wrote can only be compared with the abort markers
in the log. Such a log is scanned once, header by header, in slices, and missing entries are added.
Until the scan ends, `read_committed` consumers read up to `AbortCheck.bound`. Kafka does not check.

Format page: docs/format/transaction-index.md. A crash leaves the old index or the new one, and the
scan begins again, since the integrity file records its end last. After compaction there may be
markers without an entry, and entries without a marker: only an abort marker of a producer whose
records still exist needs an entry.
"""

import logging
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.record.batch import InvalidBatchError
from ottla.storage import scan
from ottla.storage.files.integrity import IntegrityFile
from ottla.storage.index.abort_entries import missing_aborts, offsets_text
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.transaction_tail import TransactionTail

if TYPE_CHECKING:
    # Readers need neither, and it would take 20 ms of their start.
    from ottla.storage.segment.segment import Segment
    from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)

SLICE_COUNT = 256
"""Headers per slice, which take less than a millisecond if batches are small."""

SLICE_SIZE = 1 << 19
"""Bytes per slice: each header of a large batch is a separate read, perhaps from the disk."""


class AbortCheck:
    """The scan of one log, up to its end at loading; `advance` continues it.

    All aborts before the offset `bound` are known. `bound` only moves forward.
    """

    def __init__(self, segments: "Segments", integrity: IntegrityFile, until_offset: int) -> None:
        self._segments = segments
        self._integrity = integrity
        self._until_offset = until_offset
        self._segment: Segment | None = segments.first
        self._position = 0
        self._tail = TransactionTail(segments.first.base_offset)
        self._lacks_some = False
        self.bound = segments.first.base_offset
        self.is_complete = True
        """Whether every batch so far could be read."""

    @property
    def is_done(self) -> bool:
        return self._segment is None

    def finish(self) -> None:
        """Scans to the end at once; raises `OSError`."""
        while self._segment is not None:
            self.advance()

    def advance(self) -> None:
        """Scans one slice, at most to the end of a segment; raises `OSError`."""
        segment = self._segment
        if segment is None:
            return
        if segment.log.is_closed:  # deleted by retention
            self._tail.aborted.clear()
            self._lacks_some = False
            self._go_on()
            return
        known = len(self._tail.aborted)
        try:
            is_at_end = self._walk(segment)
            self._lacks_some |= self._are_missing(segment, self._tail.aborted[known:])
            if is_at_end:
                self._end_segment(segment)
        except (CorruptionError, InvalidBatchError) as error:
            self.is_complete = False
            logger.error(
                "%s at byte %d: %s; which transactions were aborted after it is unknown, and %s is "
                "used unchecked; see ottla log check",
                segment.log.path, self._position, error, segment.transaction_index.path,
            )  # fmt: skip
            is_at_end = self._lacks_some = True
            with suppress(CorruptionError):
                self._end_segment(segment)
        if is_at_end:
            self._go_on()
        elif not self._lacks_some:
            self._move_bound(self._tail.next_offset)

    def _walk(self, segment: "Segment") -> bool:
        """Scans the next slice of headers; returns whether the segment has no more."""
        tail, begin = self._tail, self._position
        for number, (position, header) in enumerate(scan.headers(segment.log, begin)):
            self._position = position
            if header.base_offset >= self._until_offset:
                return True
            if number == SLICE_COUNT or position - begin >= SLICE_SIZE:
                return False
            if header.is_control:
                batch = scan.batch_of(segment.log, position)
                batch.check()
                tail.take_held(batch)
            else:
                tail.take_held(header)
            self._position = position + header.size
        return True

    def _are_missing(self, segment: "Segment", aborted: list[AbortedTransaction]) -> bool:
        if not aborted:
            return False
        first, last = aborted[0].last_offset, aborted[-1].last_offset
        entries = segment.transaction_index.entries_from(first)
        indexed = takewhile(lambda one: one.last_offset <= last, entries)
        return bool(missing_aborts(indexed, aborted))

    def _end_segment(self, segment: "Segment") -> None:
        aborted = self._tail.aborted
        if self._lacks_some:
            self._complete(segment, missing_aborts(segment.transaction_index.entries, aborted))
        is_active = segment is self._segments.active
        if not is_active:
            self._integrity.ended(segment.base_offset, segment.transaction_index.path)
        aborted.clear()
        self._lacks_some = False

    def _complete(self, segment: "Segment", missing: list[AbortedTransaction]) -> None:
        if not missing:
            return
        index = segment.transaction_index
        logger.warning(
            "%s lacks aborted transactions with markers in %s (offsets %s); they are added",
            index.path, segment.log.path, offsets_text(missing),
        )  # fmt: skip
        index.complete(missing)

    def _go_on(self) -> None:
        """Moves to the next segment; the scan ends after the last."""
        current = self._segment
        assert current is not None
        following = self._segments.after(current)
        is_new = following is not None and following.base_offset >= self._until_offset
        self._segment = None if is_new else following
        self._position = 0
        self._move_bound(self._tail.next_offset)

    def _move_bound(self, offset: int) -> None:
        first_open = self._tail.first_open_offset
        self.bound = max(self.bound, offset if first_open is None else min(offset, first_open))
