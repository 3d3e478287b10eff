"""Compares a target with its source, batch by batch, by offsets, leader epochs and CRCs.

Both sides are read as `Source`, so each may be a directory or a broker, running or not. Each batch
is checked by its CRC on both sides, and then compared. Compaction may have removed records from the
source since: if batches of a compacted topic differ, their records are compared, and the target
must have every record that the source still has.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import Committed
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.mirror.plan import describe, differing_record, fingerprint
from ottla.mirror.source import Bounds, Selection, Source, SourceTopic
from ottla.record.batch import Batch, InvalidBatchError, iter_batches


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of a topic, a `topic-partition` or a group."""

    place: str
    text: str


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """The result of a verification, with the first difference of each partition."""

    topic_count: int = 0
    partition_count: int = 0
    batch_count: int = 0
    size: int = 0
    lag: int = 0
    """The number of offsets by which the target is behind."""
    group_count: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Options of a verification.

    With `allow_lag` the target may be behind the source, for a source that is being written.
    """

    selection: Selection = field(default_factory=Selection)
    allow_lag: bool = False
    with_groups: bool = True


class Verification:
    """Compares a target with its source."""

    def __init__(
        self,
        source: Source,
        target: Source,
        options: VerifyOptions,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._on_progress = on_progress
        self._report = VerifyReport()

    def run(self) -> VerifyReport:
        """Compares all selected topics; raises `UserError` if a side cannot be read at all."""
        # Read first, so that they are not ahead of the source's offsets.
        committed = self._target.committed_offsets() if self._options.with_groups else []
        here = {one.name: one for one in self._target.topics(self._options.selection)}
        topics = self._source.topics(self._options.selection)
        for topic in topics:
            self._report.topic_count += 1
            copy = here.get(topic.name)
            if copy is None:
                self._differ(topic.name, "the target has no such topic")
                continue
            for text in topic_differences(topic, copy):
                self._differ(topic.name, text)
            for index in range(min(topic.partition_count, copy.partition_count)):
                self._compare_partition(topic, index)
        if self._options.with_groups:
            self._compare_groups({one.name for one in topics}, committed)
        return self._report

    def _differ(self, place: str, text: str) -> None:
        self._report.differences.append(Difference(place, text))

    # Partitions

    def _compare_partition(self, topic: SourceTopic, index: int) -> None:
        place = f"{topic.name}-{index}"
        self._on_progress(place)
        self._report.partition_count += 1
        try:
            text = self._partition_difference(topic, index)
        except (ApiError, CorruptionError) as error:
            text = str(error)
        if text is not None:
            self._differ(place, text)

    def _partition_difference(self, topic: SourceTopic, index: int) -> str | None:
        known, begin = replace(self._report), -1
        while True:
            copy = self._target.bounds(topic.name, index)
            source = self._source.bounds(topic.name, index)
            text = bounds_difference(source, copy, allow_lag=self._options.allow_lag)
            before, begin = begin, max(source.start, copy.start)
            end = min(source.end, copy.end)
            try:
                found = self._batch_difference(topic, index, begin, end)
            except ApiError as error:
                # Retention has deleted records meanwhile: compare again from the new start.
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or begin <= before:
                    raise
                self._report.batch_count, self._report.size = known.batch_count, known.size
                continue
            self._report.lag += max(0, source.end - copy.end)
            return found or text

    def _batch_difference(self, topic: SourceTopic, index: int, start: int, end: int) -> str | None:
        if start >= end:
            return None
        source = _Side("source", self._source.batches(topic.name, index, start, end))
        target = _Side("target", self._target.batches(topic.name, index, start, end))
        while source.next is not None or target.next is not None:
            text = self._step(source, target, topic.is_compacted)
            if text is not None:
                return text
        return None

    def _step(self, source: "_Side", target: "_Side", may_be_compacted: bool) -> str | None:
        """Compares the next batches of both sides, and advances; returns a difference."""
        for side in (source, target):
            if side.damage is not None:
                return side.damage
        ours, theirs = source.next, target.next
        if ours is not None and theirs is not None and fingerprint(ours) == fingerprint(theirs):
            self._report.batch_count += 1
            self._report.size += ours.size
            source.advance()
            target.advance()
            return None
        if may_be_compacted:
            return self._step_over_records(source, target)
        return _batches_differ(ours, theirs)

    def _step_over_records(self, source: "_Side", target: "_Side") -> str | None:
        """Checks that the target has all records of the source's next batch, and advances."""
        batch = source.next
        if batch is None:
            target.advance()
            return target.damage
        covering = target.take_until(batch.last_offset)
        if target.damage is not None:
            return target.damage
        offset = differing_record([batch], covering)
        if offset is not None:
            return f"offset {offset:,}: the target does not have the source's record"
        self._report.batch_count += 1
        self._report.size += batch.size
        source.advance()
        return None

    # Groups

    def _compare_groups(self, topics: set[str], committed: list[Committed]) -> None:
        here = {(one.group, one.topic, one.partition): one for one in committed}
        groups = set()
        for theirs in self._source.committed_offsets():
            if theirs.topic not in topics:
                continue
            groups.add(theirs.group)
            ours = here.get((theirs.group, theirs.topic, theirs.partition))
            if ours == theirs or (
                self._options.allow_lag and (ours is None or ours.offset < theirs.offset)
            ):
                continue
            said = "nothing" if ours is None else f"offset {ours.offset:,}"
            self._differ(
                f"group {theirs.group}",
                f"has committed offset {theirs.offset:,} of {theirs.topic}-{theirs.partition} in "
                f"the source, {said} in the target",
            )
        self._report.group_count = len(groups)


