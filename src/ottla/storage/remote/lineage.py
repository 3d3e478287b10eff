"""Which uploads belong to the history of a log: those of the leader epochs that it has.

After an unclean election, or if a leader was deposed while it copied, the tier has uploads of
records that the log no longer has. The leader epochs of the log decide, since an offset of an epoch
is one record wherever it lies. Format page: docs/format/remote-log-metadata.md.

Kafka's counterparts: `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs`, and `read`, which looks
up each offset by its epoch.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from ottla.base.ids import uuid_text
from ottla.base.values import dataclass
from ottla.storage.findings import Finding, FindingKind, LostOffsets
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata

END = 1 << 63
"""After every offset."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets of a log from one upload; both ends are included."""

    segment: RemoteLogSegmentMetadata
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The uploads that make up the part of a log that lies in the tier."""

    start_offset: int
    """The log's start: later than the recorded one where uploads before it were deleted."""
    pieces: tuple[Piece, ...]
    """Ascending, no offset twice, and no gap that is not a finding of `LOST_OFFSETS`."""
    findings: tuple[Finding, ...]
    """Gaps, and notes of how the lineage was found; the path is the partition's name."""

    def within(self, from_offset: int, until_offset: int) -> "Chain":
        """The same log with the pieces and the gaps alone that have some of these offsets."""
        return Chain(
            start_offset=self.start_offset,
            pieces=tuple(
                one
                for one in self.pieces
                if one.first_offset < until_offset and one.last_offset >= from_offset
            ),
            findings=tuple(
                one
                for one in self.findings
                if one.lost is not None
                and one.lost.first < until_offset
                and one.lost.until > from_offset
            ),
        )

    def joined(self, other: "Chain") -> "Chain":
        """The pieces and the gaps of two parts of one log, which may share some."""
        pieces = {one.first_offset: one for one in (*self.pieces, *other.pieces)}
        return Chain(
            start_offset=self.start_offset,
            pieces=tuple(pieces[first] for first in sorted(pieces)),
            findings=tuple(dict.fromkeys((*self.findings, *other.findings))),
        )


def is_in_lineage(
    segment: RemoteLogSegmentMetadata, epochs: Sequence[EpochEntry], log_end_offset: int
) -> bool:
    """Whether a whole upload belongs to a log with these leader epochs and this end.

    Of the epochs that the upload has in common with the log, all but the first must begin at the
    log's offsets, and the last must end before the log's next one begins.
    """
    ours = _with_records((one.epoch, one.start_offset) for one in epochs)
    if not ours or segment.end_offset >= log_end_offset:
        return False
    known = [epoch for epoch, _ in ours]
    theirs = [one for one in _with_records(segment.leader_epochs) if one[0] >= known[0]]
    if not theirs or theirs[0][0] not in known:
        return False
    number = known.index(theirs[0][0])
    until = number + len(theirs)
    # The log's first epoch may begin later there than in the upload: retention moves its start.
    is_too_early = number > 0 and theirs[0][1] < ours[number][1]
    is_too_late = until < len(ours) and segment.end_offset >= ours[until][1]
    return not is_too_early and not is_too_late and theirs[1:] == ours[number + 1 : until]


