"""A cluster as a source, through our own client: any that speaks Kafka's protocol. See `Source`.

Everything up to the high watermark is read, control batches and aborted records too, as a follower
would see it. Listeners must be plaintext.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator

from ottla.base.errors import CorruptionError
from ottla.client.cluster import Cluster
from ottla.client.groups import Committed, committed_here
from ottla.client.reading import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchFrom,
    fetch,
    list_offset,
)
from ottla.client.settings import topic_overrides
from ottla.mirror.source import Bounds, SourceTopic, is_internal
from ottla.record.batch import LENGTH_END, OFFSET_AND_LENGTH, InvalidBatchError, iter_batches
from ottla.record.record import Record, read_records

FETCH_SIZE = 4 << 20
EMPTY_ANSWERS = 3
"""How often nothing below the high watermark must be answered until it is believed."""


class BrokerSource:
    """Its bounds end at the high watermark."""

    def __init__(self, host: str, port: int, *, sleep: Callable[[float], None]) -> None:
        """Raises `UnreachableError`."""
        self._cluster = Cluster([(host, port)], sleep=sleep)
        self._sleep = sleep
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        self._cluster.close()

    def topics(self) -> list[SourceTopic]:
        told = self._cluster.refresh()
        names = sorted(
            one.name for one in told.values() if not one.is_internal and not is_internal(one.name)
        )
        overrides = self._cluster.ask_any(lambda broker: topic_overrides(broker, names))
        return [
            SourceTopic(
                name=name,
                topic_id=told[name].topic_id,
                partition_count=len(told[name].leaders),
                overrides=overrides.get(name),
            )
            for name in names
        ]

    def bounds(self, topic: str, partition: int) -> Bounds:
        start = self._offset(topic, partition, EARLIEST)
        end = self._offset(topic, partition, LATEST)
        stable = self._offset(topic, partition, LATEST, READ_COMMITTED)
        first = start
        if start and start < end:
            found = self._fetch(
                FetchFrom(topic=topic, partition=partition, offset=start, max_size=1)
            )
            if len(found.records) >= LENGTH_END:
                first = min(start, next(iter_batches(found.records)).base_offset)
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
            for record in _committed(found):
                if from_offset <= record.offset < until_offset:
                    yield record

    def _answers(
        self, topic: str, partition: int, from_offset: int, until_offset: int, isolation: int
    ) -> Iterator[Fetched]:
        """Fetches with whole batches only, one behind the other, until the range is read."""
        offset, empty_count = from_offset, 0
        while offset < until_offset and empty_count < EMPTY_ANSWERS:
            found = self._fetch(
                FetchFrom(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    max_size=FETCH_SIZE,
                    isolation_level=isolation,
                )
            )
            if found.throttle_ms:
                self._sleep(found.throttle_ms / 1000)
            if not found.is_answered:
                continue
            if not len(found.records):
                empty_count += 1
                continue
            empty_count = 0
            yield found
            offset = self._next_offset(found, f"{topic}-{partition}")

    def _next_offset(self, found: Fetched, place: str) -> int:
        last = None
        try:
            for batch in iter_batches(found.records):
                last = batch
        except InvalidBatchError as error:
            raise CorruptionError(f"{self.name}, {place}", 0, str(error)) from error
        assert last is not None
        return last.last_offset + 1

    def _fetch(self, wanted: FetchFrom) -> Fetched:
        def ask() -> Fetched:
            return self._cluster.ask_leader(
                wanted.topic, wanted.partition, lambda broker: fetch(broker, wanted)
            )

        found = ask()
        return dataclasses.replace(found, records=whole_batches(found.records))

    def committed_offsets(self) -> list[Committed]:
        return [one for broker in self._cluster.brokers() for one in committed_here(broker)]


def whole_batches(records: memoryview) -> memoryview:
    """Without the last batch when it is cut short, as brokers send it."""
    position = 0
    while position + LENGTH_END <= len(records):
        size = OFFSET_AND_LENGTH.unpack_from(records, position)[1] + LENGTH_END
        if size <= LENGTH_END or position + size > len(records):
            break
        position += size
    return records[:position]


def _committed(found: Fetched) -> Iterator[Record]:
    """Leaves out control batches, and of each aborted transaction all up to its marker.

    Kafka: `CompletedFetch.nextFetchedRecord`.
    """
    beginning = deque(sorted(found.aborted, key=lambda one: one[1]))
    aborted: set[int] = set()
    for batch in iter_batches(found.records):
        while beginning and beginning[0][1] <= batch.last_offset:
            aborted.add(beginning.popleft()[0])
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            yield from read_records(batch)
