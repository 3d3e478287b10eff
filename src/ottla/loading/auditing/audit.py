"""Compares a table with its log by reading both, without Spark.

Five checks: the offset ranges of the commits are contiguous in each partition; the files are those
that the ledger names, without duplicate rows; the log has as many committed records in each range
as the table has rows and quarantined records; the log's batches are those that were loaded; and the
rows equal the records. Records that the log no longer has cannot be compared and are reported.
Kafka has no counterpart.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.auditing.history import HistoryAudit
from ottla.loading.auditing.latest import StateAudit, check_merges
from ottla.loading.auditing.ledger import (
    check_distinct,
    check_files,
    check_forgotten,
    check_partitions,
    check_tiling,
    check_topic,
)
from ottla.loading.auditing.report import AuditReport, Difference
from ottla.loading.row_comparison import first_difference, stored_rows, without_offsets
from ottla.loading.value_comparison import wrong_values
from ottla.record.batch_roll_up import BatchRollUp
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogPartition, LogSource, OffsetsGoneError, read_ranges
from ottla.tables import (
    Action,
    DataFile,
    FileRole,
    ForgottenPlaces,
    Piece,
    Table,
    covered,
    interleaved,
    of_role,
    rows_only,
)

_Value = TypeVar("_Value")

SAMPLED_FILES = 8
"""The number of files whose rows are compared unless all are requested."""


def audit(
    table: Table,
    log: LogSource,
    topic: str,
    *,
    compare_all: bool = False,
    seed: int = 0,
    login: RegistryLogin | None = None,
) -> AuditReport:
    """Compares a table with its log.

    Compares the rows of all files, or of a sample chosen by `seed`. `login` is for the registry of
    the schemas. Raises `UserError` if there is no table, and `CorruptionError` if the ledger or the
    log cannot be read.
    """
    return Audit(table, log, topic, login).run(None if compare_all else seed)


def audit_compacted(
    table: Table, log: LogSource, topic: str, *, login: RegistryLogin | None = None
) -> AuditReport:
    """As `audit` of all files, of a log that was compacted since it was loaded: the table must have
    every record that is left, or in a table with the latest row of each key what they make of it,
    and may have rows of others.
    """
    return Audit(table, log, topic, login, is_compacted=True).run(None)


class Audit:
    """An audit of one table; each check adds to the report."""

    def __init__(
        self,
        table: Table,
        log: LogSource,
        topic: str,
        login: RegistryLogin | None = None,
        *,
        is_compacted: bool = False,
    ) -> None:
        self._login = login
        self._is_compacted = is_compacted
        self._table = table
        self._log = log
        self._topic = topic
        self._offered: Mapping[int, LogPartition] = {}
        self._report = AuditReport(topic=topic, table=table.address)

    def run(self, seed: int | None) -> AuditReport:
        """Runs all checks; `seed` chooses the files to compare by row, `None` compares all."""
        report = self._report
        entries, files = self._table.moment()
        self._offered = {one.partition: one for one in self._log.partitions()}
        actions = [entry.action for entry in entries]
        report.loads = actions.count(Action.LOAD)
        report.reruns = actions.count(Action.RERUN)
        report.optimizations = actions.count(Action.OPTIMIZE)
        report.deletions = actions.count(Action.FORGET)
        report.files = len({file.path for file in files})
        report.rows = _row_count(files, FileRole.ROWS)
        report.quarantined = _row_count(files, FileRole.QUARANTINE)
        places = ForgottenPlaces(self._table.files, files)
        report.forgotten = sum(len(places.offsets(number)) for number in places.partitions)
        is_latest = self._table.layout().is_latest
        report.differences += check_tiling(entries, is_latest=is_latest)
        report.differences += check_topic(entries, self._topic, self._offered)
        report.differences += check_partitions(entries, files)
        wrong_files = check_files(self._table, files)
        report.differences += wrong_files or check_distinct(
            self._table, [one for one in files if one.role is not FileRole.FORGOTTEN]
        )
        if not report.differences:
            report.differences += check_forgotten(self._table, files)
        # Rows are compared only if all files are as the ledger describes them.
        if not report.differences and is_latest:
            self._check_state(covered(entries), files, seed)
            # A rerun brings back rows that other programs deleted, which no commit counts; each key
            # is then compared with the log alone.
            if not report.reruns or report.unseen:
                report.differences += check_merges(entries, files)
        elif not report.differences:
            self._check_records(covered(entries), files, seed)
        return report

    def _check_records(
        self, pieces: Mapping[int, Sequence[Piece]], files: Sequence[DataFile], seed: int | None
    ) -> None:
        """Checks a table with a row for each record."""
        by_partition = {number: _of_partition(files, number) for number in self._offered}
        for number, some in by_partition.items():
            self._check_pieces(pieces.get(number, []), some)
        groups = [
            (group, _beside(some))
            for some in by_partition.values()
            for group in interleaved(rows_only(some))
        ]
        for group, beside in groups if seed is None else _some(groups, seed):
            self._check_rows(group, beside)
        if self._is_compacted:
            for number, some in by_partition.items():
                self._check_gaps(number, pieces.get(number, []), some)

    def _check_gaps(self, number: int, pieces: Sequence[Piece], files: Sequence[DataFile]) -> None:
        """Reports records of loaded offsets at which no file has rows."""
        offered = self._offered[number]
        place = TopicPartition(self._topic, number)
        there = [self._table.files.offsets(one) for one in _beside(files)]
        groups = interleaved(rows_only(files))
        spans = [(group[0].first_offset, max(one.last_offset for one in group)) for group in groups]
        for gap in _gaps(pieces, spans):
            wanted = OffsetRange(
                from_offset=max(gap.from_offset, offered.start_offset),
                until_offset=min(gap.until_offset, offered.end_offset),
            )
            if wanted.from_offset >= wanted.until_offset:
                continue
            left = without_offsets(read_ranges(self._log, {place: wanted}, ("offset",)), there)
            if left.num_rows:
                offset = left["offset"][0].as_py()
                text = "the table lacks this record"
                self._report.differences.append(Difference.in_row(number, offset, text))

    def _check_state(
        self, pieces: Mapping[int, Sequence[Piece]], files: Sequence[DataFile], seed: int | None
    ) -> None:
        """Checks a table with the latest row of each key."""
        order = self._table.layout().order
        assert order is not None
        scopes: dict[int, dict[int, LogPartition]] = {}
        for number, offered in self._offered.items():
            scopes.setdefault(order.scope(number), {})[number] = offered
        audits: dict[int, StateAudit] = {}
        for offered_there in scopes.values():
            kind = StateAudit if order.history is None else HistoryAudit
            one = kind(
                self._table,
                self._log,
                self._topic,
                offered_there,
                self._login,
                is_compacted=self._is_compacted,
            )
            audits |= dict.fromkeys(offered_there, one)
            some = {number: pieces.get(number, []) for number in offered_there}
            there = [piece for each in some.values() for piece in each]
            for piece in there:
                if piece.is_whole:
                    self._check_there(piece, piece.stated.record_count)
            try:
                found = list(
                    one.differences(some, [file for file in files if file.partition in some])
                )
            except OffsetsGoneError:
                # Retention removed records while they were read.
                self._report.unseen += [(piece.stated.partition, piece.offsets) for piece in there]
                found = []
            self._report.differences += found
        rows = rows_only(files)
        for file in rows if seed is None else _some(rows, seed):
            self._report.differences += audits[file.partition].differences_of_rows(file)
        each = {id(one): one for one in audits.values()}.values()
        self._report.rows_compared += sum(one.rows_compared for one in each)

    def _check_there(self, piece: Piece, count: int) -> None:
        try:
            self._check_piece(piece, count)
        except OffsetsGoneError:
            self._report.unseen.append((piece.stated.partition, piece.offsets))

    def _check_pieces(self, pieces: Sequence[Piece], files: Sequence[DataFile]) -> None:
        ranges = [piece.offsets for piece in pieces]
        places = ForgottenPlaces(self._table.files, files)
        found = []
        for role in (FileRole.ROWS, FileRole.QUARANTINE):
            counts, stray = self._table.files.counts_in(of_role(files, role), ranges)
            found.append(counts)
            if stray is not None:
                text = "it has rows with offsets that no commit read"
                self._report.differences.append(
                    Difference.in_file("overlap", stray, text, stray.first_offset)
                )
        for piece, rows, quarantined in zip(pieces, *found, strict=True):
            forgotten = places.count(piece.stated.partition, piece.offsets) if places else 0
            if piece.is_whole:
                self._report.differences += _check_stated(piece, rows, quarantined, forgotten)
            self._check_there(piece, rows + quarantined + forgotten)

    def _check_piece(self, piece: Piece, count: int) -> None:
        """Raises `OffsetsGoneError` if offsets of the piece are not in the log."""
        wanted = piece.offsets
        place = TopicPartition(self._topic, piece.stated.partition)
        offered = self._offered[place.partition]
        if not _is_there(wanted, offered):
            raise OffsetsGoneError(place, wanted.from_offset, offered.start_offset)
        is_compared = piece.stated.batches is not None and piece.is_whole
        expected = self._log.count_records(place, wanted)
        found = self._log.roll_up(place, wanted) if is_compared else None
        self._check_count(piece, count, expected)
        self._check_batches(piece, found)

    def _check_count(self, piece: Piece, count: int, expected: int) -> None:
        if expected > count or (expected < count and not self._is_compacted):
            text = f"the log has {expected} records, the table {count} rows"
            self._report.differences.append(_in_piece("count", piece, text))
        self._report.rows_counted += min(count, expected) if self._is_compacted else count
        self._report.rows_only_here += max(0, count - expected) if self._is_compacted else 0

    def _check_batches(self, piece: Piece, found: BatchRollUp | None) -> None:
        stated = piece.stated.batches
        if found is None or stated is None or self._is_compacted:
            return
        if found != stated:
            text = (
                f"the log's batches differ from those that were loaded: "
                f"{_roll_up_text(found)} now, {_roll_up_text(stated)} then"
            )
            self._report.differences.append(_in_piece("batches", piece, text))
        self._report.batches_matched += found.batch_count if found == stated else 0

    def _check_rows(self, group: Sequence[DataFile], beside: Sequence[DataFile]) -> None:
        """Compares rows of files with interleaved offsets with records that are not beside the
        table: in quarantine, or forgotten.

        If retention removes records meanwhile, compares the remaining ones.
        """
        partition, compared = group[0].partition, self._report.rows_compared
        while True:
            start = self._offered[partition].start_offset
            try:
                self._compare_rows(group, beside)
                return
            except OffsetsGoneError:
                self._report.rows_compared = compared
                self._offered = {one.partition: one for one in self._log.partitions()}
                if self._offered[partition].start_offset <= start:
                    raise

    def _compare_rows(self, group: Sequence[DataFile], beside: Sequence[DataFile]) -> None:
        import pyarrow.compute as pc

        partition = group[0].partition
        bounds = self._offered[partition]
        wanted = OffsetRange(
            from_offset=max(group[0].first_offset, bounds.start_offset),
            until_offset=min(max(file.last_offset for file in group) + 1, bounds.end_offset),
        )
        if wanted.is_empty:
            return
        stored = stored_rows(self._table.files, group, wanted)
        try:
            place = TopicPartition(self._topic, partition)
            log = read_ranges(self._log, {place: wanted}, stored.column_names)
        except OffsetsGoneError:
            raise
        except UserError as error:
            raise CorruptionError(group[0].path, 0, str(error)) from error
        beside = [file for file in beside if _overlaps(file, wanted)]
        log = without_offsets(log, [self._table.files.offsets(file) for file in beside])
        if self._is_compacted:
            # The others are of records that compaction has removed.
            stored = stored.filter(pc.is_in(stored["offset"], log["offset"].combine_chunks()))
        self._report.rows_compared += stored.num_rows
        found = first_difference(stored, log)
        if found is not None:
            offset, text = found
            path = next((one for one in group if one.first_offset <= offset), group[0]).path
            self._report.differences.append(Difference.in_row(partition, offset, text, path))
            return
        for file in [*group, *of_role(beside, FileRole.QUARANTINE)]:
            for offset, text in wrong_values(
                self._table, file, self._log, place, wanted, self._login
            ):
                self._report.differences.append(
                    Difference.in_row(partition, offset, text, file.path)
                )


def _gaps(pieces: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> Iterator[OffsetRange]:
    """The offsets of pieces outside of spans, whose ends are inclusive; both are in order."""
    for piece in pieces:
        position = piece.from_offset
        for first, last in spans:
            until = min(first, piece.until_offset)
            if position < until:
                yield OffsetRange(from_offset=position, until_offset=until)
            position = max(position, last + 1)
        if position < piece.until_offset:
            yield OffsetRange(from_offset=position, until_offset=piece.until_offset)


def _overlaps(file: DataFile, wanted: OffsetRange) -> bool:
    return file.first_offset < wanted.until_offset and wanted.from_offset <= file.last_offset


def _check_stated(
    piece: Piece, rows: int, quarantined: int, forgotten: int
) -> Iterator[Difference]:
    """Each forgotten record is one less of the rows, or of the quarantined records."""
    stated = piece.stated
    for found, stated_count, what in (
        (rows, stated.row_count, "rows"),
        (quarantined, stated.quarantined_count, "quarantined records"),
    ):
        if found > stated_count or (found < stated_count and not forgotten):
            text = f"the table has {found} {what}, {stated_count} expected"
            yield _in_piece("count", piece, text)
    found = rows + quarantined + forgotten
    if forgotten and found != stated.record_count:
        text = (
            f"the table has {rows} rows, {quarantined} records in quarantine and {forgotten} "
            f"deleted on purpose, {stated.record_count} expected"
        )
        yield _in_piece("count", piece, text)


def _in_piece(kind: str, piece: Piece, text: str) -> Difference:
    partition, offset = piece.stated.partition, piece.from_offset
    place = f"offsets {offset} to {piece.until_offset - 1} (commit {piece.commit_id})"
    text = f"partition {partition}, {place}: {text}"
    return Difference(kind=kind, text=text, partition=partition, offset=offset)


def _roll_up_text(batches: BatchRollUp) -> str:
    return (
        f"{batches.batch_count} batches with roll-up {batches.crc:#010x} and last leader epoch "
        f"{batches.leader_epoch}"
    )


def _is_there(wanted: OffsetRange, log: LogPartition) -> bool:
    return log.start_offset <= wanted.from_offset and wanted.until_offset <= log.end_offset


def _row_count(files: Sequence[DataFile], role: FileRole) -> int:
    return sum(file.row_count for file in files if file.role is role)


def _beside(files: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if file.role is not FileRole.ROWS]


def _of_partition(files: Sequence[DataFile], partition: int) -> list[DataFile]:
    return [file for file in files if file.partition == partition]


def _some(groups: Sequence[_Value], seed: int) -> list[_Value]:
    if len(groups) <= SAMPLED_FILES:
        return list(groups)
    return random.Random(seed).sample(list(groups), SAMPLED_FILES)
