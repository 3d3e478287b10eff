"""Checks one partition's files, each alone and compared with the others.

Format pages: docs/format/README.md. Each segment's log is read once, in order, and indexes,
producers and epochs are compared with it on the way. Nothing is written.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field
from typing import TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, base_name, join, parent_directory, read_file
from ottla.base.values import dataclass
from ottla.record.batch import InvalidBatchError
from ottla.record.record import check_unpacked_size, read_records
from ottla.storage import scan
from ottla.storage.damage_scan import (
    MAX_OFFSETS,
    DamagedRegion,
    ScannedBatch,
    misplaced_region,
    scan_segment,
)
from ottla.storage.diagnosis.epoch_checks import epoch_check
from ottla.storage.diagnosis.index_checks import OffsetIndexCheck, TimeIndexCheck
from ottla.storage.diagnosis.index_entries import parse_index
from ottla.storage.diagnosis.integrity_checks import (
    changed_index_findings,
    read_own,
    wrong_file_findings,
)
from ottla.storage.diagnosis.metadata_snapshot_check import metadata_snapshot_findings
from ottla.storage.diagnosis.producer_checks import (
    ProducerReplay,
    SnapshotToCheck,
    is_compacted,
    snapshot_to_check,
)
from ottla.storage.diagnosis.roles import (
    SEGMENT_ROLES,
    FileDescription,
    Role,
    describe,
    is_directory,
)
from ottla.storage.files import filenames
from ottla.storage.files.filenames import MAX_OFFSET, FileKind, FileName, FileSuffix
from ottla.storage.files.integrity import Integrity
from ottla.storage.files.log_file import LogFile
from ottla.storage.files.losses import SegmentGap
from ottla.storage.files.metadata_files import QUORUM_STATE, voters_of
from ottla.storage.findings import Finding, FindingKind, LostOffsets, finding_of
from ottla.storage.index.producer_snapshot import (
    JudgedSnapshot,
    ProducerSnapshotEntry,
    judged_snapshots,
)
from ottla.storage.index.transaction_index import TransactionIndex
from ottla.storage.reading.lost_offsets import Gaps
from ottla.storage.segment.log_order import is_flipped_offset
from ottla.storage.segment.partition_files import (
    empty_log,
    listed_base_offsets,
    missing_index,
    orphan_index,
)
from ottla.storage.segment.swaps import judge_swaps, swap_groups

T = TypeVar("T")

ATTEMPTS = 5
"""How often a log is checked if its segments are replaced meanwhile."""

INDEX_ROLES = {
    SEGMENT_ROLES[kind]
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How to check a partition.

    `deep`: decompress every batch and check its records. `is_live`: another process holds the
    directory's lock. `cleaned_until` and `log_start` are the partition's checkpointed first dirty
    offset and log start offset.
    """

    deep: bool = False
    is_live: bool = False
    cleaned_until: int = 0
    log_start: int = 0


@dataclass(slots=True)
class PartitionReport:
    """The findings, the amount that was read, and the log's start and end offsets."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    segment_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    size: int = 0
    start_offset: int = 0
    end_offset: int = 0
    base_offsets: set[int] = field(default_factory=set)
    """The base offsets of all existing segments."""
    gaps: list[SegmentGap] = field(default_factory=list)
    tight_from: int = 0
    """A gap before a segment that begins after this offset is not left by compaction."""
    integrity: Integrity | None = None
    """Ottla's integrity file."""

    @property
    def is_sound(self) -> bool:
        return all(finding.is_note for finding in self.findings)

    @property
    def wrong_files(self) -> list[int]:
        """The base offsets of files that belong to other segments."""
        wrong = (one.path for one in self.findings if one.kind is FindingKind.WRONG_FILE)
        return [describe(base_name(path)).offset for path in wrong]


