"""The integrity file: facts about a partition's log, in a small file of Ottla's own.
Kafka's files store some facts once, without a checksum: the topic id, the partition of a directory
and of a `.log` file, the gaps that a log may have, the content of a transaction index. This file
repeats them, each line with a checksum.

Format page: docs/format/ottla-integrity.md. Kafka takes the file for an index without a log, and
removes it whenever it loads the log: if the file exists, Kafka has not changed the log since. Facts
that must not be lost are written durably, as a new file; other lines are appended, and a power
failure may lose the last ones: then fewer facts are known, but no wrong ones.
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice, takewhile
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.base.files import (
    FileSystem,
    join,
    parent_directory,
    read_file,
    remove_if_present,
    replace_file,
)
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.codec.crc32c import crc32c
from ottla.storage.files.filenames import (
    INTEGRITY,
    LEADER_EPOCHS,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.files.integrity_lines import HEADER_SIZE, checked_lines, line_of, size_of
from ottla.storage.files.losses import KnownLosses
from ottla.storage.findings import Finding, FindingKind

logger = logging.getLogger(__name__)

VERSION = "0"
UNKNOWN = "-"
INDEXED = "indexed"
NO_ABORTS = (UNKNOWN, "0")
WORD_COUNTS = {"log": 7, "segment": 6, "start": 2, "snapshot": 3, "swap": 4}
"""Word counts by kind of line, without the checksum."""

NEIGHBOURS_ASKED = 100
"""Maximum number of other logs that are searched for an integrity file, see `is_integrity_lost`."""

WASTE_ALLOWED = 100
"""The file is rewritten when its obsolete lines outnumber the current ones by more than this."""

Checksum = tuple[int, int]
"""A size in bytes, and the CRC-32C of that many bytes."""


class SegmentFacts(NamedTuple):
    """Facts about one segment; `None` if unknown."""

    first_checksum: int | None = None
    """The checksum in the header of the segment's first batch."""
    aborted: Checksum | None = None
    """Size and checksum of the recorded part of the segment's transaction index."""
    size: int | None = None
    """The size of the log file, once it takes no more appends."""

    @property
    def held_something(self) -> bool:
        return self.first_checksum is not None or bool(self.size)


