"""Says of each segment of a log where it is, and why: in its directory, in the tier, or in neither.

The rules are those of the copy task (Kafka: `RemoteLogManager.RLMCopyTask`), of local retention and
of expiration. Nothing is read of a log but its batches' headers.
"""

from collections.abc import Iterator
from itertools import zip_longest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.base.ids import uuid_text
from ottla.base.times import second_text
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.diagnosis.retention_explanation import SegmentOnDisk
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.copy_plan import CopyLag, candidates
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.tiers.contents import Role, TieredLog, Upload

ENABLE = "remote.storage.enable"
COPY_DISABLE = "remote.log.copy.disable"


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


def explain_tier(log: TieredLog, config: TopicConfig | None, now_ms: int) -> ExplainedTier:
    """Explains the segments of a log at a time; `config` is `None` if the topic's is unknown."""
    local = log.local
    opened = None
    if local is not None:
        opened = local.directory.partition(log.partition.topic, log.partition.partition)
    end = None if opened is None else opened.offsets.log_end_offset
    stable = None if opened is None else _stable_offset(opened)
    rows = [_of_upload(one, log) for one in log.uploads()]
    rows += _gaps(log)
    if end is not None:
        rows += _of_local(log, end, _NotCopied(log, stable, config, now_ms))
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


def _of_local(log: TieredLog, end_offset: int, why: "_NotCopied") -> Iterator[Explained]:
    assert log.local is not None
    covered = [(one.first_offset, one.last_offset) for one in log.chain(None).pieces]
    segments = log.local.segments
    for files, following in zip_longest(segments, segments[1:]):
        until = end_offset if following is None else following.base_offset
        first = max(files.base_offset, log.local.log_start)
        is_copied = first < until and _is_covered(first, until - 1, covered)
        yield Explained(
            first_offset=files.base_offset,
            last_offset=max(files.base_offset, until - 1),
            place="local",
            size=files.size,
            state="copied" if is_copied else "not copied",
            reason="in the tier too; local retention has not deleted it here"
            if is_copied
            else why.reason(files.base_offset, until, is_active=following is None),
        )


def _is_covered(first: int, last: int, ranges: list[tuple[int, int]]) -> bool:
    return _first_uncovered(first, ranges) > last


def _first_uncovered(offset: int, ranges: list[tuple[int, int]]) -> int:
    """The first offset from one on that is in none of the ascending ranges."""
    for start, end in ranges:
        if start <= offset <= end:
            offset = end + 1
    return offset


class _NotCopied:
    """Names the first rule that keeps a local segment from being copied, as the copy task goes by
    them. Without `config` the topic's settings are unknown.
    """

    def __init__(
        self, log: TieredLog, stable: int | None, config: TopicConfig | None, now_ms: int
    ) -> None:
        assert log.local is not None
        self._stable = stable
        self._config = config
        covered = [(one.first_offset, one.last_offset) for one in log.chain(None).pieces]
        segments = [
            _LocalSegment(log.local.directory.file_system, one) for one in log.local.segments
        ]
        due = candidates(
            segments,
            _first_uncovered(log.local.start_offset or 0, covered),
            MAX_OFFSET if stable is None else stable,
            CopyLag() if config is None else _lag_of(config),
            now_ms,
        )
        self._due = {one.segment.base_offset for one in due}

    def reason(self, base_offset: int, until: int, *, is_active: bool) -> str:
        config, stable = self._config, self._stable
        if config is not None and not config.remote_storage_enable:
            return f"not copied: the topic has no tier ({ENABLE} is not true)"
        if config is not None and config.remote_log_copy_disable:
            return f"not copied: {COPY_DISABLE} is true"
        if is_active:
            return "not copied: the active segment, which is copied after it is rolled"
        if stable is not None and until > stable:
            return (
                f"not copied: it ends after the last stable offset, {stable} "
                "(`ottla explain stuck`)"
            )
        if base_offset in self._due:
            return "not copied yet: the leader's next copy task takes it"
        lag = TopicConfig() if config is None else config
        return (
            f"not copied yet: it waits for remote.copy.lag.ms={lag.remote_copy_lag_ms} or "
            f"remote.copy.lag.bytes={lag.remote_copy_lag_bytes}, or an earlier one does"
        )


class _LocalSegment:
    """A segment as the plan of copies asks for it; its time is read only where it counts."""

    def __init__(self, file_system: FileSystem, files: SegmentFiles) -> None:
        self._on_disk = SegmentOnDisk(file_system, files, is_active=False)
        self.base_offset = files.base_offset
        self.size = files.size

    def largest_timestamp_ms(self) -> int:
        return self._on_disk.time().timestamp_ms


def _lag_of(config: TopicConfig) -> CopyLag:
    return CopyLag.of(
        ms=config.remote_copy_lag_ms,
        size=config.remote_copy_lag_bytes,
        local_ms=config.local_limit_ms,
        local_size=config.local_limit_bytes,
    )