def check_partition(file_system: FileSystem, path: str, options: CheckOptions) -> PartitionReport:
    """Reads every file of a partition's directory; raises `OSError`."""
    # A broker may replace and delete segments during the check, which then looks like damage: the
    # check is repeated. After the last attempt, findings count in segments that did not change.
    if not options.is_live:
        return _PartitionCheck(file_system, path, options).run()
    attempts = 0
    while True:
        attempts += 1
        before = _segment_numbers(file_system, path)
        try:
            report = _PartitionCheck(file_system, path, options).run()
        except FileNotFoundError:
            if attempts == ATTEMPTS or file_system.status(path) is None:
                raise
            continue
        now = _segment_numbers(file_system, path)
        # Compaction may have removed all records at the end of the segments.
        report.end_offset = max(report.end_offset, *now, 0)
        changed = {one for one, number in before.items() if now.get(one) != number}
        if not changed or report.is_sound:
            return report
        if attempts == ATTEMPTS:
            report.findings = [_excused(one, changed) for one in report.findings]
            return report


def _segment_numbers(file_system: FileSystem, path: str) -> dict[int, int]:
    """The inode number of each segment's log file, which shows whether it was replaced."""
    found = {}
    for name in file_system.list(path):
        described = describe(name)
        if described.role is Role.LOG and described.is_live_segment_file:
            status = file_system.status(join(path, name))
            if status is not None:
                found[described.offset] = status.number
    return found


def _excused(finding: Finding, changed: set[int]) -> Finding:
    """The finding, or a note instead if it is about a replaced segment or the whole log."""
    described = describe(base_name(finding.path))
    is_of_segment = described.role in SEGMENT_ROLES.values()
    is_of_segment = is_of_segment and described.role is not Role.PRODUCER_SNAPSHOT
    if finding.is_note or (is_of_segment and described.offset not in changed):
        return finding
    reason = "was replaced during each attempt; check again when the broker is less busy"
    return Finding(kind=FindingKind.STATE, path=finding.path, position=None, reason=reason)


