"""`ottla.open(path, read_only=True)`: the topics of a data directory that another process may
write.

Nothing is locked, written or kept open; each read looks at the files again, and so sees what a
broker has appended, rolled, compacted and deleted by then.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from ottla.base.arguments import (
    check_partition_offsets,
    check_partitions,
    check_place,
    check_seconds,
    check_timestamp,
    check_topic_name,
    no_such_partition,
)
from ottla.base.errors import ApiError, CorruptionError, UnknownNameError, UserError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.topics.offered_ends import StableEnds, replicated_end
from ottla.embedded.readable import ReadableLog
from ottla.embedded.scanning import READ_SIZE, Region, sound_start
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.reading.locating import locate, locate_partition
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.region_groups import region_groups
from ottla.storage.reading.time_search import first_offset_at
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.storage.segment.segment_reader import Region as StoredRegion

CLOSED = "this log is closed; open it again"
READ_ONLY = "this log was opened with read_only=True; open it without to change it"
POLL_S = 0.02
"""How often a waiting reader looks at the files."""

Answer = TypeVar("Answer")


class FollowedLog(ReadableLog):
    """Topics of a data directory, to read and to follow while a broker writes them. Records are
    visible once they are in the files and committed: in a directory of Apache Kafka up to the high
    watermark that it last wrote, which it does every five seconds. Calls may come from any thread.
    Methods that change the log raise `UserError`.

    >>> with ottla.open(directory) as log:
    ...     log.create_topic("teas")
    ...     with ottla.open(directory, read_only=True) as followed:
    ...         _ = log.append("teas", b"Assam")
    ...         [record.value for record in followed.read("teas")]
    [b'Assam']
    """

    def __init__(
        self,
        paths: Sequence[str],
        file_system: FileSystem | None = None,
        *,
        tier: TierPlace | None = None,
    ) -> None:
        """Raises `UserError` if a path is not a log directory, or if there is no such tier."""
        self._directories = open_directories(paths, file_system, tier=tier)
        self._stable = StableEnds()
        self._listed: dict[TopicPartition, ReadOnlyLog] = {}
        """Each log at the last request for its end, with the transactions found in it."""
        self._closing = threading.Event()

    def close(self) -> None:
        self._closing.set()

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise UserError(CLOSED)

    def topics(self) -> dict[str, int]:
        self._check_open()
        located = locate(self._directories)
        return {topic: len(located[topic]) for topic in sorted(located)}

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        return {
            index: self._ask(TopicPartition(topic, index), _bounds)
            for index in self._partitions(topic)
        }

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        ends = self.stable_ends(topic)
        search = partial(first_offset_at, timestamp_ms=check_timestamp(timestamp_ms))
        found = {index: self._ask(TopicPartition(topic, index), search) for index in ends}
        return {
            index: None if one is None or one >= ends[index] else one
            for index, one in found.items()
        }

    def stable_ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        wanted = self._partitions(topic) if partitions is None else check_partitions(partitions)
        return {index: self._stable_end(TopicPartition(topic, index)) for index in wanted}

    def _stable_end(self, place: TopicPartition) -> int:
        def look(log: ReadOnlyLog) -> int:
            end = self._stable.committed_end(log)
            self._listed[place] = log
            return end

        return self._ask(place, look)

    def wait_for_records(self, topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
        deadline_s = time.monotonic() + check_seconds(seconds)
        offsets = check_partition_offsets(offsets)
        while True:
            ends = self.stable_ends(topic, offsets)
            if any(end > offsets[index] for index, end in ends.items()):
                return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._closing.wait(min(left_s, POLL_S))

    def regions(self, place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
        place = check_place(place)
        topic_id = self._find(place).topic_id
        while offset < end:
            log = self._find(place)
            begin = max(offset, log.log_start_offset)
            if begin >= end:
                return
            try:
                for region in self._regions(log, begin, end, topic_id):
                    yield region
                    offset = region.checked[-1].next_offset
            except ApiError:
                # Retention deleted the next offset: continue at the log start offset.
                if self._find(place).log_start_offset <= max(offset, begin):
                    raise
            else:
                return

    def _regions(
        self, log: ReadOnlyLog, begin: int, end: int, topic_id: Uuid | None
    ) -> Iterator[Region]:
        place = TopicPartition(log.topic, log.partition)
        aborted = AbortedRanges(self._aborted(log, begin, end))
        for group in region_groups(log.batches.regions(begin, end, size=READ_SIZE)):
            # Ids are never reused: with this id, the files still belonged to this topic.
            if topic_id not in (None, self._directory_of(place).topic_id_of(*place)):
                self._find(place)  # raises if it is gone
                raise UserError(
                    f"topic {place.topic} was created again while it was read; read it again"
                )
            joined = _joined(group)
            if joined is not None:
                damage_in = partial(_damage_in, log, group)
                yield Region(*joined, aborted, begin, end, damage_in)
                continue
            for found in group:
                batches, damage = sound_start(batch for _, batch in log.batches.checked(found))
                if batches:
                    damage_in = partial(_damage_in, log, [found])
                    yield Region(found.data, batches, aborted, begin, end, damage_in)
                if damage is not None:
                    raise damage

    def _aborted(self, log: ReadOnlyLog, begin: int, end: int) -> list[AbortedTransaction]:
        """Uses the log as it was listed if possible, since finding aborted transactions takes a
        scan.
        """
        listed = self._listed.get(TopicPartition(log.topic, log.partition))
        if listed is None or listed.topic_id != log.topic_id or listed.log_end_offset < end:
            return log.transactions.aborted(begin, end)
        try:
            return listed.transactions.aborted(begin, end)
        except ApiError:
            return log.transactions.aborted(begin, end)

    def _ask(self, place: TopicPartition, ask: Callable[[ReadOnlyLog], Answer]) -> Answer:
        return ask_log(partial(self._find, place), ask)

    def _find(self, place: TopicPartition) -> ReadOnlyLog:
        """The current partition; raises `UserError` if it does not exist."""
        return self._directory_of(place).partition(*place)

    def _directory_of(self, place: TopicPartition) -> ReadOnlyLogDirectory:
        """The directory that has a partition or had it; raises `UserError` if none."""
        self._check_open()
        check_topic_name(place.topic)
        directory = locate_partition(self._directories, *place)
        if directory is None:
            here = self._located(place.topic)
            directory = here.get(place.partition)
        if directory is None:
            raise no_such_partition(*place, len(here))
        return directory

    def _partitions(self, topic: str) -> list[int]:
        self._check_open()
        return sorted(self._located(check_topic_name(topic)))

    def _located(self, topic: str) -> dict[int, ReadOnlyLogDirectory]:
        """Finds also a lost partition, since its directory records it."""
        found = locate(self._directories, lambda name, _: name == topic).get(topic)
        if found is None:
            raise UnknownNameError("topic", topic, self.topics())
        return found

    def _refuse(self, *arguments: Any, **more: Any) -> NoReturn:
        """Refuses what only a log opened for writing can do."""
        raise UserError(READ_ONLY)

    append = append_many = append_batch = append_built = _refuse
    create_topic = create_partitions = alter_topic = delete_topic = _refuse
    delete_records = compact = flush = listen = _refuse


def _joined(group: Sequence[StoredRegion]) -> tuple[bytes, list[Batch]] | None:
    """The bytes and the checked batches of several regions, of which handing out each alone would
    cost most; `None` if one is damaged, or there is only one.
    """
    if len(group) == 1:
        return None
    data = b"".join([one.data for one in group])
    try:
        batches = list(iter_batches(data))
        for batch in batches:
            batch.check()
    except InvalidBatchError:
        return None
    return data, batches


def _damage_in(
    log: ReadOnlyLog, group: Sequence[StoredRegion], batch: Batch, reason: str
) -> CorruptionError:
    found = next(one for one in group if batch.base_offset < one.next_offset)
    return log.damage.error_at(found.path, found.position, reason)


def _bounds(log: ReadOnlyLog) -> tuple[int, int]:
    return log.log_start_offset, replicated_end(log)
