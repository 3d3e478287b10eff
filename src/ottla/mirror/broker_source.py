"""A cluster as a `Source`, read by Ottla's own client; any broker with Kafka's protocol will do.

Everything up to the high watermark is read, with control batches and aborted records, as followers
do.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from ottla.base.addresses import address_text
from ottla.base.errors import ApiError, CorruptionError
from ottla.client.administration.admin import Admin
from ottla.client.administration.group_offsets import Committed, committed_here
from ottla.client.bulk.fetching import committed_runs, fetches
from ottla.client.bulk.reading import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchFrom,
    fetch,
    list_offset,
)
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.client.connecting.security import PLAINTEXT, Security
from ottla.mirror.source import Bounds, Selection, SourceTopic, is_internal
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.record import Record, read_records

FETCH_SIZE = 4 << 20
EMPTY_ANSWERS = 3
"""Empty responses below the high watermark after which the range counts as empty."""


class BrokerSource:
    """A cluster as a `Source`; the bounds of its partitions end at the high watermark."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        sleep: Callable[[float], None],
        security: Security = PLAINTEXT,
    ) -> None:
        """Connects to a broker; raises `UnreachableError` and `AuthenticationError`."""
        self._cluster = Cluster([(host, port)], ClientSettings(security=security), sleep=sleep)
        self.name = address_text(host, port)

    @property
    def cluster_id(self) -> str | None:
        return self._cluster.cluster_id

    def close(self) -> None:
        self._cluster.close()

    def topics(self, selection: Selection) -> list[SourceTopic]:
        refreshed = self._cluster.refresh()
        names = sorted(
            one.name
            for one in refreshed.values()
            if selection.takes(one.name) and not one.is_internal and not is_internal(one.name)
        )
        overrides = Admin(self._cluster).topic_overrides(names)
        return [
            SourceTopic(
                name=name,
                topic_id=refreshed[name].topic_id,
                partition_count=len(refreshed[name].leaders),
                overrides=overrides[name],
            )
            for name in names
            if name in overrides
        ]

    def bounds(self, topic: str, partition: int) -> Bounds:
        start = self._offset(topic, partition, EARLIEST)
        while True:
            try:
                return self._bounds(topic, partition, start)
            except ApiError:
                # Retention may have moved the start between two requests.
                before, start = start, self._offset(topic, partition, EARLIEST)
                if start <= before:
                    raise

    def _bounds(self, topic: str, partition: int, start: int) -> Bounds:
        end = self._offset(topic, partition, LATEST)
        stable = self._offset(topic, partition, LATEST, READ_COMMITTED)
        first = start
        if start and start < end:
            wanted = FetchFrom(topic=topic, partition=partition, offset=start, max_size=1)
            found = self._cluster.ask_leader(topic, partition, lambda broker: fetch(broker, wanted))
            for batch in islice(iter_batches(found.records, allow_torn_tail=True), 1):
                first = min(start, batch.base_offset)
        return Bounds(start=start, end=max(start, end), stable=stable, first_batch=first)

    def _offset(
        self, topic: str, partition: int, timestamp: int, isolation: int = READ_UNCOMMITTED
    ) -> int:
        return self._cluster.ask_leader(
            topic,
            partition,
            lambda broker: list_offset(
                broker, topic, partition, timestamp, isolation_level=isolation
            ),
        )

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        for found in self._answers(topic, partition, from_offset, until_offset, READ_UNCOMMITTED):
            yield found.records

    def committed_records(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[Record]:
        for found in self._answers(topic, partition, from_offset, until_offset, READ_COMMITTED):
            for run in committed_runs(found):
                yield from _records(run, from_offset, until_offset)

    def _answers(
        self, topic: str, partition: int, from_offset: int, until_offset: int, isolation: int
    ) -> Iterator[Fetched]:
        """The fetch responses of a range, until its end or `EMPTY_ANSWERS` empty responses."""
        wanted = FetchFrom(
            topic=topic,
            partition=partition,
            offset=from_offset,
            max_size=FETCH_SIZE,
            isolation_level=isolation,
        )
        empty_count = 0
        try:
            for found in fetches(self._cluster, wanted, until_offset):
                if len(found.records):
                    empty_count = 0
                    yield found
                elif found.is_answered:
                    empty_count += 1
                if empty_count == EMPTY_ANSWERS:
                    return
        except InvalidBatchError as error:
            raise CorruptionError(f"{self.name}, {topic}-{partition}", 0, str(error)) from error

    def committed_offsets(self) -> list[Committed]:
        return [one for broker in self._cluster.brokers() for one in committed_here(broker)]


def _records(run: memoryview, from_offset: int, until_offset: int) -> Iterator[Record]:
    for batch in iter_batches(run):
        batch.check()
        if not batch.is_control:
            for record in read_records(batch):
                if from_offset <= record.offset < until_offset:
                    yield record