class _PartitionCheck:
    """One attempt to check a partition."""

    def __init__(self, file_system: FileSystem, path: str, options: CheckOptions) -> None:
        self._files = file_system
        self._path = path
        self._options = options
        self._report = PartitionReport(path)
        names, others = file_system.list(path), file_system.list_others(path)
        self._folders = [one for one in others if is_directory(file_system, join(path, one))]
        folders = {*self._folders}
        self._names = {name: describe(name) for name in names if name not in folders}
        self._epochs = epoch_check(file_system, self._at(filenames.LEADER_EPOCHS))
        self._gaps = Gaps(file_system, path, lambda: options.cleaned_until)
        self._last_offset = -1
        self._is_compacted = False

    def run(self) -> PartitionReport:
        listed = self._offsets(Role.LOG)
        bases = self._without_empty(listed)
        self._add(self._check_folders())
        self._add(self._check_names(set(listed)))
        self._add(self._check_indexes(bases))
        self._add(self._check_quorum_state())
        self._report.integrity, damage = read_own(self._files, self._path)
        self._add(damage)
        self._add(self._check_swaps(listed))
        report = self._report
        # Listed again, since compaction may have been replacing a segment.
        report.base_offsets = {*bases, *listed_base_offsets(self._files, self._path)}
        if bases:
            report.start_offset = bases[0]
            self._check_segments(bases)
        self._add(
            self._epochs.findings(
                self._files,
                self._at(filenames.LEADER_EPOCHS),
                offsets=(self._options.log_start, report.end_offset),
                is_growing=self._options.is_live,
            )
        )
        report.findings.sort(key=lambda one: (base_name(one.path), one.position or 0))
        return report

    def _at(self, name: str) -> str:
        return join(self._path, name)

    def _add(self, findings: Iterable[Finding]) -> None:
        self._report.findings.extend(findings)

    def _offsets(self, role: Role) -> list[int]:
        return sorted(
            one.offset
            for one in self._names.values()
            if one.role is role and one.is_live_segment_file
        )

    def _without_empty(self, listed: Sequence[int]) -> list[int]:
        """Leaves out empty log files inside other segments, and adds findings about them."""
        bases: list[int] = []
        sizes = self._files.sizes(self._path, map(filenames.log_file_name, listed))
        for one, size in zip(listed, sizes, strict=True):
            before = bases[-1] if bases and not size else None
            found = before if before is None else empty_log(self._files, self._path, one, before)
            if found is None:
                bases.append(one)
            else:
                self._report.findings.append(found)
        return bases

    # Names

    def _check_folders(self) -> Iterator[Finding]:
        """Folders that have the names of a log's files, also of those that are being written."""
        for name in self._folders:
            role = describe(name).role
            if role is not Role.UNKNOWN or name.endswith(".tmp"):
                kind = FindingKind.LOG_DAMAGE if role is Role.LOG else FindingKind.STRANGER
                reason = "is not a regular file; move it away"
                yield Finding(kind=kind, path=self._at(name), position=None, reason=reason)

    def _check_quorum_state(self) -> Iterator[Finding]:
        """The file beside a metadata log that names its voters."""
        if QUORUM_STATE in self._names:
            try:
                voters_of(self._files, parent_directory(self._path))
            except CorruptionError as error:
                yield finding_of(FindingKind.BROKER_FILE, error)

    def _check_names(self, bases: set[int]) -> Iterator[Finding]:
        first = min(bases, default=None)
        for name, described in self._names.items():
            found = _judge_name(name, described)
            if found is not None:
                kind, reason = found
                yield Finding(kind=kind, path=self._at(name), position=None, reason=reason)
            elif described.role in INDEX_ROLES and described.offset not in bases:
                yield orphan_index(self._at(name), described.offset, first)
            if described.is_whole_snapshot:
                yield from metadata_snapshot_findings(self._files, self._at(name))

    def _check_indexes(self, bases: Sequence[int]) -> Iterator[Finding]:
        """Indexes that inactive segments lack."""
        for base_offset in bases[:-1]:
            for index_kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                if FileName(offset=base_offset, kind=index_kind).text not in self._names:
                    yield missing_index(self._path, base_offset, index_kind)

    def _check_swaps(self, bases: list[int]) -> Iterator[Finding]:
        """Swaps that must not replace segments, and that the next start sets aside."""
        if all(one.suffix is not FileSuffix.SWAP for one in self._names.values()):
            return
        for group in swap_groups(filenames.parse_file_names(self._names, kinds=[FileKind.LOG])):
            found = judge_swaps(self._files, self._path, group, bases, self._report.integrity)
            if found.fault is not None:
                yield found.fault

    # Segments

    def _check_segments(self, bases: list[int]) -> None:
        report = self._report
        start, newest = self._snapshots(bases[0])
        replay = ProducerReplay(bases[0], start, newest)
        self._last_offset = bases[0] - 1
        for number, base_offset in enumerate(bases):
            due = self._last_offset + 1
            limit = bases[number + 1] if number + 1 < len(bases) else base_offset + MAX_OFFSETS
            is_active = number + 1 == len(bases)
            segment = _SegmentCheck(self._files, self._path, base_offset, is_active=is_active)
            try:
                segment.open()
            except FileNotFoundError:
                if not self._options.is_live:
                    raise
                self._add(_gone(segment.log_path))
                replay.skip()
                continue
            with closing(segment):
                self._check_segment(segment, limit, replay)
            if base_offset > due:
                gap = SegmentGap(
                    before=bases[number - 1],
                    end_offset=due,
                    base_offset=base_offset,
                    last_offset=segment.first_last_offset,
                )
                report.gaps.append(gap)
        report.end_offset = max(self._last_offset + 1, bases[-1])
        report.tight_from = self._tight_from()
        self._add(self._gap_notes())
        if newest is None or newest.offset <= report.end_offset:
            self._add(replay.check_snapshot())
        elif not self._options.is_live:
            finding = Finding(
                kind=FindingKind.PRODUCER_SNAPSHOT,
                path=newest.path,
                position=None,
                reason=f"is after the log's end at offset {report.end_offset}",
            )
            report.findings.append(finding)

    def _tight_from(self) -> int:
        gaps_before = MAX_OFFSET if self._is_compacted else self._options.cleaned_until
        return (self._report.integrity or Integrity()).tight_from(gaps_before)

    def _check_segment(self, segment: "_SegmentCheck", limit: int, replay: ProducerReplay) -> None:
        report = self._report
        regions: list[DamagedRegion] = []
        for found in segment.scan(limit):
            if isinstance(found, DamagedRegion):
                segment.skip(found)
                replay.skip()
                regions.append(found)
                continue
            if not regions and self._is_misplaced_after_gap(segment, found, replay):
                continue
            self._flush(segment, regions, scan.first_offset_in_header(found.batch) - 1)
            self._take(segment, found, replay)
        self._flush(segment, regions, None if segment.is_active else limit - 1)
        report.segment_count += 1
        report.size += segment.size
        end_offset = limit
        if segment.is_active:
            end_offset = self._last_offset + 1
        else:
            replay.segment_ended(limit)
        is_live = self._options.is_live
        # Of thousands of segments hardly any has one; a broker may add it meanwhile.
        name = filenames.transaction_index_file_name(segment.base_offset)
        segment.has_transaction_index = is_live or name in self._names
        self._add(segment.findings(replay, end_offset=end_offset, is_live=is_live))
        if report.integrity is not None:
            place = self._path, segment.base_offset
            changed = [*changed_index_findings(self._files, place, report.integrity)]
            known = {one.path for one in report.findings} if changed else ()
            self._add(wrong_file_findings(segment.log, segment.base_offset, report.integrity))
            self._add(one for one in changed if one.path not in known)

    def _is_misplaced_after_gap(
        self, segment: "_SegmentCheck", found: ScannedBatch, replay: ProducerReplay
    ) -> bool:
        """Whether a batch after a gap has a damaged base offset; adds the finding about the gap.

        No neighbour contradicts the offset of a segment's last batch, only what is recorded of the
        log's gaps, by which readers judge it too.
        """
        batch, due = found.batch, max(self._last_offset + 1, segment.base_offset)
        if batch.magic < 2 or batch.base_offset <= due:
            return False
        damage = self._gaps.damage(segment.log_path, found.position, (due, batch.base_offset))
        if damage is None:
            return False
        if is_flipped_offset(batch, due):
            offsets = batch.base_offset, batch.last_offset
            reason = scan.misplaced_text(*offsets, f"offset {due} is due")
            region = misplaced_region(found, segment.size, reason)
            segment.skip(region)
            replay.skip()
            last_offset = due + batch.last_offset_delta
            self._flush(segment, [region], last_offset)
            self._last_offset = last_offset
            return True
        self._report.findings.append(damage.as_loss(found.position))
        return False

    def _take(self, segment: "_SegmentCheck", found: ScannedBatch, replay: ProducerReplay) -> None:
        report, batch = self._report, found.batch
        next_offset = self._last_offset + 1
        try:
            if self._options.deep:
                _check_records(found)
            else:
                check_unpacked_size(batch)
            report.record_count += batch.record_count
            self._add(replay.take(batch))
        except InvalidBatchError as error:
            replay.skip()
            region = DamagedRegion(
                position=found.position,
                size=batch.size,
                reason=f"the CRC is right, but the records are malformed: {error}",
                batch=batch,
                is_tail=False,
            )
            segment.skip(region)
            self._flush(segment, [region], batch.last_offset)
        else:
            segment.take(found)
            self._epochs.take(batch, segment.log_path, found.position)
        report.batch_count += 1
        is_first = found.position == 0
        self._is_compacted |= is_compacted(batch, batch.base_offset if is_first else next_offset)
        self._last_offset = batch.last_offset

    def _flush(
        self, segment: "_SegmentCheck", regions: list[DamagedRegion], last_offset: int | None
    ) -> None:
        """Reports damaged regions, once the offset after them is known."""
        for region in regions:
            lost = LostOffsets(
                first=self._last_offset + 1,
                last=last_offset,
                stated_last=region.batch.last_offset if region.batch else None,
                is_control=region.batch is not None and region.batch.is_control,
            )
            is_growing = self._options.is_live and segment.is_active and region.is_tail
            offset = _fitting_offset(region, lost) if len(regions) == 1 else None
            kind = FindingKind.LOG_DAMAGE if offset is None else FindingKind.BATCH_OFFSET
            finding = Finding(
                kind=FindingKind.LIVE_TAIL if is_growing else kind,
                path=segment.log_path,
                position=region.position,
                reason=_damage_text(region, lost, offset),
                size=region.size,
                is_zero=region.is_zero,
                lost=lost if offset is None else None,
                offset=offset,
            )
            self._report.findings.append(finding)
        regions.clear()

    def _gap_notes(self) -> Iterator[Finding]:
        """Notes about gaps between segments that compaction has not left."""
        report = self._report
        for gap in report.gaps:
            if gap.base_offset <= report.tight_from:
                continue
            yield Finding(
                kind=FindingKind.STATE,
                path=self._at(filenames.log_file_name(gap.base_offset)),
                position=None,
                reason=f"offsets {gap.end_offset} to {gap.base_offset - 1} before it are in no "
                "segment: a file was lost, or a repair removed them",
            )

    # Snapshots

    def _snapshots(
        self, first_offset: int
    ) -> tuple[Sequence[ProducerSnapshotEntry] | None, SnapshotToCheck | None]:
        """The snapshot at the log's first offset, and the newest one; adds damaged ones as
        findings.
        """
        start: Sequence[ProducerSnapshotEntry] | None = None
        newest: JudgedSnapshot | None = None
        integrity = self._report.integrity
        paths = {
            one: self._at(filenames.producer_snapshot_file_name(one))
            for one in self._offsets(Role.PRODUCER_SNAPSHOT)
        }
        checksums = {} if integrity is None else integrity.snapshots
        for found in judged_snapshots(self._files, paths, checksums):
            if found.fault is not None:
                self._report.findings.append(found.fault)
                continue
            if newest is None and found.offset >= first_offset:
                newest = found
            if found.offset == first_offset:
                start = found.entries
        to_check = None if newest is None else snapshot_to_check(self._files, newest)
        return start, to_check


