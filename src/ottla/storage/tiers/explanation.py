"""Says of each segment of a log where it is, and why: in its directory, in the tier, or in neither.

The rules are those of the copy task (Kafka: `RemoteLogManager.RLMCopyTask`), of local retention and
of expiration. Nothing is read of a log but its batches' headers.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from ottla.base.errors import CorruptionError
from ottla.base.ids import uuid_text
from ottla.base.times import second_text
from ottla.base.values import dataclass
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.tiers.contents import Role, TieredLog, Upload

ENABLE = "remote.storage.enable"
COPY_DISABLE = "remote.log.copy.disable"
LAGS = ("remote.copy.lag.ms", "remote.copy.lag.bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A local segment, an upload, or a gap (`place` is "nowhere"); both offsets are included."""

    first_offset: int
    last_offset: int | None
    """`None` if only the objects of an upload say what it is, and these were not read."""
    place: str
    """"local", "tier" or "nowhere"."""
    size: int | None
    state: str
    """The role of an upload; for a local segment whether it is copied."""
    reason: str
    upload_id: str | None = None

    def has(self, offset: int) -> bool:
        last = self.first_offset if self.last_offset is None else self.last_offset
        return self.first_offset <= offset <= last


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTier:
    """One partition. `end_offset` and `stable_offset` are the local log's, `None` without one."""

    log: TieredLog
    end_offset: int | None
    stable_offset: int | None
    rows: tuple[Explained, ...]


def explain_tier(log: TieredLog, settings: Mapping[str, str] | None) -> ExplainedTier:
    """Explains the segments of a log; `settings` are the topic's own, `None` if unknown."""
    local = log.local
    opened = None
    if local is not None:
        opened = local.directory.partition(log.partition.topic, log.partition.partition)
    end = None if opened is None else opened.offsets.log_end_offset
    stable = None if opened is None else _stable_offset(opened)
    rows = [_of_upload(one, log) for one in log.uploads()]
    rows += _gaps(log)
    if end is not None:
        rows += _of_local(log, end, stable, settings)
    rows.sort(key=lambda one: (one.first_offset, one.place != "tier"))
    return ExplainedTier(log=log, end_offset=end, stable_offset=stable, rows=tuple(rows))


def _stable_offset(log: ReadOnlyLog) -> int | None:
    try:
        return log.transactions.last_stable_offset
    except CorruptionError:
        return None  # `ottla log check` names the damage.


def _of_upload(upload: Upload, log: TieredLog) -> Explained:
    segment, stored = upload.segment, upload.stored
    size = None if stored is None else stored.size
    return Explained(
        first_offset=upload.start_offset,
        last_offset=None if segment is None else segment.end_offset,
        place="tier",
        size=size if segment is None else segment.size,
        state=upload.role.value,
        reason=_reason(upload, log),
        upload_id=uuid_text(upload.segment_id),
    )


def _reason(upload: Upload, log: TieredLog) -> str:
    segment = upload.segment
    if segment is None:
        return {
            Role.ORPHAN: "no record names it, so that nothing reads it",
            Role.HALF: "a part of its objects is missing, and no record names it: what a copy that "
            "was cut off, or a deletion, has left",
        }.get(upload.role, "its objects cannot be read: `ottla tier check` says why")
    copied = _copied(segment)
    match upload.role:
        case Role.READ:
            return f"{copied}; no longer in the directory{_partly(upload, segment)}"
        case Role.LOCAL:
            return f"{copied}; local too, until local retention deletes it there"
        case Role.SUPERSEDED:
            return f"{copied}; {_successor(segment, log)}"
        case Role.OTHER_LINEAGE:
            return f"{copied}; {_lineage(segment, log)}"
        case Role.EXPIRED:
            return f"{copied}; before the log's start, {log.log_start}: expiration deletes it"
        case Role.COPYING:
            return (
                f"its copying was begun by broker {segment.broker_id} at "
                f"{second_text(segment.event_timestamp_ms)}, and not finished"
            )
        case _:
            return f"its deletion was begun at {second_text(segment.event_timestamp_ms)}"


