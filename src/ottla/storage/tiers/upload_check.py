"""Checks one upload: every object, the CRC of every batch, and each index against the log.

Kafka has no counterpart: it finds damage when a consumer reads it, and then serves an error.
"""

from collections.abc import Callable, Iterator
from functools import partial

from ottla.base.errors import CorruptionError
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import check_unpacked_size, read_records
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch, scan_segment
from ottla.storage.diagnosis.index_checks import OffsetIndexCheck, TimeIndexCheck
from ottla.storage.diagnosis.index_entries import IndexContent, parse_index
from ottla.storage.diagnosis.roles import Role
from ottla.storage.findings import Finding, FindingKind, LostOffsets, finding_of
from ottla.storage.index.transaction_index import parse_entries
from ottla.storage.reading.tiered_partition import RemoteFile
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.tier_objects import remedy
from ottla.storage.scan import first_offset_in_header

_NOTHING = IndexContent(entries=[], entry_size=1, free_size=0, excess_size=0)


@dataclass(slots=True, kw_only=True)
class Counts:
    """What was read of a tier."""

    batches: int = 0
    records: int = 0


def check_upload(
    tier: RemoteStorage,
    segment: RemoteLogSegmentMetadata,
    counts: Counts,
    *,
    deep: bool = False,
    on_batch: Callable[[Batch], None] = lambda batch: None,
) -> Iterator[Finding]:
    """What is wrong with an upload; with `deep` each batch is decompressed and its records read.

    `on_batch` gets every sound batch. Raises `UserError` if the tier does not answer.
    """
    try:
        size = tier.log_size(segment)
    except CorruptionError as error:
        yield finding_of(FindingKind.REMOTE_OBJECT, error)
        return
    content: dict[IndexType, bytes] = {}
    for kind in IndexType:
        try:
            content[kind] = tier.read_index(segment, kind) or b""
        except CorruptionError as error:
            yield finding_of(FindingKind.REMOTE_OBJECT, error)
    check = _LogCheck(tier, segment, content)
    file = RemoteFile(check.path, size, partial(tier.read_log, segment))
    try:
        for found in scan_segment(file, segment.start_offset, segment.end_offset + 1):
            if isinstance(found, DamagedRegion):
                yield from check.skip(found)
                continue
            counts.batches += 1
            counts.records += found.batch.record_count
            yield from check.take(found, deep=deep)
            on_batch(found.batch)
    except CorruptionError as error:  # An object that is decrypted or unpacked in chunks.
        yield finding_of(FindingKind.REMOTE_OBJECT, error)
        return
    yield from check.findings(size)