class _SegmentCheck:
    """The check of one segment: its log and its indexes."""

    def __init__(
        self, file_system: FileSystem, directory: str, base_offset: int, *, is_active: bool
    ) -> None:
        self._files = file_system
        self._directory = directory
        self.base_offset = base_offset
        self.is_active = is_active
        self.log_path = join(directory, filenames.log_file_name(base_offset))
        self.has_transaction_index = True
        self.first_last_offset: int | None = None
        """The last offset in the header of the first batch, once it was scanned."""
        self._offset_index: OffsetIndexCheck | None = None
        self._time_index: TimeIndexCheck | None = None

    @property
    def size(self) -> int:
        return self.log.size

    def open(self) -> None:
        """Reads the indexes, before the log (see `index_checks`); raises `FileNotFoundError`."""
        path, content = self._index(FileKind.OFFSET_INDEX)
        if content is not None:
            parsed = parse_index(content, Role.OFFSET_INDEX, self.base_offset)
            self._offset_index = OffsetIndexCheck(path, parsed, self.base_offset)
        path, content = self._index(FileKind.TIME_INDEX)
        if content is not None:
            parsed = parse_index(content, Role.TIME_INDEX, self.base_offset)
            self._time_index = TimeIndexCheck(path, parsed, self.base_offset)
        self.file = self._files.open(self.log_path)
        self.log = LogFile(self._files, self.file, self.file.size())

    def close(self) -> None:
        self.log.close()

    def _index(self, kind: FileKind) -> tuple[str, bytes | None]:
        path = join(self._directory, FileName(offset=self.base_offset, kind=kind).text)
        try:
            return path, read_file(self._files, path)
        except FileNotFoundError:
            return path, None

    def scan(self, limit: int) -> Iterator[ScannedBatch | DamagedRegion]:
        first = scan.header_at(self.log, 0)
        self.first_last_offset = None if first is None else first.last_offset
        yield from scan_segment(self.file, self.base_offset, limit)

    def take(self, scanned: ScannedBatch) -> None:
        if self._offset_index is not None:
            self._offset_index.take(scanned)
        if self._time_index is not None:
            self._time_index.take(scanned)

    def skip(self, region: DamagedRegion) -> None:
        if self._offset_index is not None:
            self._offset_index.skip(region)
        if self._time_index is not None:
            self._time_index.skip(region)

    def findings(
        self, replay: ProducerReplay, *, end_offset: int, is_live: bool
    ) -> Iterator[Finding]:
        is_growing = is_live and self.is_active
        if self._offset_index is not None:
            yield from self._offset_index.findings(end=self.size, is_growing=is_growing)
        if self._time_index is not None:
            yield from self._time_index.findings(is_growing=is_growing, is_active=self.is_active)
        path = join(self._directory, filenames.transaction_index_file_name(self.base_offset))
        if not self.has_transaction_index:
            yield from replay.check_transactions(
                path, (), end_offset=end_offset, is_growing=is_growing
            )
            return
        index = TransactionIndex(self._files, path, base_offset=self.base_offset, writable=False)
        try:
            if not is_growing:
                index.sanity_check()
            yield from replay.check_transactions(
                path, index.entries, end_offset=end_offset, is_growing=is_growing
            )
        except CorruptionError as error:
            yield finding_of(FindingKind.TRANSACTION_INDEX, error)
        finally:
            index.close()