def _with_records(epochs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without epochs in which nothing was written: the next one begins at the same offset."""
    every = list(epochs)
    starts = [offset for _, offset in every]
    return [one for one, following in zip_longest(every, starts[1:]) if one[1] != following]


def pieces_of(
    index: SegmentIndex, epochs: Sequence[EpochEntry], first_offset: int, until_offset: int
) -> Iterator[Piece]:
    """What the tier has of the offsets of a log with these leader epochs: ascending, none twice."""
    piece: Piece | None = None
    for entry, following in zip_longest(epochs, epochs[1:]):
        first = max(entry.start_offset, first_offset)
        end = until_offset if following is None else min(following.start_offset, until_offset)
        for start, last, segment in index.ranges(entry.epoch, first, end - 1):
            if piece is not None and piece.segment is segment and piece.last_offset + 1 == start:
                start = piece.first_offset
            elif piece is not None:
                yield piece
            piece = Piece(segment, start, last)
    if piece is not None:
        yield piece


def highest_remote_offset(
    index: SegmentIndex,
    epochs: Sequence[EpochEntry],
    local_start_offset: int,
    log_end_offset: int,
) -> EpochEntry | None:
    """The last offset up to which the tier has all of a log's records that are local, with its
    leader epoch; if it has none of them, the last offset before them. `None` if it has nothing.

    Only uploads that still exist count. Kafka (`RemoteLogManager.findHighestRemoteOffset`) takes
    the highest offset ever copied: after an upload that was deleted, or never finished, it would
    neither copy the local segments before that offset, nor keep them.
    """
    due = local_start_offset
    for piece in pieces_of(index, epochs, local_start_offset, log_end_offset):
        if piece.first_offset > due:
            break
        due = piece.last_offset + 1
    if due > local_start_offset:
        return _in_epoch(epochs, due - 1)
    last = local_start_offset - 1
    epoch_of_last = next((one.epoch for one in reversed(epochs) if one.start_offset <= last), None)
    if epoch_of_last is not None and index.look_up(epoch_of_last, last) is not None:
        return EpochEntry(epoch_of_last, last)  # what local retention leaves, found at once
    end = local_start_offset
    for entry in reversed(epochs):
        found = index.last_offset(entry.epoch, entry.start_offset, end - 1)
        if found is not None:
            return EpochEntry(entry.epoch, found)
        end = min(end, entry.start_offset)
    return None


def start_after_deletion(
    index: SegmentIndex,
    epochs: Sequence[EpochEntry],
    log_start_offset: int,
    local_start_offset: int,
) -> int:
    """Where a log starts whose first uploads were deleted: an earlier leader has moved the start,
    and this broker has not heard of it. The log start as it is, if nothing says so.

    Kafka: `RemoteLogManager.findLogStartOffset`.
    """
    if log_start_offset >= local_start_offset:
        return log_start_offset
    pieces = pieces_of(index, epochs, log_start_offset, local_start_offset)
    first = [one for one in (next(iter(pieces), None),) if one is not None]
    return _start_after_deletion(index, first, log_start_offset, local_start_offset)


def _in_epoch(epochs: Sequence[EpochEntry], offset: int) -> EpochEntry:
    (*_, epoch) = (one.epoch for one in epochs if one.start_offset <= offset)
    return EpochEntry(epoch, offset)


def piece_at(index: SegmentIndex, epochs: Sequence[EpochEntry], offset: int) -> Piece | None:
    """The offsets from `offset` on that one upload has of a log with these leader epochs; `None` if
    no upload has that one.

    The piece ends where the upload does, or where it has another history than the log.
    """
    lineage = list(epochs)
    if not lineage or lineage[0].start_offset > offset:
        lineage = _completed(lineage, index)
    piece = next(pieces_of(index, lineage, offset, END), None)
    return piece if piece is not None and piece.first_offset == offset else None


def chain(
    index: SegmentIndex,
    epochs: Sequence[EpochEntry],
    log_start_offset: int,
    until_offset: int | None,
) -> Chain:
    """The uploads of a log from its start up to the first offset that is local.

    `epochs` are those of the log's `leader-epoch-checkpoint`. What lies before the first of them,
    or all if there is none, is found by the epochs of the uploads, of which a later one supersedes
    an earlier one. If the file is lost, that of the newest upload (`IndexType.LEADER_EPOCH`) is the
    better one to pass. `until_offset` is `None` if nothing is local: the chain then ends where the
    tier does.
    """
    findings: list[Finding] = []
    lineage = list(epochs)
    if not lineage or lineage[0].start_offset > log_start_offset:
        lineage = _completed(lineage, index)
        if lineage != list(epochs):
            findings.append(_note(index, _says_epochs(epochs)))
    until = END if until_offset is None else until_offset
    pieces = tuple(pieces_of(index, lineage, log_start_offset, until))
    start = _start_after_deletion(index, pieces, log_start_offset, until_offset)
    if start != log_start_offset:
        reason = f"the log starts at {start}, not {log_start_offset}: what precedes was deleted"
        findings.append(_note(index, reason))
    for first, last in _gaps(pieces, start, until_offset):
        findings.append(_gap(index, first, last))
    return Chain(start_offset=start, pieces=pieces, findings=tuple(findings))


def _completed(epochs: list[EpochEntry], index: SegmentIndex) -> list[EpochEntry]:
    """The epochs with those of finished uploads before the first one."""
    starts = index.epoch_starts
    later, limit = epochs, END
    before = sorted(starts, reverse=True)
    if epochs:
        first = epochs[0]
        limit = min(first.start_offset, starts.get(first.epoch, END))
        later = [EpochEntry(first.epoch, limit), *epochs[1:]]
        before = [epoch for epoch in before if epoch < first.epoch]
    found: list[EpochEntry] = []
    for epoch in before:
        if starts[epoch] < limit:
            limit = starts[epoch]
            found.append(EpochEntry(epoch, limit))
    return [*reversed(found), *later]


def _says_epochs(epochs: Sequence[EpochEntry]) -> str:
    if not epochs:
        return "there are no leader epochs of the log: those of the uploads are used"
    start = epochs[0].start_offset
    return f"the leader epochs begin at offset {start}: before it those of the uploads are used"


def _start_after_deletion(
    index: SegmentIndex,
    pieces: Sequence[Piece],
    log_start_offset: int,
    until_offset: int | None,
) -> int:
    """The first offset that is there, if the records say that all before it were deleted.

    The checkpoint of the log start is written from time to time: after a kill it may be behind.
    """
    first = pieces[0].first_offset if pieces else until_offset
    if first is None or first > index.after_deleted(log_start_offset):
        return log_start_offset
    return max(first, log_start_offset)


def _gaps(
    pieces: Sequence[Piece], start: int, until_offset: int | None
) -> Iterator[tuple[int, int]]:
    due = start
    for piece in pieces:
        if piece.first_offset > due:
            yield due, piece.first_offset - 1
        due = piece.last_offset + 1
    if until_offset is not None and due < until_offset:
        yield due, until_offset - 1


def _gap(index: SegmentIndex, first: int, last: int) -> Finding:
    lost = LostOffsets(first=first, last=last)
    unused = (
        f"; upload {uuid_text(one.segment_id)} of offsets {one.start_offset} to {one.end_offset} "
        f"in epochs {', '.join(str(epoch) for epoch, _ in one.leader_epochs)} is {one.state.name}"
        for one in index.segments()
        if one.start_offset <= last and one.end_offset >= first
    )
    return Finding(
        kind=FindingKind.LOST_OFFSETS,
        path=str(index.partition),
        position=None,
        reason=f"no upload in the tier has {lost.text}{next(unused, '')}",
        lost=lost,
    )


def _note(index: SegmentIndex, reason: str) -> Finding:
    return Finding(kind=FindingKind.STATE, path=str(index.partition), position=None, reason=reason)
