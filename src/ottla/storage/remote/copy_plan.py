"""Which local segments are copied to the tier next, and as what they are known there.

Kafka's counterparts: `RemoteLogManager.RLMCopyTask.candidateLogSegments`, `copyLogSegment`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.storage.files.checkpoints import checkpoint_text
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition


class LocalSegment(Protocol):
    """What is asked of a segment; `largest_timestamp_ms` only where it counts. It is that of the
    records, or the file's modification time if they have none.
    """

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def largest_timestamp_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLag:
    """How long a segment stays only local (KIP-1241): until it is `ms` old, or `size` bytes of the
    log are newer. 0 is no delay; `None` says nothing.
    """

    ms: int | None = 0
    size: int | None = None

    @classmethod
    def of(cls, *, ms: int, size: int, local_ms: int, local_size: int) -> "CopyLag":
        """Of `remote.copy.lag.ms` and `.bytes`, where -1 takes the limit of local retention. If
        that is -1 too, the segment need not be copied for its sake.
        """
        wanted = (local_ms if ms == -1 else ms), (local_size if size == -1 else size)
        ms_limit, size_limit = (None if one == -1 else one for one in wanted)
        return cls(ms=ms_limit, size=size_limit)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment to copy, and the base offset of the one after it."""

    segment: LocalSegment
    next_offset: int


def candidates(
    segments: Sequence[LocalSegment],
    from_offset: int,
    last_stable_offset: int,
    lag: CopyLag,
    now_ms: int,
) -> Iterator[Candidate]:
    """The segments with offsets from `from_offset` on that may be copied now, in their order.

    `segments` are all of the log: the last is active, and never copied. None is copied before all
    of its records are stable, or before an earlier one.
    """
    newer = sum(one.size for one in segments)
    for one, following in pairwise(segments):
        newer -= one.size
        if following.base_offset <= from_offset:
            continue
        if following.base_offset > last_stable_offset or not _is_due(one, newer, lag, now_ms):
            return
        yield Candidate(one, following.base_offset)


def _is_due(segment: LocalSegment, newer: int, lag: CopyLag, now_ms: int) -> bool:
    if lag.ms == 0 or lag.size == 0:
        return True
    if lag.size is not None and newer >= lag.size:
        return True
    if lag.ms is None:
        return False
    # A timestamp in the future says nothing of a segment's age: it does not wait for that time.
    timestamp_ms = segment.largest_timestamp_ms()
    return timestamp_ms > now_ms or now_ms - timestamp_ms >= lag.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What distinguishes one attempt to copy a segment: each has another `segment_id`."""

    partition: TopicIdPartition
    segment_id: Uuid
    broker_id: int


def upload_of(
    candidate: Candidate, epochs: Iterable[EpochEntry], upload: Upload, now_ms: int
) -> RemoteLogSegmentMetadata:
    """The metadata of an upload that begins.

    Raises `ValueError` for records without leader epochs, as of the old message formats: their
    lineage cannot be known, so that they cannot be read from a tier.
    """
    segment, next_offset = candidate.segment, candidate.next_offset
    found = epochs_between(epochs, segment.base_offset, next_offset)
    if not found:
        raise ValueError(f"offsets {segment.base_offset} to {next_offset - 1} have no leader epoch")
    return RemoteLogSegmentMetadata(
        partition=upload.partition,
        segment_id=upload.segment_id,
        start_offset=segment.base_offset,
        end_offset=next_offset - 1,
        broker_id=upload.broker_id,
        max_timestamp_ms=segment.largest_timestamp_ms(),
        event_timestamp_ms=now_ms,
        leader_epochs=found,
        size=segment.size,
    )


def epochs_between(
    epochs: Iterable[EpochEntry], first_offset: int, until_offset: int
) -> tuple[tuple[int, int], ...]:
    """The leader epochs with records in a range of offsets, the first from the range's start."""
    ends = EpochEntry(-1, until_offset)
    return tuple(
        (one.epoch, max(one.start_offset, first_offset))
        for one, following in pairwise([*epochs, ends])
        if max(one.start_offset, first_offset) < min(following.start_offset, until_offset)
    )


def epoch_checkpoint(epochs: Iterable[EpochEntry], until_offset: int) -> bytes:
    """The `leader-epoch-checkpoint` of a log up to an offset, which is uploaded with a segment."""
    before = (one for one in epochs if one.start_offset < until_offset)
    return checkpoint_text(f"{one.epoch} {one.start_offset}" for one in before)


def only_local(
    segments: Sequence[LocalSegment], start_offset: int, highest_remote_offset: int
) -> list[LocalSegment]:
    """The segments with offsets from `start_offset` on that the tier does not have; the active one,
    which is the last, is always among them.
    """
    until = max(start_offset, highest_remote_offset + 1)
    bases = [one.base_offset for one in segments]
    return [*segments[max(bisect_right(bases, until) - 1, 0) :]]
