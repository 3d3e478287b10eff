"""Reads a topic from a broker; batches are decoded like those of files.

A task has one connection, and requests the next response while it decodes the current one. It
follows a leader that moves, and retries a broker that does not respond until its patience ends.
"""

import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, UnreachableError, UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.client.administration.group_offsets import Committed, commit_from_outside
from ottla.client.bulk.fetching import aborted_in, committed_runs, fetches
from ottla.client.bulk.reading import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchFrom,
    ListedOffset,
    epoch_end_offset,
    list_offset,
    list_offsets,
)
from ottla.client.connecting.cluster import (
    ClientSettings,
    Cluster,
    CoordinatorKind,
    SocketTransport,
)
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import RefusedError, refusals
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.record.columns import iter_columns
from ottla.sources.log_source import OffsetsGoneError, Split
from ottla.sources.options import Isolation
from ottla.sources.stream.continuity import Position
from ottla.sources.wire.wire_settings import WireSettings

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""How long a metadata request may take; reading has its own limit."""

FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 1.0

_LEVELS = {
    Isolation.READ_COMMITTED: READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: READ_UNCOMMITTED,
}


class GroupHasMembersError(UserError):
    """Offsets of a group can be committed from outside only while the group has no members."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group} has members of its own; give each query another kafka.group.id"
        )