def _judge_name(name: str, described: FileDescription) -> tuple[FindingKind, str] | None:
    """The finding about a file by its name alone, if any."""
    if name.endswith(".tmp"):
        return FindingKind.LEFTOVER, "was being written"
    if described.role is Role.UNKNOWN:
        return FindingKind.STRANGER, "is not a file of a log"
    if described.is_cut:
        return FindingKind.LEFTOVER, "was set aside by a repair"
    if described.suffix is FileSuffix.SWAP:
        return FindingKind.UNFINISHED_SWAP, "has not replaced the segments that it was made from"
    if described.suffix is not FileSuffix.LIVE:
        return FindingKind.LEFTOVER, "will be removed"
    return None


def _check_records(found: ScannedBatch) -> None:
    """Decodes the records of a batch and checks their offsets; raises `InvalidBatchError`."""
    batch = found.batch
    last = batch.base_offset - 1
    for record in read_records(batch):
        if not last < record.offset <= batch.last_offset:
            raise InvalidBatchError(f"offset {record.offset} comes after {last}")
        last = record.offset


def _fitting_offset(region: DamagedRegion, lost: LostOffsets) -> int | None:
    """The base offset at which a misplaced batch fits exactly into the gap; `None` without one."""
    batch = region.batch
    if not region.is_misplaced or batch is None or batch.magic < 2 or lost.last is None:
        return None
    is_exact = lost.last - lost.first == batch.last_offset_delta
    return lost.first if is_exact else None


def _damage_text(region: DamagedRegion, lost: LostOffsets, offset: int | None) -> str:
    """The reason, and where the log continues after the damage."""
    if offset is not None:
        return f"{region.reason}; it fits at offset {offset}"
    if region.is_tail:
        where = "" if lost.last is None else " in this segment"
        return f"{region.reason}; nothing readable follows offset {lost.first - 1}{where}"
    return f"{region.reason}; the log continues at byte {region.end}"


def _gone(path: str) -> Iterator[Finding]:
    reason = "was deleted during the check"
    yield Finding(kind=FindingKind.STATE, path=path, position=None, reason=reason)