def _copied(segment: RemoteLogSegmentMetadata) -> str:
    if segment.event_timestamp_ms < 0:
        return "copied"
    return f"copied by broker {segment.broker_id} at {second_text(segment.event_timestamp_ms)}"


def _partly(upload: Upload, segment: RemoteLogSegmentMetadata) -> str:
    pieces = [(one.first_offset, one.last_offset) for one in upload.pieces]
    if pieces == [(segment.start_offset, segment.end_offset)]:
        return ""
    ranges = " and ".join(f"{first} to {last}" for first, last in pieces)
    return f"; the log has offsets {ranges} of it"


def _successor(segment: RemoteLogSegmentMetadata, log: TieredLog) -> str:
    for epoch, first, _ in segment.epoch_ranges():
        other = log.index.look_up(epoch, first)
        if other is not None and other.segment_id != segment.segment_id:
            return f"upload {uuid_text(other.segment_id)} has these offsets too, and is read"
    return "other uploads have these offsets too, and are read"


def _lineage(segment: RemoteLogSegmentMetadata, log: TieredLog) -> str:
    theirs = ", ".join(f"{epoch} from {start}" for epoch, start in segment.leader_epochs)
    ours = ", ".join(f"{one.epoch} from {one.start_offset}" for one in log.epochs)
    return (
        f"its leader epochs ({theirs}) are not the log's ({ours}): records that the log lost, as "
        "in an unclean election"
    )


def _gaps(log: TieredLog) -> Iterator[Explained]:
    for one in log.needed.findings:
        if one.lost is not None:
            yield Explained(
                first_offset=one.lost.first,
                last_offset=one.lost.last,
                place="nowhere",
                size=None,
                state="lost",
                reason=one.reason,
            )


def _of_local(
    log: TieredLog, end_offset: int, stable: int | None, settings: Mapping[str, str] | None
) -> Iterator[Explained]:
    assert log.local is not None
    covered = [(one.first_offset, one.last_offset) for one in log.chain(None).pieces]
    segments = log.local.segments
    for files, following in zip_longest(segments, segments[1:]):
        until = end_offset if following is None else following.base_offset
        first = max(files.base_offset, log.local.log_start)
        is_copied = first < until and _is_covered(first, until - 1, covered)
        reason = (
            "in the tier too; local retention has not deleted it here"
            if is_copied
            else _not_copied(until, following is None, stable, settings)
        )
        yield Explained(
            first_offset=files.base_offset,
            last_offset=max(files.base_offset, until - 1),
            place="local",
            size=files.size,
            state="copied" if is_copied else "not copied",
            reason=reason,
        )


def _is_covered(first: int, last: int, ranges: list[tuple[int, int]]) -> bool:
    for start, end in ranges:
        if start <= first <= end:
            first = end + 1
    return first > last


def _not_copied(
    until: int, is_active: bool, stable: int | None, settings: Mapping[str, str] | None
) -> str:
    """The first rule that keeps a local segment from being copied."""
    if settings is not None and settings.get(ENABLE) != "true":
        return f"not copied: the topic has no tier ({ENABLE} is not true)"
    if settings is not None and settings.get(COPY_DISABLE) == "true":
        return f"not copied: {COPY_DISABLE} is true"
    if is_active:
        return "not copied: the active segment, which is copied after it is rolled"
    if stable is not None and until > stable:
        return f"not copied: it ends after the last stable offset, {stable} (`ottla explain stuck`)"
    lags = [f"{one}={settings[one]}" for one in LAGS if settings is not None and one in settings]
    if lags:
        return f"not copied yet: the copy task may wait for {' and '.join(lags)}"
    return "not copied yet: the leader's next copy task takes it"
