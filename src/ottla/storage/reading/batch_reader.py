"""Reads the batches of a log that nobody here writes: whole regions, batches, or headers alone.

If a broker replaces segments during a read, the read finds them again (`listed_segments`). Reads
raise at damage, or skip it if the directory was opened with `on_damage`.
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.record import read_records
from ottla.storage import scan
from ottla.storage.findings import Finding, FindingKind, unreadable
from ottla.storage.reading.listed_segments import Cursor
from ottla.storage.reading.log_damage import DamageOnDisk
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.lost_offsets import LostOffsetsError
from ottla.storage.reading.offsets import OffsetsOnDisk
from ottla.storage.reading.read_damage import stretches
from ottla.storage.reading.short_segments import ShortSegments
from ottla.storage.segment.segment_reader import Region, SegmentReader


class BatchReader:
    """The batches of one log; ranges are cut at its end."""

    def __init__(self, facts: LogFacts, offsets: OffsetsOnDisk, damage: DamageOnDisk) -> None:
        self._facts = facts
        self._offsets = offsets
        self._damage = damage
        self._short = ShortSegments(facts)

    def read(self, from_offset: int, until_offset: int | None = None) -> Iterator[Batch]:
        """The batches with offsets in [from_offset, until_offset), each checked.

        The first batch may begin before the range, and the last one end after it.
        """
        regions = self.regions(from_offset, until_offset)
        return (batch for region in regions for _, batch in self.checked(region))

    def checked(self, region: Region) -> Iterator[tuple[int, Batch]]:
        """The batches of one of `regions`, each with its position; raises `CorruptionError`."""
        checks = (scan.checksum,)
        try:
            yield from scan.batches(region.data, region.path, region.position, checks=checks)
        except CorruptionError as error:
            raise self._damage.error_at(error.path, error.position, error.reason) from error

    def regions(
        self, from_offset: int, until_offset: int | None = None, *, size: int | None = None
    ) -> Iterator[Region]:
        """As `read`, but unparsed, in regions of about `size` bytes (1 MiB by default)."""
        end = self._offsets.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        self._check_range(from_offset)
        if self._facts.directory.steps_over_damage:
            return self._sound_regions(from_offset, until)
        return self._regions(from_offset, until, size)

    def _check_range(self, offset: int) -> None:
        if not self._offsets.log_start_offset <= offset <= self._offsets.log_end_offset:
            raise self._damage.out_of_range(offset)

    def _regions(self, from_offset: int, until_offset: int, size: int | None) -> Iterator[Region]:
        damage, listed = self._damage, self._facts.listed
        cursor = Cursor(from_offset)
        yield from self._short.regions(cursor, until_offset)
        for reader in self._readers(cursor, until_offset):
            place = self._offsets.place(reader)
            try:
                for region in reader.regions(
                    cursor.offset, until_offset, size, limit=place.limit, on_gap=damage.gaps.check
                ):
                    yield region
                    cursor.offset = region.next_offset
                    del region
            except CorruptionError as error:
                cursor.is_replaced = listed.list_again()
                if not cursor.is_replaced and isinstance(error, LostOffsetsError):
                    raise
                if not cursor.is_replaced:
                    raise damage.located(error, reader) from error
            if cursor.offset < until_offset and not cursor.is_replaced:
                damage.check_size(reader, cursor.offset, place)
            yield from self._short.regions(cursor, until_offset)
        damage.check_reached(until_offset)
        damage.gaps.check(*listed.end_of_files, (cursor.offset, until_offset))

    def _sound_regions(self, from_offset: int, until_offset: int) -> Iterator[Region]:
        """One region for each sound batch; reports the damage between them."""
        report = self._facts.directory.report
        from_offset = due = self._damage.report_front(from_offset)
        cursor = Cursor(from_offset)
        for reader in self._readers(cursor, until_offset):
            for one in stretches(reader, self._offsets.place(reader)):
                if isinstance(one, Finding):
                    if one.from_offset < until_offset and one.until_offset > from_offset:
                        report(one)
                    due = max(due, one.until_offset)
                elif (
                    one.batch.last_offset >= cursor.offset and one.batch.base_offset < until_offset
                ):
                    self._damage.report_gap(reader.log.path, one, due)
                    due = cursor.offset = one.batch.last_offset + 1
                    data = one.batch.bytes_view()
                    yield Region(reader.log.path, one.position, data, due)
        self._damage.report_end(until_offset)

    def _readers(self, cursor: Cursor, until_offset: int) -> Iterator[SegmentReader]:
        damage = self._damage
        for reader in self._facts.listed.readers(cursor, until_offset, damage.raise_missing):
            if damage.is_of_this_log(reader):
                yield reader

    def headers(self, from_offset: int, until_offset: int) -> Iterator[Batch]:
        """The headers of the batches in [from_offset, until_offset), unchecked.

        Only control batches are sure to have their payload.
        """
        self._check_range(from_offset)
        for batch in self.headers_from(from_offset):
            if batch.base_offset >= until_offset:
                return
            yield batch

    def headers_from(self, from_offset: int) -> Iterator[Batch]:
        """As `headers`, up to the log's end; batches before its start are missing only when met."""
        if self._facts.directory.steps_over_damage:
            yield from self.read(from_offset)
            return
        cursor, end = Cursor(from_offset), self._offsets.log_end_offset
        yield from self._short.headers(cursor, end)
        for reader in self._readers(cursor, end):
            try:
                is_inside = cursor.offset > reader.base_offset
                start = reader.search_start(cursor.offset) if is_inside else 0
                for position, header in scan.headers(reader.log, start):
                    if header.last_offset >= cursor.offset:
                        is_control = header.is_control
                        yield scan.sound_batch(reader.log, position) if is_control else header
                        cursor.offset = header.last_offset + 1
                    if cursor.offset >= end:
                        return
            except CorruptionError as error:
                raise self._damage.located(error, reader) from error
            self._damage.check_size(reader, cursor.offset)
            yield from self._short.headers(cursor, end)
        self._damage.check_reached(end)

    def undecodable(self, region: Region, reason: str) -> Finding:
        """The damage of a region of which a batch cannot be decoded: that batch.

        Raises `CorruptionError` if a checksum is wrong.
        """
        for position, batch in self.checked(region):
            try:
                for _ in read_records(batch):
                    pass
            except InvalidBatchError as error:
                return undecodable_batch(region.path, position, batch, str(error))
        size, until = len(region.data), region.next_offset
        return unreadable(
            FindingKind.LOG_DAMAGE,
            region.path,
            (region.position, region.position + size),
            reason,
            (until, until),
        )


def undecodable_batch(path: str, position: int, batch: Batch, reason: str) -> Finding:
    """The damage of a batch with a valid CRC whose records cannot be decoded."""
    return unreadable(
        FindingKind.LOG_DAMAGE,
        path,
        (position, position + batch.size),
        reason,
        (batch.base_offset, batch.last_offset + 1),
    )
