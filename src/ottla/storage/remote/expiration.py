"""Which uploads are deleted, and where the log starts then.

Kafka's counterparts: `RemoteLogManager.RLMExpirationTask.cleanupExpiredRemoteLogSegments`,
`RemoteLogRetentionHandler`. What differs:

- Kafka asks what the tier has of the local log at a leader's first copy, and before that counts
  copied segments twice (Kafka 3.9). Here the index is asked each time.
- Retention judges what is read of the log's history, each offset once: Kafka counts an upload that
  another one has overtaken too, and none of which a part only belongs to the log.
- What a killed process had begun to upload is deleted at once, and what another broker had begun
  as soon as the log needs nothing of it; Kafka leaves both until retention comes to these offsets.
"""

from collections.abc import Container, Iterable, Sequence
from enum import Enum
from itertools import chain

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.copy_plan import LocalSegment, only_local
from ottla.storage.remote.lineage import Piece, highest_remote_offset, pieces_of
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, SegmentState


class Reason(Enum):
    """Why an upload is deleted; values appear in messages."""

    AGAIN = "its deletion has begun"
    ABANDONED = "its upload was abandoned"
    SIZE = "retention.bytes"
    TIME = "retention.ms"
    LOG_START = "log start"
    UNREFERENCED = "its leader epochs precede those of the log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """What is known of a log whose leader deletes uploads.

    `segments` are the local ones, the active one included. Limits are -1 where there is none, as
    without the policy `delete`. `being_copied` are the ids of uploads that this broker is making.
    """

    broker_id: int
    epochs: Sequence[EpochEntry]
    log_start_offset: int
    log_end_offset: int
    segments: Sequence[LocalSegment]
    retention_ms: int
    retention_bytes: int
    being_copied: Container[Uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiration:
    """`log_start_offset` must be known to followers and be durable before the first deletion; it is
    never lower than the log's. `going` are deleted in this order.
    """

    log_start_offset: int
    going: tuple[tuple[RemoteLogSegmentMetadata, Reason], ...]


def plan_expiration(index: SegmentIndex, log: LogState, now_ms: int) -> Expiration:
    """What the leader of a log deletes of its uploads now: cheap while that is nothing."""
    start, expired = _expired(index, log, now_ms)
    first_epoch = log.epochs[0].epoch if log.epochs else -1
    going = []
    for one in index:
        if (
            one.state is SegmentState.COPY_SEGMENT_FINISHED
            and one.end_offset >= start
            and one.leader_epochs[-1][0] >= first_epoch
            and one.segment_id not in expired
        ):
            continue  # As nearly all: none of the reasons can apply.
        reason = expired.get(one.segment_id) or _other_reason(one, index, log, start)
        if reason is not None:
            going.append((one, reason))
    going.sort(key=lambda pair: pair[0].start_offset)
    return Expiration(log_start_offset=start, going=tuple(going))


def _expired(index: SegmentIndex, log: LogState, now_ms: int) -> tuple[int, dict[Uuid, Reason]]:
    """Where retention lets the log start, and the uploads of which nothing is left then."""
    start, reasons = log.log_start_offset, {}
    # Uploads that are not used count here too, so that this is seldom more than a comparison.
    most = index.size + _only_local_size(index, log) if log.retention_bytes >= 0 else 0
    pieces = pieces_of(index, log.epochs, start, log.log_end_offset)
    first = next(pieces, None)
    if first is None:
        return start, {}
    without_first = 0 if _is_old(first.segment, log, now_ms) else first.segment.size
    is_over = 0 <= log.retention_bytes <= most - without_first
    every = chain([first], pieces)
    walked = list(every) if is_over else _old_pieces(every, log, now_ms)
    ends = {one.segment.segment_id: one.last_offset for one in walked}
    left = _size(index, log, walked) if is_over else -1
    for piece in walked:
        one = piece.segment
        if _is_old(one, log, now_ms):
            reasons[one.segment_id] = Reason.TIME
        elif is_over and log.retention_bytes <= left - one.size:
            reasons[one.segment_id] = Reason.SIZE
        else:
            break
        start = piece.last_offset + 1
        if ends[one.segment_id] < start:
            left -= one.size
    return start, {one: reason for one, reason in reasons.items() if ends[one] < start}


def _old_pieces(pieces: Iterable[Piece], log: LogState, now_ms: int) -> list[Piece]:
    """Those up to the first that is young, and what else their uploads may have after it."""
    found, furthest, is_old = [], -1, True
    for piece in pieces:
        is_old = is_old and _is_old(piece.segment, log, now_ms)
        if is_old:
            furthest = max(furthest, piece.segment.end_offset)
        elif piece.first_offset > furthest:
            break
        found.append(piece)
    return found


def _is_old(segment: RemoteLogSegmentMetadata, log: LogState, now_ms: int) -> bool:
    return 0 <= log.retention_ms < now_ms - segment.max_timestamp_ms


def _size(index: SegmentIndex, log: LogState, pieces: Iterable[Piece]) -> int:
    """The bytes that `retention.bytes` limits: what is only local, and what is in the tier."""
    uploads = {one.segment.segment_id: one.segment for one in pieces}
    return _only_local_size(index, log) + sum(one.size for one in uploads.values())


def _only_local_size(index: SegmentIndex, log: LogState) -> int:
    start = max(log.log_start_offset, log.segments[0].base_offset)
    highest = highest_remote_offset(index, log.epochs, start, log.log_end_offset)
    until = -1 if highest is None else highest.start_offset
    return sum(one.size for one in only_local(log.segments, start, until))


def _other_reason(
    segment: RemoteLogSegmentMetadata, index: SegmentIndex, log: LogState, start: int
) -> Reason | None:
    """Why an upload is deleted that retention does not judge; `start` is where the log will."""
    last_epoch = segment.leader_epochs[-1][0]
    match segment.state:
        case SegmentState.DELETE_SEGMENT_STARTED:
            return Reason.AGAIN
        case SegmentState.COPY_SEGMENT_STARTED:
            is_abandoned = segment.segment_id not in log.being_copied and (
                segment.broker_id == log.broker_id or _counts_no_more(segment, index, log, start)
            )
            return Reason.ABANDONED if is_abandoned else None
    if not log.epochs:
        return None
    # Otherwise the log's own epochs before the first known one are unknown.
    is_complete = log.epochs[0].start_offset <= log.log_start_offset
    if is_complete and last_epoch < log.epochs[0].epoch:
        return Reason.UNREFERENCED
    # A later epoch's upload may be of a leader that has followed this one.
    at_start = [one.epoch for one in log.epochs if one.start_offset <= start]
    if segment.end_offset < start and last_epoch <= max(at_start, default=-1):
        return Reason.LOG_START
    return None


def _counts_no_more(
    segment: RemoteLogSegmentMetadata, index: SegmentIndex, log: LogState, start: int
) -> bool:
    """Whether the log needs nothing of what another broker has begun to upload, and which that
    broker may still finish: each of its offsets is in a finished upload too, or below the log's
    start, or has another leader epoch in the log, as after an unclean election.

    Kafka deletes it by the second and the third of these only, and the third only when the epoch
    precedes all of the log's.
    """
    at_start = [one.epoch for one in log.epochs if one.start_offset <= start]
    for epoch, first, last in segment.epoch_ranges():
        due = first if epoch > max(at_start, default=-1) else max(first, start)
        later = [one.start_offset for one in log.epochs if one.epoch > epoch]
        until = min([last + 1, *later])
        for found, end, _ in index.ranges(epoch, due, until - 1):
            if found != due:
                return False
            due = end + 1
        if due < until:
            return False
    return True