class _LogCheck:
    """Compares the batches of an upload's log with what else is known of it."""

    def __init__(
        self,
        tier: RemoteStorage,
        segment: RemoteLogSegmentMetadata,
        content: dict[IndexType, bytes],
    ) -> None:
        self.path = tier.path_of(segment, None)
        self._segment = segment
        self._due = segment.start_offset
        self._region: DamagedRegion | None = None
        """The last damage, until the next batch says which offsets it had."""
        self._is_damaged = False
        self._largest_ms = -1
        self._ranges = list(segment.epoch_ranges())
        offsets, times = IndexType.OFFSET, IndexType.TIMESTAMP
        base = segment.start_offset
        self._offsets = OffsetIndexCheck(
            tier.path_of(segment, offsets),
            parse_index(content[offsets], Role.OFFSET_INDEX, base) if offsets in content
            else _NOTHING,
            base,
        )  # fmt: skip
        self._times = TimeIndexCheck(
            tier.path_of(segment, times),
            parse_index(content[times], Role.TIME_INDEX, base) if times in content else _NOTHING,
            base,
        )
        self._has_times = times in content
        self._aborts = _AbortCheck(
            tier.path_of(segment, IndexType.TRANSACTION), content.get(IndexType.TRANSACTION)
        )

    def take(self, found: ScannedBatch, *, deep: bool) -> Iterator[Finding]:
        batch = found.batch
        yield from self._region_before(first_offset_in_header(batch))
        self._offsets.take(found)
        self._times.take(found)
        self._largest_ms = max(self._largest_ms, batch.max_timestamp_ms)
        reason = self._epoch_fault(batch)
        try:
            if deep:
                check_unpacked_size(batch)
                for _ in read_records(batch):
                    pass
            self._aborts.take(batch)
        except InvalidBatchError as error:
            reason = str(error)
        if reason is not None:
            yield self._damage(found.position, batch.size, reason, batch.last_offset)
        self._due = batch.last_offset + 1

    def skip(self, region: DamagedRegion) -> Iterator[Finding]:
        yield from self._region_before(region.stated_end(self._due))
        self._is_damaged = True
        self._region = region
        self._offsets.skip(region)
        self._times.skip(region)

    def _region_before(self, offset: int) -> Iterator[Finding]:
        """The damage before a batch that begins at an offset, or before the log's end."""
        region, self._region = self._region, None
        if region is not None:
            yield self._damage(region.position, region.size, region.reason, offset - 1)
            self._due = max(self._due, offset)

    def findings(self, size: int) -> Iterator[Finding]:
        """What the whole log shows."""
        yield from self._region_before(self._segment.end_offset + 1)
        found = [*self._offsets.findings(end=size, is_growing=False)]
        if self._has_times:
            found += self._times.findings(is_growing=False, is_active=False)
        if not self._is_damaged:
            found += self._aborts.findings()
        for one in found:
            reason = f"{one.reason} {remedy(self._segment)}"
            yield Finding(
                kind=FindingKind.REMOTE_OBJECT, path=one.path, position=one.position, reason=reason
            )
        if self._largest_ms > self._segment.max_timestamp_ms:
            reason = (
                f"has the timestamp {self._largest_ms}, after the largest of its metadata, "
                f"{self._segment.max_timestamp_ms} {remedy(self._segment)}"
            )
            yield Finding(
                kind=FindingKind.REMOTE_OBJECT, path=self.path, position=None, reason=reason
            )

    def _epoch_fault(self, batch: Batch) -> str | None:
        if batch.magic < 2:
            return None
        epoch, offset = batch.partition_leader_epoch, batch.base_offset
        for known, first, last in self._ranges:
            if first <= offset <= last and known != epoch:
                return f"leader epoch {epoch} at offset {offset}, which is of epoch {known}"
        return None

    def _damage(self, position: int, size: int, reason: str, last: int) -> Finding:
        lost = LostOffsets(first=self._due, last=max(self._due, last))
        return Finding(
            kind=FindingKind.REMOTE_OBJECT,
            path=self.path,
            position=position,
            size=size,
            reason=f"{reason}; {lost.text} cannot be read {remedy(self._segment)}",
            lost=lost,
        )


class _AbortCheck:
    """Compares a transaction index with the abort markers of transactions whose records are in the
    same segment: for each there must be an entry.
    """

    def __init__(self, path: str, content: bytes | None) -> None:
        self._path = path
        self._ends: set[int] | None = None
        if content is not None:
            self._ends = {one.last_offset for one in parse_entries(path, content)}
        self._open: set[int] = set()
        self._markers: set[int] = set()
        self._missing: list[int] = []

    def take(self, batch: Batch) -> None:
        if self._ends is None or batch.magic < 2:
            return
        if not batch.is_control:
            if batch.is_transactional:
                self._open.add(batch.producer_id)
            return
        marker = parse_end_transaction_marker(batch)
        if marker is None:
            return
        is_ours = batch.producer_id in self._open
        self._open.discard(batch.producer_id)
        if marker.is_commit:
            return
        self._markers.add(batch.base_offset)
        if is_ours and batch.base_offset not in self._ends:
            self._missing.append(batch.base_offset)

    def findings(self) -> Iterator[Finding]:
        if self._ends is None:
            return
        kind = FindingKind.TRANSACTION_INDEX
        if self._missing:
            reason = f"has no entry for the abort marker at offset {self._missing[0]}"
            yield Finding(kind=kind, path=self._path, position=None, reason=reason)
        elif wrong := sorted(self._ends - self._markers):
            reason = f"has an entry for offset {wrong[0]}, where no abort marker is"
            yield Finding(kind=kind, path=self._path, position=None, reason=reason)