NOTHING_KNOWN = SegmentFacts()
HELD_SOMETHING = SegmentFacts(size=1)
"""For a segment that was found missing after the file that listed it was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """Facts about a log; `None` if unknown, or if the topic has no id."""

    topic_id: Uuid | None = None
    partition: TopicPartition | None = None
    gapless_from: int | None = None
    """From this offset on each batch begins where the previous batch ends."""
    gap_checkpoint: int | None = None
    """As recorded: each segment with a larger base offset begins where the previous one ends."""
    aborts_are_indexed: bool = False
    """Whether the transaction indexes were complete once; `segments` has their checksums since."""
    start_offset: int = 0
    """Retention has removed the segments before this offset."""
    segments: Mapping[int, SegmentFacts] = field(default_factory=dict)
    """By base offset; includes segments that were removed since."""
    snapshots: Mapping[int, int] = field(default_factory=dict)
    """Checksums of producer snapshots by offset; includes snapshots that were removed since."""
    swaps: Mapping[int, SegmentFacts] = field(default_factory=dict)
    """The segments that the last compaction put in place, by base offset. They stay recorded, since
    a power failure may undo the last renames."""
    has_aborts: bool = field(default=False, compare=False)
    """Whether any line says that a segment's transaction index had an entry."""
    line_count: int = 0
    """0 if there is no file."""
    is_whole: bool = True
    """Whether no line was damaged or incomplete."""

    def losses(self, base_offsets: Iterable[int], cleaned_until: int) -> KnownLosses:
        """Returns the losses of a log whose segments have these base offsets."""
        gapless_from = self.gapless_from
        if gapless_from is not None:
            checkpoint = cleaned_until if self.gap_checkpoint is None else self.gap_checkpoint
            gapless_from = max(gapless_from, checkpoint)
        return KnownLosses(gapless_from, tuple(self._gone_between(sorted(base_offsets))))

    def tight_from(self, gaps_before: int) -> int:
        """Each segment with a larger base offset began where the previous one ended.

        Compaction may have removed batches before `gaps_before`, for a log that has no record.
        """
        return gaps_before if self.gap_checkpoint is None else self.gap_checkpoint

    def _gone_between(self, base_offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields listed segments that are missing between two existing segments.

        Retention and compaction remove a segment's line before the segment. Truncation removes it
        afterwards, but at the log's end, and a power failure may lose retention's line, but that
        concerns the log's start: so neither leaves such a line.
        """
        for base_offset, facts in sorted(self.segments.items()):
            following = bisect_left(base_offsets, base_offset)
            if not 0 < following < len(base_offsets) or base_offset < self.start_offset:
                continue
            is_there = base_offsets[following] == base_offset
            if not is_there and facts.held_something:
                yield base_offset, base_offsets[following]

    def end_of_missing(self, base_offsets: Iterable[int]) -> int:
        """The least end of a log that lacks its last listed segments; 0 if it has them.

        Segments are forgotten before they are deleted at the log's end. Only a power failure can
        leave such a line, before the segment that it is about.
        """
        least = max(self.start_offset, max(base_offsets, default=-1) + 1)
        missing = [one for one in self.segments if one >= least]
        held = (one + 1 for one in missing if self.segments[one].held_something)
        return max(held, default=0)

    def begin_of_missing(
        self, base_offset: int, epochs_begin: int | None, *, is_same_boot: bool
    ) -> tuple[int, str] | None:
        """Where a log began that lacks its first segments, and the file that says so.

        `base_offset` is that of the first segment that is left, and `epochs_begin` the first offset
        in the leader epochs, if any. Retention truncates them durably, and removes the segments'
        lines before the segments: a power failure may lose the latter, nothing else does. Of a
        tiered log nothing truncates the epochs, and the lines are removed durably: there the caller
        passes `None` for the epochs and trusts the lines, as of the same boot.
        """
        listed = {one: facts for one, facts in self.segments.items() if one < base_offset}
        listed = {one: facts for one, facts in listed.items() if one >= self.start_offset}
        begins = [] if epochs_begin is None else [(epochs_begin, LEADER_EPOCHS)]
        if is_same_boot:
            begins += [(one, INTEGRITY) for one, facts in listed.items() if facts.held_something]
        return min(begins, default=None) if listed else None


class IntegrityFile:
    """The integrity file of an open log, updated before a change makes a fact wrong."""

    __slots__ = (
        "_directory",
        "_file_system",
        "_line_count",
        "_noted_snapshots",
        "_segments",
        "known",
        "snapshots",
        "tight_from",
    )

    def __init__(self, file_system: FileSystem, directory: str, found: Integrity | None) -> None:
        self._file_system = file_system
        self._directory = directory
        self.known = found or Integrity()
        """The facts, except segments and snapshots, which are kept below."""
        self._segments = dict(self.known.segments)
        self.snapshots = dict(self.known.snapshots)
        """The current snapshots; `SnapshotFiles` adds those that it takes."""
        self._noted_snapshots = dict(self.known.snapshots)
        self._line_count = self.known.line_count
        self.tight_from = self.known.gap_checkpoint or 0
        """The current gap checkpoint; `known` has the recorded one."""

    def of_segment(self, base_offset: int) -> SegmentFacts:
        return self._segments.get(base_offset, NOTHING_KNOWN)

    def now(self) -> Integrity:
        """The current content of the file."""
        return replace(self.known, segments=self._segments, snapshots=self.snapshots)

    # Loading

    def loaded(
        self, loaded: Integrity, segments: Mapping[int, SegmentFacts], log_end_offset: int
    ) -> None:
        """Updates the file after its log was loaded; raises `OSError`.

        The smaller `gapless_from` is kept: it covers more of the log. `segments` are the log's
        segments. Lines of other segments at or after the log's end are removed, since segments
        with other batches may be created there.
        """
        found = self.known if self.known.line_count else None
        if found is not None:
            offsets = (found.gapless_from, loaded.gapless_from)
            loaded = replace(
                loaded,
                topic_id=loaded.topic_id or found.topic_id,
                gapless_from=min((one for one in offsets if one is not None), default=None),
                gap_checkpoint=found.gap_checkpoint,
                aborts_are_indexed=loaded.aborts_are_indexed or found.aborts_are_indexed,
                start_offset=found.start_offset,
            )
        changed = {one: facts for one, facts in segments.items() if facts != self.of_segment(one)}
        gone = [one for one in self._segments if one >= log_end_offset and one not in segments]
        is_wrong = bool(gone) or any(
            self.of_segment(one).first_checksum not in (None, facts.first_checksum)
            or self.of_segment(one).size not in (None, facts.size)
            for one, facts in changed.items()
        )
        for one in gone:
            self._forget(one)
        lines = [segment_line(*one) for one in sorted(changed.items())]
        if found is None or log_line(found) != log_line(loaded):
            lines.insert(0, log_line(loaded))
        lines += self._snapshot_lines()
        self.known = loaded
        self._segments.update(changed)
        if found is None:
            self._create()
        elif is_wrong or not found.is_whole or self._is_wasteful:
            self._write()
        elif lines:
            self._append(lines)

    def renamed(self, directory: str) -> None:
        """Records that the log's directory was renamed."""
        self._directory = directory

    # Segments

    def began(self, base_offset: int, first_checksum: int) -> None:
        """Records a segment's first batch."""
        self._note(
            base_offset, self.of_segment(base_offset)._replace(first_checksum=first_checksum)
        )

    def ended(self, base_offset: int, index_path: str, size: int | None = None) -> None:
        """Records a segment's transaction index, and with `size` its completed log file; also
        records new snapshots.
        """
        facts = self.of_segment(base_offset)
        aborted = checksum_of(self._file_system, index_path)
        size = facts.size if size is None else size
        self._note(base_offset, facts._replace(aborted=aborted, size=size), self._snapshot_lines())

    def split(self, base_offset: int) -> None:
        """Forgets a segment that is about to be split; the first part keeps its name."""
        if self._forget(base_offset):
            self._write()

    def placed(self, base_offset: int, facts: SegmentFacts) -> None:
        """Records a segment that compaction has put in place."""
        self._note(base_offset, facts)

    def removed_before(self, offset: int, *, durably: bool = False) -> None:
        """Forgets the segments before an offset, which retention is about to remove, or which were
        lost.
        """
        self.known = replace(self.known, start_offset=offset)
        for base_offset in [one for one in self._segments if one < offset]:
            self._forget(base_offset)
        if durably or self._is_wasteful:
            self._write()
        else:
            self._append([_start_line(offset)])

    def _note(self, base_offset: int, facts: SegmentFacts, others: Sequence[bytes] = ()) -> None:
        lines = list(others)
        if facts != self.of_segment(base_offset):
            self._segments[base_offset] = facts
            lines.append(segment_line(base_offset, facts))
        if lines:
            self._append(lines)

    def _snapshot_lines(self) -> list[bytes]:
        """Lines of the snapshots taken since, which are the newest: a roll need not check all."""
        noted = self._noted_snapshots
        newest_first = reversed(self.snapshots.items())
        taken = list(takewhile(lambda one: noted.get(one[0]) != one[1], newest_first))
        noted.update(taken)
        return [_snapshot_line(*one) for one in taken]

    def _forget(self, base_offset: int) -> bool:
        self.snapshots.pop(base_offset, None)
        return self._segments.pop(base_offset, None) is not None

    # Gaps, cuts and aborts

    def indexed_aborts(self) -> None:
        """Records that the transaction indexes contain every abort."""
        if not self.known.aborts_are_indexed:
            self.known = replace(self.known, aborts_are_indexed=True)
            # If a power failure loses the line, the indexes are checked again.
            self._append([log_line(self.known)])

    def leave_gaps(self) -> None:
        """Records that gaps may exist from now on, until the log is loaded again."""
        if self.known.gapless_from is not None:
            self.known = replace(self.known, gapless_from=None)
            self._write()

    def open_gaps(
        self,
        offset: int,
        replaced: Collection[int] = (),
        swaps: Mapping[int, SegmentFacts] | None = None,
    ) -> None:
        """Durably allows gaps before the segment that begins at `offset`.

        Everything before it must be on disk, since a loss there can no longer be detected. Forgets
        the segments in `replaced`, which `swaps` are about to replace.
        """
        self.tight_from = max(self.tight_from, offset)
        self.known = replace(self.known, swaps=swaps or {})
        was_known = [self._forget(one) for one in replaced]
        if any(was_known) or swaps or self.known.gap_checkpoint != self.tight_from:
            self._record()

    def record_gap_checkpoint(self) -> None:
        """Durably records the current gap checkpoint."""
        if self.known.gap_checkpoint != self.tight_from:
            self._record()

    def _record(self) -> None:
        self.known = replace(self.known, gap_checkpoint=self.tight_from)
        self._write()

    def forget_from(self, base_offset: int) -> None:
        """Durably forgets the segments from an offset on, which are about to be deleted."""
        gone = [one for one in self._segments if one >= base_offset]
        if gone:
            for one in gone:
                self._forget(one)
            self._write()

    def cut(self, end_offset: int, tight_from: int) -> None:
        """Records that the log was durably truncated to `end_offset`; call before any append."""
        known = self.known
        self.tight_from = tight_from
        for base_offset in [one for one in self._segments if one >= end_offset]:
            self._forget(base_offset)
        for offset in [one for one in self.snapshots if one > end_offset]:
            del self.snapshots[offset]
        for base_offset, facts in self._segments.items():
            self._segments[base_offset] = facts._replace(aborted=None, size=None)
        gapless_from = known.gapless_from
        if gapless_from is not None:
            gapless_from = min(gapless_from, end_offset)
        is_recorded = known.gap_checkpoint is not None
        self.known = replace(
            known,
            gapless_from=gapless_from,
            gap_checkpoint=tight_from if is_recorded else None,
        )
        self._write()

    # The file

    @property
    def _is_wasteful(self) -> bool:
        counting = len(self._segments) + len(self.snapshots)
        return self._line_count - counting > counting + WASTE_ALLOWED

    def _append(self, lines: list[bytes]) -> None:
        try:
            file = self._file_system.open(join(self._directory, INTEGRITY), writable=True)
        except FileNotFoundError:  # another program has removed it
            self._write()
            return
        try:
            file.pwrite(b"".join(lines), file.size())
        finally:
            file.close()
        self._line_count += len(lines)

    def _create(self) -> None:
        """Creates the file, not durably: a power failure can only lose facts.

        An old file is removed first, so that its facts cannot reappear.
        """
        path = join(self._directory, INTEGRITY)
        remove_if_present(self._file_system, path)
        file = self._file_system.open(path, create=True)
        try:
            file.pwrite(self._text(), 0)
        finally:
            file.close()

    def _write(self) -> None:
        path = join(self._directory, INTEGRITY)
        replace_file(self._file_system, path, self._text())

    def _text(self) -> bytes:
        content = integrity_text(self.now())
        self._noted_snapshots = dict(self.snapshots)
        self._line_count = content.count(b"\n")
        return content


def checksum_of(file_system: FileSystem, path: str) -> Checksum:
    """The size and CRC-32C of a small file; a missing one is empty."""
    content = _content(file_system, path)
    return len(content), crc32c(content)


def begins_as(file_system: FileSystem, path: str, checksum: Checksum) -> bool:
    """Whether the first bytes of a small file have a size and checksum."""
    size, expected = checksum
    # Of thousands of segments most had no such file, and none is looked for.
    content = _content(file_system, path) if size else b""
    return len(content) >= size and crc32c(content[:size]) == expected


def changed_index(file_system: FileSystem, path: str, facts: SegmentFacts) -> Finding | None:
    """The finding about a transaction index that does not begin as it did when it was recorded."""
    if facts.aborted is None or begins_as(file_system, path, facts.aborted):
        return None
    return Finding(
        kind=FindingKind.TRANSACTION_INDEX,
        path=path,
        position=None,
        reason=f"it has changed on the disk, and does not match its checksum in {INTEGRITY}",
    )


def _content(file_system: FileSystem, path: str) -> bytes:
    try:
        return read_file(file_system, path)
    except FileNotFoundError:
        return b""


def read_integrity(
    file_system: FileSystem, directory: str, *, is_header: bool = False
) -> Integrity | None:
    """Reads the file of a partition's directory; `None` if it is missing or damaged.

    With `is_header` the lines after the first are neither read nor parsed. Raises `OSError`.
    """
    path = join(directory, INTEGRITY)
    try:
        content = read_file(file_system, path, HEADER_SIZE if is_header else None)
        # A power failure can leave an unsynced file empty, which is not damage.
        if content in (b"", BLANK):
            return None
        return parse_integrity(path, content[: content.find(b"\n") + 1] if is_header else content)
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        logger.warning("%s; the file is ignored and rebuilt", error)
        return None


def is_ours_alone(file_system: FileSystem, directory: str) -> bool:
    """Whether only Ottla has written a log; `False` if the directory does not exist."""
    return integrity_header(file_system, directory) is not None


def is_ours_still(file_system: FileSystem, directory: str) -> bool:
    """Whether Kafka has not loaded a log since Ottla has; the file may be lost."""
    return is_ours_alone(file_system, directory) or is_integrity_lost(file_system, directory)


def integrity_header(file_system: FileSystem, directory: str) -> Integrity | None:
    """Like `read_integrity`, but only the log's line, without which the file is not valid; also
    `None` if the path is not a directory.

    The lines of many segments take long to read and to parse.
    """
    try:
        return read_integrity(file_system, directory, is_header=True)
    except NotADirectoryError:
        return None  # the listing reports what has this name


def blank_integrity(file_system: FileSystem, directory: str) -> None:
    """Durably blanks the file before a writer that does not maintain it changes the log.

    It then counts as missing, but not as lost. If Kafka has removed the file, none is created.
    """
    path = join(directory, INTEGRITY)
    if file_system.status(path) is not None or is_integrity_lost(file_system, directory):
        replace_file(file_system, path, BLANK)


def is_integrity_lost(
    file_system: FileSystem, directory: str, is_kafka_gone: bool | None = None
) -> bool:
    """For a log without a valid file: whether it had one that Kafka has not removed.

    Kafka removes the files of all logs that it loads: if this log has a damaged one, or another
    log has one, Kafka has not loaded them. `is_kafka_gone`: whether another log has one, if known.
    """
    try:
        return read_file(file_system, join(directory, INTEGRITY)) != BLANK
    except FileNotFoundError:
        pass
    if is_kafka_gone is not None:
        return is_kafka_gone
    return holds_integrity_files(file_system, parent_directory(directory))


def integrity_damage(file_system: FileSystem, directory: str) -> str | None:
    """What is wrong with the file; `None` if nothing is, or there is none. Raises `OSError`.

    It is not synced, so a power failure can damage it even after a clean stop. Loading the log
    writes it again.
    """
    path = join(directory, INTEGRITY)
    try:
        is_whole = parse_integrity(path, read_file(file_system, path)).is_whole
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        return error.reason
    return None if is_whole else "a line is damaged; the lines after it are ignored"


def holds_integrity_files(file_system: FileSystem, log_directory: str) -> bool:
    """Whether any log of a directory has an integrity file, so that Kafka has not loaded them."""
    parsed = ((name, parse_directory_name(name)) for name in file_system.list(log_directory))
    logs = (name for name, one in parsed if one and one.state is DirectoryState.LIVE)
    paths = (join(log_directory, name, INTEGRITY) for name in islice(logs, NEIGHBOURS_ASKED))
    return any(file_system.status(path) is not None for path in paths)


def parse_integrity(path: str, content: bytes) -> Integrity:
    """Parses the facts up to the first damaged line.

    Raises `CorruptionError` if that is the first line, without which the file is invalid.
    """
    lines = checked_lines(content)
    reason = "the checksum does not match" if size_of(lines) < len(content) else None
    found: Integrity | None = None
    segments: dict[str, str] = {}  # Parsed when asked for: later lines replace earlier ones.
    snapshots: dict[int, int] = {}
    swaps: dict[int, SegmentFacts] = {}
    start_offset, has_aborts = 0, False
    for number, line in enumerate(lines):
        words = line.split(" ")
        kind = words[0]
        if len(words) != WORD_COUNTS.get(kind) or (kind == "log" and words[1] != VERSION):
            reason = "its version is not known"
            del lines[number:]
            break
        if kind == "segment":
            segments[words[1]] = line
            has_aborts = has_aborts or words[3] not in NO_ABORTS
        elif kind == "snapshot":
            snapshots[int(words[1])] = int(words[2], 16)
        elif kind == "log":
            found = _parse_log(words)
        elif kind == "swap":
            swaps[int(words[1])] = _parse_swap(words)
        else:
            start_offset = int(words[1])
    if found is None or not lines[0].startswith("log "):
        reason = "it does not begin with the log's line" if lines else reason or "it is empty"
        raise CorruptionError(path, 0, reason)
    if reason is not None:
        damage = CorruptionError(path, size_of(lines), reason)
        logger.warning("%s; the rest of the file is ignored", damage)
    return replace(
        found,
        start_offset=start_offset,
        segments=SegmentLines({int(offset): line for offset, line in segments.items()}),
        snapshots=snapshots,
        swaps=swaps,
        has_aborts=has_aborts,
        line_count=len(lines),
        is_whole=reason is None,
    )


def _parse_log(words: list[str]) -> Integrity:
    _, _, topic_id, partition, gapless_from, gap_checkpoint, aborts = words
    return Integrity(
        topic_id=None if topic_id == UNKNOWN else parse_uuid(topic_id),
        partition=None if partition == UNKNOWN else _parse_partition(partition),
        gapless_from=_number(gapless_from),
        gap_checkpoint=_number(gap_checkpoint),
        aborts_are_indexed=aborts == INDEXED,
    )


def _parse_partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


class SegmentLines(Mapping[int, SegmentFacts]):
    """The facts about segments by their base offsets. Each line is parsed when it is asked for: the
    objects for ten thousand segments would be looked at by each collection of garbage.
    """

    __slots__ = ("_lines",)

    def __init__(self, lines: Mapping[int, str]) -> None:
        self._lines = lines

    def __getitem__(self, base_offset: int) -> SegmentFacts:
        return _parse_segment(self._lines[base_offset])

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def _parse_segment(line: str) -> SegmentFacts:
    _, _, first, size, checksum, log_size = line.split(" ")
    return SegmentFacts(
        None if first == UNKNOWN else int(first, 16),
        None if size == UNKNOWN else (int(size), int(checksum, 16)),
        None if log_size == UNKNOWN else int(log_size),
    )


def _parse_swap(words: list[str]) -> SegmentFacts:
    first = None if words[2] == UNKNOWN else int(words[2], 16)
    return SegmentFacts(first_checksum=first, size=_number(words[3]))


def integrity_text(known: Integrity) -> bytes:
    """Formats the file, without obsolete lines."""
    lines = [log_line(known)]
    if known.start_offset:
        lines.append(_start_line(known.start_offset))
    lines += [segment_line(*one) for one in sorted(known.segments.items())]
    lines += [_snapshot_line(*one) for one in sorted(known.snapshots.items())]
    lines += [_swap_line(*one) for one in sorted(known.swaps.items())]
    return b"".join(lines)


def log_line(known: Integrity) -> bytes:
    return line_of(
        "log",
        VERSION,
        UNKNOWN if known.topic_id is None else uuid_text(known.topic_id),
        UNKNOWN if known.partition is None else str(known.partition),
        _text(known.gapless_from),
        _text(known.gap_checkpoint),
        INDEXED if known.aborts_are_indexed else UNKNOWN,
    )


def segment_line(base_offset: int, facts: SegmentFacts) -> bytes:
    first = UNKNOWN if facts.first_checksum is None else f"{facts.first_checksum:08x}"
    aborted = (UNKNOWN, UNKNOWN)
    if facts.aborted is not None:
        aborted = (str(facts.aborted[0]), f"{facts.aborted[1]:08x}")
    return line_of("segment", str(base_offset), first, *aborted, _text(facts.size))


def _start_line(offset: int) -> bytes:
    return line_of("start", str(offset))


def _snapshot_line(offset: int, checksum: int) -> bytes:
    return line_of("snapshot", str(offset), f"{checksum:08x}")


def _swap_line(base_offset: int, facts: SegmentFacts) -> bytes:
    first = UNKNOWN if facts.first_checksum is None else f"{facts.first_checksum:08x}"
    return line_of("swap", str(base_offset), first, _text(facts.size))


def _number(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)


def _text(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


BLANK = log_line(Integrity())
"""A file without facts."""
