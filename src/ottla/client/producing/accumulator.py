"""Records that wait to be sent, by partition, in batches by size and time.

All that happens to a single record happens in `append`: setup.py has this module compiled.
Kafka's counterpart: `RecordAccumulator`.
"""

import time
from threading import RLock
from typing import Any, Final

from ottla.base.arguments import no_such_partition
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.producing.batches import OnDelivery, RecordBatchInMaking
from ottla.client.producing.fields import (
    HeaderPairs,
    checked_headers,
    checked_partition,
    checked_timestamp,
)
from ottla.client.producing.outcomes import OutcomeCondition
from ottla.client.producing.partitioners import Partitioning
from ottla.client.producing.sending import Sending
from ottla.config.producer import ProducerConfig
from ottla.record.builder import MAX_RECORD_OVERHEAD

MILLISECONDS = 1000

Row = tuple[Any, Any, Any, Any]
"""Key, value, time and headers as an application passes them: `append` checks them."""

USUAL_TIMES_MS: Final = 1_000_000_000_000_000_000
"""Times below it are compared without an object; the others are checked with the rare kinds."""


class _Topic:
    def __init__(self, places: list[TopicPartition], queues: list[list[RecordBatchInMaking]]):
        self.places = places
        self.queues = queues


class Accumulator:
    """All of one producer. The caller of anything but `append` holds `lock`."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioning: Partitioning,
        sending_class: type[Sending] = Sending,
    ) -> None:
        """`append` returns objects of `sending_class`."""
        self._mutex: Any = RLock()  # Quicker to take alone than the condition is.
        self.lock = OutcomeCondition(self._mutex)
        self.used = 0
        self.record_count = 0
        self.unfinished: dict[RecordBatchInMaking, None] = {}
        """Those that wait, and those that are on their way."""
        self.refusal: str | None = None
        """Why no record is taken now."""
        self._batch_size = config.batch_size
        self._linger_s = config.linger_ms / MILLISECONDS
        self._memory = config.buffer_memory
        self._max_size = config.max_request_size
        self._partitioning = partitioning
        self._sending_class = sending_class
        self._topics: dict[str, _Topic] = {}
        self._queues: dict[TopicPartition, list[RecordBatchInMaking]] = {}

    def knows(self, topic: str) -> bool:
        """Whether `append` takes records of a topic."""
        return topic in self._topics

    def learn(self, topic: str, partition_count: int) -> None:
        """How many partitions a topic has now."""
        places = [TopicPartition(topic, partition) for partition in range(partition_count)]
        self._topics[topic] = _Topic(places, [self._queues.setdefault(one, []) for one in places])

    def has_room(self, size: int) -> bool:
        """A record larger than all the memory goes alone."""
        return not self.used or self.used + size <= self._memory

    def append(
        self, topic: str, row: Row, partition: Any, on_delivery: OnDelivery | None
    ) -> Sending | None:
        """Puts a record into the last batch of its partition, from any thread, without waiting.

        `None` while there is no room, or while the topic is not known.
        """
        key, value, time_ms, headers = row
        size = MAX_RECORD_OVERHEAD
        if key is not None:
            size += len(key) if isinstance(key, bytes) else _refuse(key)
        if value is not None:
            size += len(value) if isinstance(value, bytes) else _refuse(value)
        if headers:
            # The application may change its list.
            headers = tuple(headers) if type(headers) is list else headers
            size_of_all = _size_of_plain(headers)
            if size_of_all < 0:
                headers = checked_headers(headers)
                size_of_all = size_of_headers(headers)
            size += size_of_all
        if size > self._max_size:
            raise UserError(
                f"a record of {size} bytes is larger than max.request.size="
                f"{self._max_size}; raise that, and the topic's max.message.bytes"
            )
        if time_ms is None:
            time_ms = int(time.time() * MILLISECONDS)
        elif type(time_ms) is not int or not 0 <= time_ms < USUAL_TIMES_MS:
            time_ms = checked_timestamp(time_ms)
        wanted = 0
        if partition is not None:
            wanted = partition if type(partition) is int else checked_partition(partition)
        with self._mutex:
            if self.refusal is not None:
                raise UserError(self.refusal)
            found = self._topics.get(topic)
            if found is None or not self.has_room(size):
                return None
            count = len(found.places)
            chosen = wanted
            if partition is None:
                chosen = self._partitioning.partition_of(topic, key, count)
            elif not 0 <= chosen < count:
                raise no_such_partition(topic, chosen, count)
            queue = found.queues[chosen]
            if queue and queue[-1].size + size <= self._batch_size:
                batch = queue[-1]
            else:
                batch = RecordBatchInMaking(found.places[chosen], time.monotonic(), self.lock)
                queue.append(batch)
                self.unfinished[batch] = None
                if key is None:
                    self._partitioning.batch_begun(topic, chosen, count)
                self.lock.notify_all()
            index = len(batch.values)
            batch.keys.append(key)
            batch.values.append(value)
            batch.times_ms.append(time_ms)
            if headers:
                batch.headers[index] = headers
            if on_delivery is not None:
                batch.callbacks.append((index, on_delivery))
            batch.size += size
            self.used += size
            self.record_count += 1
        return self._sending_class(batch, index)

    def take_ready(
        self, now_s: float, most: int, *, all_of_it: bool
    ) -> list[list[RecordBatchInMaking]]:
        """Rounds of batches to be sent, one of each partition in a round, in their order."""
        rounds: list[list[RecordBatchInMaking]] = []
        for queue in self._queues.values():
            for number in range(most):
                if not queue or not (all_of_it or self._is_ready(queue, now_s)):
                    break
                if number == len(rounds):
                    rounds.append([])
                rounds[number].append(queue.pop(0))
        return rounds

    def next_ready_s(self) -> float | None:
        """When `take_ready` has something; `None` while nothing waits."""
        times = [
            0.0 if len(queue) > 1 or queue[0].size >= self._batch_size
            else queue[0].begun_s + self._linger_s
            for queue in self._queues.values()
            if queue
        ]  # fmt: skip
        return min(times, default=None)

    def take_all(self) -> list[RecordBatchInMaking]:
        """Of a producer that gives up what it has."""
        taken = [one for queue in self._queues.values() for one in queue]
        for queue in self._queues.values():
            queue.clear()
        return taken

    def done(self, batch: RecordBatchInMaking) -> None:
        """Its records have an answer: there is room again."""
        self.unfinished.pop(batch, None)
        self.used -= batch.size
        self.record_count -= batch.count

    def _is_ready(self, queue: list[RecordBatchInMaking], now_s: float) -> bool:
        first = queue[0]
        return (
            len(queue) > 1
            or first.size >= self._batch_size
            or now_s >= first.begun_s + self._linger_s
        )


def size_of(row: Row) -> int:
    """An upper bound of what a record takes, before compression."""
    key, value, _, headers = row
    sizes = (0 if one is None else len(one) for one in (key, value))
    return MAX_RECORD_OVERHEAD + sum(sizes) + size_of_headers(checked_headers(headers or ()))


def size_of_headers(headers: HeaderPairs) -> int:
    """Of headers that were checked."""
    return sum(10 + len(name.encode()) + len(value or b"") for name, value in headers)


def _size_of_plain(headers: Any) -> int:
    """The same of what most applications pass: a tuple of pairs of an ASCII name and bytes.

    Negative if these are others, which may still be right.
    """
    if type(headers) is not tuple:
        return -1
    size = 0
    for pair in headers:
        if type(pair) is not tuple or len(pair) != 2:
            return -1
        name, value = pair
        if type(name) is not str or not name.isascii():
            return -1
        size += 10 + len(name)
        if value is not None:
            if type(value) is not bytes:
                return -1
            size += len(value)
    return size


def _refuse(value: object) -> int:
    kind = type(value).__name__
    raise UserError(
        f"a key and a value are bytes, not {kind}; name a key_serializer or value_serializer "
        'such as "str" or "json"'
    )