class WireClient:
    """A client for one cluster. All methods raise `UserError`.

    `address` is as the user gave it; `silence_ms` is how long a broker may be silent if more is
    expected.
    """

    def __init__(
        self, address: str, settings: WireSettings, isolation: Isolation, silence_ms: int
    ) -> None:
        self.address = address
        self._settings = settings
        self._level = _LEVELS[isolation]
        self._silence_s = silence_ms / 1000

    def topics(self) -> Collection[str]:
        """The names of all topics."""
        with self._user_errors(self.address):
            return self._cluster.topic_names()

    def partitions_of(self, topics: Collection[str]) -> dict[TopicPartition, Uuid | None]:
        """The existing partitions with the ids of their topics; `None` from brokers before 2.8."""
        with self._user_errors(self.address):
            found = self._cluster.look_up(topics) if topics else {}
        return {
            TopicPartition(name, number): one.topic_id
            for name, one in found.items()
            for number in sorted(one.leaders)
        }

    def offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at or after a timestamp (ms), -1 if none; or `EARLIEST`, or `LATEST`."""
        level = _LEVELS[isolation]

        def ask() -> dict[TopicPartition, ListedOffset]:
            found = {}
            for broker, places in self._cluster.by_leader(wanted):
                here = {place: wanted[place] for place in places}
                found.update(list_offsets(broker, here, isolation_level=level))
            return found

        with self._user_errors(self.address):
            return self._cluster.again(ask)

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """See `LogSource`."""

        def ask(broker: Connection) -> int | None:
            return epoch_end_offset(broker, place.topic, place.partition, epoch)

        with self._user_errors(f"{self.address}/{place}"):
            end = self._cluster.ask_leader(place.topic, place.partition, ask)
        return end if end is not None and end < position else None

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """See `LogSource`; does not check the topic id."""

        def rows(found: Fetched) -> "Iterator[pa.RecordBatch]":
            for run in committed_runs(found):
                # Of bytes compiled loops read each byte without a call, which is worth the copy.
                data = bytes(run)
                yield from iter_columns(data, columns, split.from_offset, split.until_offset)

        return self._each_answer(split, rows, keeps_memory=True)

    def batches(self, split: Split) -> Iterator[tuple[Batch, bool]]:
        """All batches of a split, each with whether a read_committed reader sees its records."""

        def touched(found: Fetched) -> Iterator[tuple[Batch, bool]]:
            is_aborted = aborted_in(found)
            for batch in iter_batches(found.records):
                batch.check()
                is_seen = not is_aborted(batch) and not batch.is_control
                if (
                    split.from_offset <= batch.last_offset
                    and batch.base_offset < split.until_offset
                ):
                    yield batch, is_seen

        return self._each_answer(split, touched)

    def _each_answer(
        self,
        split: Split,
        use: Callable[[Fetched], Iterator[T]],
        *,
        keeps_memory: bool = False,
    ) -> Iterator[T]:
        """Applies `use` to each response until the split is read.

        With `keeps_memory` nothing that it yields is a view of the response.
        """
        settings = self._patient(self._silence_s)
        transport = SocketTransport(settings, keeps_memory=keeps_memory)
        with (
            self._user_errors(f"{self.address}/{split.place}"),
            Cluster(
                self._settings.bootstrap,
                settings,
                sleep=time.sleep,
                topics=(),
                transport=transport,
            ) as cluster,
        ):
            yield from self._used(cluster, split, use)

    def _used(
        self, cluster: Cluster, split: Split, use: Callable[[Fetched], Iterator[T]]
    ) -> Iterator[T]:
        heard = time.monotonic()
        offset = split.from_offset
        try:
            for found in fetches(cluster, self._first_fetch(split), split.until_offset):
                if len(found.records):
                    yield from use(found)
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._silence_s:
                    raise UserError(
                        f"{split.place}: the broker sent nothing for {self._silence_s:g} seconds"
                    )
                offset = found.next_offset
        except InvalidBatchError as error:
            reason = f"a damaged batch, at offset {offset} or after it"
            raise UserError(f"{self.address}/{split.place}: {reason}: {error}") from error
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            raise self._out_of_range(cluster, split.place, offset) from error

    def _first_fetch(self, split: Split) -> FetchFrom:
        settings = self._settings
        return FetchFrom(
            topic=split.place.topic,
            partition=split.place.partition,
            offset=split.from_offset,
            max_size=settings.answer_size,
            isolation_level=self._level,
            min_size=settings.min_size,
            # Half of the silence limit, so that an empty response arrives in time.
            max_wait_ms=min(settings.max_wait_ms, int(self._silence_s * 500)),
        )

    def _out_of_range(self, cluster: Cluster, place: TopicPartition, offset: int) -> UserError:
        def ask(broker: Connection) -> tuple[int, int]:
            topic, partition = place.topic, place.partition
            start = list_offset(broker, topic, partition, EARLIEST)
            return start, list_offset(broker, topic, partition, LATEST)

        start, end = cluster.ask_leader(place.topic, place.partition, ask)
        if start > offset:
            return OffsetsGoneError(place, offset, start)
        reason = f"offset {offset} is not in the log, which ends at {end} now; run it again"
        return RefusedError(
            f"{self.address}/{place}", ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        )

    def commit(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Commits the offsets; returns when the group's coordinator has stored them.

        A stream's group has no members: offsets are committed as by tools that reset them, and
        every Kafka tool shows the progress. Kafka: `Admin.alterConsumerGroupOffsets`. Raises
        `GroupHasMembersError`.
        """
        offsets = [
            Committed(
                group=group,
                topic=place.topic,
                partition=place.partition,
                offset=one.offset,
                leader_epoch=-1 if one.leader_epoch is None else one.leader_epoch,
            )
            for place, one in positions.items()
        ]
        try:
            with self._user_errors(f"{self.address}, group {group}"):
                self._cluster.ask_coordinator(
                    CoordinatorKind.GROUP,
                    group,
                    lambda broker: commit_from_outside(broker, offsets),
                )
        except RefusedError as error:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                raise GroupHasMembersError(group) from error
            raise

    @cached_property
    def _cluster(self) -> Cluster:
        """The connections for metadata requests; kept, because a stream asks often."""
        settings = self._patient(ANSWER_SECONDS)
        cluster = Cluster(self._settings.bootstrap, settings, sleep=time.sleep, topics=())
        weakref.finalize(self, cluster.close)
        return cluster

    def _patient(self, patience_s: float) -> ClientSettings:
        return ClientSettings(
            client_id=self._settings.client_id,
            security=self._settings.security,
            request_timeout_s=min(self._settings.request_timeout_s, patience_s),
            first_pause_s=FIRST_PAUSE_S,
            last_pause_s=LAST_PAUSE_S,
            patience_s=patience_s,
        )

    @contextmanager
    def _user_errors(self, place: str) -> Iterator[None]:
        """Converts errors to `UserError` that names the place."""
        try:
            with refusals(place):
                yield
        except UnreachableError as error:
            raise UserError(
                f"{place}: no broker answers; is it running there? ({error})"
            ) from error
        except ProtocolError as error:
            raise UserError(f"{place}: {error}") from error
