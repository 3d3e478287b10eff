"""The uploads of a partition by leader epoch, as the records of `__remote_log_metadata` say.

An offset of a leader epoch is the same record in each upload that has it. So an upload is looked up
by epoch and offset, also where a segment was uploaded twice, or a part of it by another leader.

Of an epoch, an upload counts in the order in which it was finished: it covers those that lie within
its range, and is covered itself by one that reaches further to both sides. A covered upload is used
again when what covers it is deleted. Kafka forgets it then, and finds no offset behind a shorter
upload within a longer one.

Kafka's counterparts: `RemoteLogMetadataCache`, `RemoteLogLeaderEpochState`,
`RemotePartitionMetadataStore`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace

from ottla.base.ids import Uuid, uuid_text
from ottla.storage.remote.metadata_records import Event, PartitionDeletion, SegmentUpdate
from ottla.storage.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)


class EpochUploads:
    """The finished uploads of one leader epoch: ranges of offsets, none within another.

    So both their starts and their ends ascend, and an offset is found by bisection.
    """

    __slots__ = ("_covered", "_ends", "_ids", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._ids: list[Uuid] = []
        self._covered: dict[Uuid, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def copy(self) -> "EpochUploads":
        made = EpochUploads()
        made._starts, made._ends, made._ids = self._starts[:], self._ends[:], self._ids[:]
        made._covered = dict(self._covered)
        return made

    def find(self, offset: int) -> Uuid | None:
        """The upload that has an offset: of two, the one that begins later."""
        number = bisect_right(self._starts, offset) - 1
        return self._ids[number] if number >= 0 and offset <= self._ends[number] else None

    @property
    def start(self) -> int:
        """The first offset of all; there must be uploads."""
        return self._starts[0]

    def last_offset(self, first: int, last: int) -> int | None:
        """The last of these offsets that an upload has."""
        number = bisect_right(self._starts, last) - 1
        found = min(self._ends[number], last) if number >= 0 else first - 1
        return found if found >= first else None

    def ranges(self, first: int, last: int) -> Iterator[tuple[int, int, Uuid]]:
        """The offsets from `first` to `last` that an upload has, as `find` says: ascending ranges,
        with inclusive ends.
        """
        until = bisect_right(self._starts, last) if first <= last else 0
        before = bisect_right(self._starts, first) - 1
        for number in range(max(before, bisect_left(self._ends, first)), until):
            end = min(self._ends[number], last)
            if number + 1 < len(self._starts):
                end = min(end, self._starts[number + 1] - 1)
            yield max(self._starts[number], first), end, self._ids[number]

    def add(self, start: int, end: int, segment_id: Uuid) -> None:
        before = bisect_right(self._starts, start) - 1
        is_within = before >= 0 and self._ends[before] >= end
        if is_within and (self._starts[before], self._ends[before]) != (start, end):
            self._covered[segment_id] = start, end
            return
        first, until = bisect_left(self._starts, start), bisect_right(self._ends, end)
        for number in range(first, until):
            self._covered[self._ids[number]] = self._starts[number], self._ends[number]
        self._starts[first:until] = [start]
        self._ends[first:until] = [end]
        self._ids[first:until] = [segment_id]

    def remove(self, start: int, segment_id: Uuid) -> None:
        number = bisect_left(self._starts, start)
        if self._covered.pop(segment_id, None) or self._ids[number : number + 1] != [segment_id]:
            return
        end = self._ends[number]
        del self._starts[number], self._ends[number], self._ids[number]
        within = {id: at for id, at in self._covered.items() if start <= at[0] and at[1] <= end}
        for uncovered, (first, last) in within.items():
            del self._covered[uncovered]
            self.add(first, last, uncovered)


class SegmentIndex:
    """What is known of the uploads of one partition."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self.deletion: PartitionDeleteState | None = None
        """How far the deletion of the partition is."""
        self._segments: dict[Uuid, RemoteLogSegmentMetadata] = {}
        self._epochs: dict[int, EpochUploads] = {}
        self._deleted: list[range] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteLogSegmentMetadata]:
        """The uploads in any state, in no order: see `segments`."""
        return iter(self._segments.values())

    def copy(self) -> "SegmentIndex":
        """What is known now, for another thread: 10,000 uploads are copied in less than 1 ms."""
        made = SegmentIndex(self.partition)
        made.deletion = self.deletion
        made._segments = dict(self._segments)
        made._epochs = {epoch: uploads.copy() for epoch, uploads in self._epochs.items()}
        made._deleted = self._deleted[:]
        made._size = self._size
        return made

    def find(self, segment_id: Uuid) -> RemoteLogSegmentMetadata | None:
        """An upload in any state."""
        return self._segments.get(segment_id)

    def look_up(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The finished upload that has the record with this offset of a leader epoch."""
        uploads = self._epochs.get(epoch)
        found = None if uploads is None else uploads.find(offset)
        return None if found is None else self._segments[found]

    def ranges(
        self, epoch: int, first: int, last: int
    ) -> Iterator[tuple[int, int, RemoteLogSegmentMetadata]]:
        """The offsets from `first` to `last` that `look_up` finds: ascending ranges, each with its
        first and last offset and its upload.
        """
        if epoch in self._epochs:
            for start, end, segment_id in self._epochs[epoch].ranges(first, last):
                yield start, end, self._segments[segment_id]

    def last_offset(self, epoch: int, first: int, last: int) -> int | None:
        """The last of some offsets of an epoch that `look_up` finds."""
        uploads = self._epochs.get(epoch)
        return None if uploads is None else uploads.last_offset(first, last)

    @property
    def epoch_starts(self) -> dict[int, int]:
        """By leader epoch that has a finished upload, the first offset that one has of it."""
        return {epoch: uploads.start for epoch, uploads in self._epochs.items() if uploads}

    def segments(self, epoch: int | None = None) -> list[RemoteLogSegmentMetadata]:
        """The uploads in any state, of an epoch or all, by their first offset.

        Those that are not finished, or being deleted, are among them.
        """
        found = [
            segment
            for segment in self._segments.values()
            if epoch is None or any(epoch == one for one, _, _ in segment.epoch_ranges())
        ]
        return sorted(found, key=lambda segment: segment.start_offset)

    @property
    def epochs(self) -> list[int]:
        """The leader epochs that have a finished upload, ascending."""
        return sorted(epoch for epoch, uploads in self._epochs.items() if uploads)

    def after_deleted(self, offset: int) -> int:
        """The first offset from `offset` on that no upload had which is or was being deleted."""
        number = bisect_right(self._deleted, offset, key=lambda one: one.start) - 1
        return offset if number < 0 else max(offset, self._deleted[number].stop)

    @property
    def size(self) -> int:
        """The bytes of the `.log` files of finished uploads, each once."""
        return self._size

    def put(self, segment: RemoteLogSegmentMetadata) -> str | None:
        """Takes an upload in any state, as from the listing of a tier; returns why if this cannot
        follow what is known of it.
        """
        known = self._segments.get(segment.segment_id)
        if known is not None and not known.state.may_become(segment.state):
            return _forbidden(segment.segment_id, known.state, segment.state)
        self._replace(known, segment)
        return None

    def update(self, update: SegmentUpdate) -> str | None:
        """Takes another state of an upload; returns why if this cannot follow what is known."""
        known = self._segments.get(update.segment_id)
        if known is None:
            # Repeated, or of an upload that is unknown: nothing is left of it.
            if update.state is SegmentState.DELETE_SEGMENT_FINISHED:
                return None
            return f"upload {uuid_text(update.segment_id)} is unknown, and now {update.state.name}"
        if not known.state.may_become(update.state):
            return _forbidden(update.segment_id, known.state, update.state)
        custom = update.custom_metadata
        self._replace(
            known,
            replace(
                known,
                partition=self.partition,  # one object for all of them
                broker_id=update.broker_id,
                event_timestamp_ms=update.event_timestamp_ms,
                state=update.state,
                custom_metadata=known.custom_metadata if custom is None else custom,
            ),
        )
        return None

    def delete(self, state: PartitionDeleteState) -> str | None:
        """Takes the state of the partition's deletion; returns why if it cannot be the next."""
        marked = PartitionDeleteState.DELETE_PARTITION_MARKED
        if not (state is marked if self.deletion is None else self.deletion.may_become(state)):
            before = "no state" if self.deletion is None else self.deletion.name
            return f"the deletion of {self.partition} is {state.name} after {before}"
        self.deletion = state
        return None

    def _replace(
        self, known: RemoteLogSegmentMetadata | None, segment: RemoteLogSegmentMetadata
    ) -> None:
        segment_id, state = segment.segment_id, segment.state
        if known is not None and known.state is SegmentState.COPY_SEGMENT_FINISHED:
            self._size -= known.size
            for epoch, start, _ in known.epoch_ranges():
                self._epochs[epoch].remove(start, segment_id)
        if state >= SegmentState.DELETE_SEGMENT_STARTED:
            self._add_deleted(segment.start_offset, segment.end_offset + 1)
        if state is SegmentState.DELETE_SEGMENT_FINISHED:
            self._segments.pop(segment_id, None)
            return
        self._segments[segment_id] = segment
        if state is SegmentState.COPY_SEGMENT_FINISHED:
            self._size += segment.size
            for epoch, start, end in segment.epoch_ranges():
                self._epochs.setdefault(epoch, EpochUploads()).add(start, end, segment_id)

    def _add_deleted(self, start: int, until: int) -> None:
        # Kafka deletes the uploads of a whole partition in any order.
        ranges = self._deleted
        first = bisect_left(ranges, start, key=lambda one: one.stop)
        last = bisect_right(ranges, until, key=lambda one: one.start)
        if first < last:  # those that overlap or adjoin
            start, until = min(ranges[first].start, start), max(ranges[last - 1].stop, until)
        ranges[first:last] = [range(start, until)]


class SegmentIndexes:
    """The indexes of all partitions that records speak of, by topic id and partition."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[Uuid, int], SegmentIndex] = {}

    def __iter__(self) -> Iterator[SegmentIndex]:
        return iter(self._indexes.values())

    def find(self, topic_id: Uuid, partition: int) -> SegmentIndex | None:
        return self._indexes.get((topic_id, partition))

    def named(self, topic: str, partition: int) -> list[SegmentIndex]:
        """Those of each topic that has had a name, in the order of their first records."""
        wanted = topic, partition
        return [one for one in self if (one.partition.topic, one.partition.partition) == wanted]

    def of(self, partition: TopicIdPartition) -> SegmentIndex:
        """The index of a partition, a new one if it is unknown."""
        key = partition.topic_id, partition.partition
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = SegmentIndex(partition)
        return index

    def apply(self, event: Event) -> str | None:
        """Applies what a record says; returns why if it cannot follow the records before it."""
        if isinstance(event, PartitionDeletion):
            return self._delete(event)
        if isinstance(event, SegmentUpdate):
            return self.of(event.partition).update(event)
        if event.state is not SegmentState.COPY_SEGMENT_STARTED:
            return f"upload {uuid_text(event.segment_id)} begins with {event.state.name}"
        return self.of(event.partition).put(event)

    def _delete(self, event: PartitionDeletion) -> str | None:
        key = event.partition.topic_id, event.partition.partition
        is_last = event.state is PartitionDeleteState.DELETE_PARTITION_FINISHED
        if is_last and key not in self._indexes:
            return None  # repeated
        refusal = self.of(event.partition).delete(event.state)
        if is_last and refusal is None:
            del self._indexes[key]
        return refusal


def _forbidden(segment_id: Uuid, state: SegmentState, following: SegmentState) -> str:
    return f"upload {uuid_text(segment_id)} is {following.name} after {state.name}"
