"""Reads topics from any Kafka broker through `wire_client.py`.

Rows are the same as from files: no control records, checksums verified, and read_committed unless
requested otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.client.bulk.reading import EARLIEST, LATEST
from ottla.client.refusals import RefusedError
from ottla.record.batch_roll_up import BatchRollUp, Survey, survey
from ottla.sources.log_source import ANY_TASKS, LogPartition, OffsetsGoneError, OnUnreadable, Split
from ottla.sources.options import Isolation
from ottla.sources.splits import OffsetSpan, SplitOptions, split_ranges
from ottla.sources.topic_choice import TopicChoice
from ottla.sources.wire.wire_client import WireClient

if TYPE_CHECKING:
    import pyarrow as pa

MIN_TASK_OFFSETS = 50_000
MAX_TASK_OFFSETS = 2_000_000
"""The maximum number of offsets in a task. A broker does not report sizes."""


class BrokerLog:
    """See `LogSource`."""

    looks_by_reading = True

    def __init__(
        self,
        client: WireClient,
        choice: TopicChoice,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self._client = client
        self._choice = choice
        self._isolation = isolation
        self._surveyed: tuple[tuple[TopicPartition, OffsetRange], Survey] | None = None

    def partitions(
        self, *, allow_missing: bool = False, on_unreadable: OnUnreadable | None = None
    ) -> list[LogPartition]:
        ids = self._chosen(allow_missing=allow_missing)
        starts = self._client.offsets(dict.fromkeys(ids, EARLIEST), self._isolation)
        ends = self._client.offsets(dict.fromkeys(ids, LATEST), self._isolation)
        log_ends = self._client.offsets(dict.fromkeys(ids, LATEST), Isolation.READ_UNCOMMITTED)
        return [
            LogPartition(
                topic=place.topic,
                topic_id=ids[place],
                partition=place.partition,
                start_offset=starts[place].offset,
                end_offset=max(starts[place].offset, ends[place].offset),
                log_end_offset=log_ends[place].offset,
                leader_epoch=ends[place].leader_epoch,
            )
            for place in sorted(ids)
        ]

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        listed = self._client.offsets(wanted, self._isolation)
        return {place: one.offset if one.offset >= 0 else None for place, one in listed.items()}

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        return self._client.divergence_offset(place, epoch, position)

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        rule = options.rule(min_size=MIN_TASK_OFFSETS, max_size=MAX_TASK_OFFSETS)
        spans = {
            place: [OffsetSpan(**asdict(wanted), size=wanted.count)] if wanted.count else []
            for place, wanted in ranges.items()
        }
        ids = self._client.partitions_of({place.topic for place in ranges})
        return [
            Split(
                place=place,
                from_offset=part.from_offset,
                until_offset=part.until_offset,
                topic_id=ids.get(place),
            )
            for place, part in split_ranges(spans, rule)
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        try:
            yield from self._client.read(split, columns)
        except (OffsetsGoneError, RefusedError):
            self._check_same_topic(split)
            raise
        self._check_same_topic(split)

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int:
        return self._survey(place, wanted).record_count

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp:
        return self._survey(place, wanted).batches

    def _survey(self, place: TopicPartition, wanted: OffsetRange) -> Survey:
        """Counts and rolls up a range by fetching its records; the last range is cached."""
        if self._surveyed is None or (place, wanted) != self._surveyed[0]:
            start, end = wanted.from_offset, wanted.until_offset
            batches = self._client.batches(Split(place=place, from_offset=start, until_offset=end))
            self._surveyed = (place, wanted), survey(batches, wanted)
        return self._surveyed[1]

    def _check_same_topic(self, split: Split) -> None:
        """Raises `UserError` if the topic id changed. Called after the read, to cover all of it."""
        if split.topic_id is None:
            return
        there = self._client.partitions_of([split.place.topic])
        if split.topic_id != there.get(split.place):
            raise UserError(
                f"{split.place}: the topic was deleted, or re-created, since the read was planned "
                f"(its id was {uuid_text(split.topic_id)}); run it again"
            )

    def _chosen(self, *, allow_missing: bool) -> dict[TopicPartition, Uuid | None]:
        """The chosen partitions with the ids of their topics."""
        names = self._choice.named
        if names is None:
            names = tuple(self._choice.topics(self._client.topics()))
        there = self._client.partitions_of(names)
        if not allow_missing:
            for topic in sorted(set(names) - {place.topic for place in there}):
                address = self._client.address
                raise UserError(f"{address} has no topic {topic}; create it, or name another one")
        return {place: there[place] for place in there if self._choice.takes(place)}