class _Side:
    """The batches of one side; `next` is the next batch, with its CRC checked."""

    def __init__(self, name: str, regions: Iterator[memoryview]) -> None:
        self._name = name
        self._batches = (batch for region in regions for batch in iter_batches(region))
        self.next: Batch | None = None
        self.damage: str | None = None
        self.advance()

    def advance(self) -> None:
        self.next = None
        try:
            self.next = next(self._batches, None)
            if self.next is not None:
                self.next.check()
        except InvalidBatchError as error:
            where = "" if self.next is None else f" at offset {self.next.base_offset:,}"
            self.damage = f"a batch of the {self._name}{where} is damaged: {error}"

    def take_until(self, last_offset: int) -> list[Batch]:
        """The batches that begin at or before an offset; one that ends after it stays `next`."""
        found: list[Batch] = []
        while self.next is not None and self.next.base_offset <= last_offset:
            found.append(self.next)
            if self.next.last_offset > last_offset:
                break
            self.advance()
        return found


def _batches_differ(source: Batch | None, target: Batch | None) -> str:
    if target is None or (source is not None and source.base_offset < target.base_offset):
        assert source is not None
        return f"the target lacks the batch of {describe(source)}"
    if source is None or target.base_offset < source.base_offset:
        return f"the source has no batch of {describe(target)}, which the target has"
    return f"the source has {describe(source)}; the target has {describe(target)}"


def topic_differences(source: SourceTopic, target: SourceTopic) -> Iterator[str]:
    """The differences in id, partition count and settings; unknown values do not count."""
    if None not in (source.topic_id, target.topic_id) and source.topic_id != target.topic_id:
        yield "the topic's id differs: it was re-created"
    if source.partition_count != target.partition_count:
        yield f"{source.partition_count} partitions; the target has {target.partition_count}"
    if source.overrides is None or target.overrides is None:
        return
    ours, theirs = _known(source.overrides), _known(target.overrides)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            said = [
                text if text is not None else "not set"
                for text in (ours.get(name), theirs.get(name))
            ]
            yield f"{name} is {said[0]} in the source, {said[1]} in the target"


def _known(overrides: Mapping[str, str]) -> dict[str, str]:
    rows = settings_of(TopicConfig)
    return {name: text for name, text in overrides.items() if name in rows}


def bounds_difference(source: Bounds, target: Bounds, *, allow_lag: bool) -> str | None:
    """The difference in start and end offsets, if any.

    With `allow_lag` the target may end and start before the source.
    """
    if target.end > source.end:
        return f"the target ends at offset {target.end:,}, the source at {source.end:,}"
    if target.start > source.start:
        return f"the target starts at offset {target.start:,}, the source at {source.start:,}"
    if allow_lag:
        return None
    if target.end < source.end:
        return (
            f"the target ends at offset {target.end:,}, {source.end - target.end:,} before the "
            "source; run ottla mirror again, or allow it with --allow-lag"
        )
    if target.start < source.start:
        return (
            f"the target starts at offset {target.start:,}, the source has deleted up to "
            f"{source.start:,}; run ottla mirror again, or allow it with --allow-lag"
        )
    return None
