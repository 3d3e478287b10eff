"""Sources of records: the files of a data directory, or a cluster's brokers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.base.errors import ApiError
from ottla.base.partitions import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from ottla.client.connecting.cluster import Cluster
    from ottla.record.batch import Batch
    from ottla.record.record import Record
    from ottla.search.skipping import Skipped
    from ottla.search.words import Words
    from ottla.storage.findings import Finding
    from ottla.storage.reading.opening import TierPlace
    from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
    from ottla.storage.reading.read_only_log import ReadOnlyLog

OnRemark = Callable[[str], None]

FETCH_SIZE = 4 << 20
EMPTY_ANSWERS = 3
"""Empty responses before the end after which a read stops: only control records are left."""


class RecordSource(Protocol):
    """Topics and their records. `read_committed` leaves out open and aborted transactions."""

    def topics(self) -> list[str]:
        """Every topic, internal ones too."""

    def partitions(self, topic: str) -> list[int]:
        """The topic's partitions; none if the topic does not exist."""

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """The offsets that can be read now."""

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset whose timestamp is at or after a time, in ms; `None` if none."""

    def records(self, place: TopicPartition, wanted: OffsetRange) -> "Iterator[Record]":
        """The data records of a range, in their order."""


class SearchSource(RecordSource, Protocol):
    """A source that skips batches without a match."""

    def records_with(
        self, place: TopicPartition, wanted: OffsetRange, words: "Words"
    ) -> "Iterator[Record | Skipped]":
        """Like `records`, but yields `Skipped` for a batch that lacks a word."""


D = TypeVar("D", "Record", "Record | Skipped")
Decode = Callable[["Batch"], Iterator[D]]


class _DecodedSource:
    """Decodes the records of batches; subclasses read the batches."""

    def records(self, place: TopicPartition, wanted: OffsetRange) -> "Iterator[Record]":
        from ottla.record.record import read_records

        return self._decoded(place, wanted, read_records)

    def records_with(
        self, place: TopicPartition, wanted: OffsetRange, words: "Words"
    ) -> "Iterator[Record | Skipped]":
        from ottla.search.skipping import looked_into

        return self._decoded(place, wanted, partial(looked_into, words=words, wanted=wanted))

    def _decoded(
        self, place: TopicPartition, wanted: OffsetRange, decode: "Decode[D]"
    ) -> Iterator[D]:
        raise NotImplementedError


class FileRecords(_DecodedSource):
    """Reads files and never writes them; a broker may be running."""

    def __init__(
        self,
        directories: "Sequence[ReadOnlyLogDirectory]",
        *,
        read_committed: bool = False,
        on_remark: OnRemark = lambda text: None,
    ) -> None:
        """`directories`: all of one broker. `on_remark` reports records removed meanwhile."""
        self._directories = directories
        self._on_remark = on_remark
        self._read_committed = read_committed

    @staticmethod
    def at(
        paths: Sequence[str],
        *,
        read_committed: bool,
        on_remark: OnRemark = lambda text: None,
        on_damage: "Callable[[Finding], None] | None" = None,
        tier: "TierPlace | None" = None,
    ) -> "FileRecords":
        """Opens directories at paths. With `on_damage` reads skip damage, and report it."""
        from ottla.storage.reading.opening import open_directories

        directories = open_directories(paths, on_damage=on_damage, tier=tier)
        return FileRecords(directories, read_committed=read_committed, on_remark=on_remark)

    def topics(self) -> list[str]:
        here = {topic for one in self._directories for topic in one.topics()}
        return sorted(here.union(*(one.lost_topics(here) for one in self._directories)))

    def partitions(self, topic: str) -> list[int]:
        here = {number for one in self._directories for number in one.topics().get(topic, [])}
        # Reading a lost partition is an error; it is not skipped.
        lost = {number for one in self._directories for number in one.lost_partitions(topic)}
        return sorted(here | lost)

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        return {place: self._bounds(place) for place in places}

    def _bounds(self, place: TopicPartition) -> OffsetRange:
        log = self._log(place)
        end = log.transactions.last_stable_offset if self._read_committed else log.log_end_offset
        start = log.log_start_offset
        return OffsetRange(from_offset=start, until_offset=max(start, end))

    def _log(self, place: TopicPartition) -> "ReadOnlyLog":
        for one in self._directories[:-1]:
            if one.holds(*place):
                return one.partition(*place)
        return self._directories[-1].partition(*place)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        from ottla.storage.reading.overtaking import ask_log
        from ottla.storage.reading.time_search import first_offset_at

        return {
            place: ask_log(
                partial(self._log, place),
                partial(first_offset_at, timestamp_ms=time_ms),
            )
            for place, time_ms in times.items()
        }

    def _decoded(
        self, place: TopicPartition, wanted: OffsetRange, decode: "Decode[D]"
    ) -> Iterator[D]:
        """Skips records that retention deletes meanwhile, and reports them."""
        offset = wanted.from_offset
        while offset < wanted.until_offset:
            log = self._log(place)
            try:
                for record in log.records.decoded(
                    decode, offset, wanted.until_offset, read_committed=self._read_committed
                ):
                    yield record
                    offset = record.offset + 1
                return
            except ApiError:
                log = self._log(place)
                if log.log_start_offset <= offset:
                    raise
                self._on_remark(_removed_text(place, offset, log.log_start_offset))
                offset = log.log_start_offset


def _removed_text(place: TopicPartition, offset: int, start: int) -> str:
    return f"{place}: offsets {offset} to {start - 1} were removed while they were read"


class ClusterRecords(_DecodedSource):
    """Fetches from the leaders of the partitions."""

    def __init__(
        self,
        cluster: "Cluster",
        *,
        read_committed: bool = True,
        on_remark: OnRemark = lambda text: None,
        fetch_size: int = FETCH_SIZE,
    ) -> None:
        from ottla.client.bulk.reading import READ_COMMITTED, READ_UNCOMMITTED

        self._cluster = cluster
        self._on_remark = on_remark
        self._fetch_size = fetch_size
        self._level = READ_COMMITTED if read_committed else READ_UNCOMMITTED

    def topics(self) -> list[str]:
        return sorted(self._cluster.topic_names())

    def partitions(self, topic: str) -> list[int]:
        found = self._cluster.look_up([topic]).get(topic)
        return [] if found is None else sorted(found.leaders)

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        from ottla.client.bulk.reading import EARLIEST, LATEST

        starts = self._offsets(dict.fromkeys(places, EARLIEST))
        ends = self._offsets(dict.fromkeys(places, LATEST))
        return {
            place: OffsetRange(
                from_offset=starts[place], until_offset=max(starts[place], ends[place])
            )
            for place in places
        }

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = self._offsets(times)
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        from ottla.client.bulk.reading import list_offsets

        def ask() -> dict[TopicPartition, int]:
            found = {}
            for broker, places in self._cluster.by_leader(wanted):
                here = {place: wanted[place] for place in places}
                for place, one in list_offsets(broker, here, isolation_level=self._level).items():
                    found[place] = one.offset
            return found

        return self._cluster.again(ask)

    def _decoded(
        self, place: TopicPartition, wanted: OffsetRange, decode: "Decode[D]"
    ) -> Iterator[D]:
        from ottla.base.error_codes import ErrorCode
        from ottla.client.refusals import RefusedError

        offset = wanted.from_offset
        while True:
            try:
                for record in self._fetched(place, offset, wanted.until_offset, decode):
                    yield record
                    offset = record.offset + 1
                return
            except ApiError as error:
                start = self.bounds([place])[place].from_offset
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or start <= offset:
                    raise RefusedError(str(place), error) from error
                self._on_remark(_removed_text(place, offset, start))
                offset = start

    def _fetched(
        self, place: TopicPartition, offset: int, until_offset: int, decode: "Decode[D]"
    ) -> Iterator[D]:
        from ottla.client.bulk.fetching import committed_runs, fetches
        from ottla.client.bulk.reading import FetchFrom
        from ottla.record.batch import iter_batches

        asked = FetchFrom(
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            max_size=self._fetch_size,
            isolation_level=self._level,
        )
        empty_count = 0
        for found in fetches(self._cluster, asked, until_offset):
            if not len(found.records):
                empty_count += found.is_answered
                if empty_count == EMPTY_ANSWERS:
                    return
                continue
            empty_count = 0
            for run in committed_runs(found):
                for batch in iter_batches(run):
                    batch.check()
                    if batch.is_control:
                        continue
                    for record in decode(batch):
                        if offset <= record.offset < until_offset:
                            yield record
