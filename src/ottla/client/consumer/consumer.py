"""`ottla.Consumer`, for threads; `ottla.aio.Consumer` has the same names.

with ottla.Consumer("127.0.0.1:9092", group="billing") as consumer:
    consumer.subscribe("orders")
    for record in consumer:
        handle(record.key, record.value)
"""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from ottla.base.arguments import (
    check_count,
    check_places,
    check_seconds,
    check_time,
    check_times,
)
from ottla.base.partitions import Offsets, Place, TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.bulk.reading import EARLIEST, LATEST
from ottla.client.consumer.arguments import offsets_to_commit
from ottla.client.consumer.base import ConsumerBase
from ottla.client.consumer.membership import Event, EventKind
from ottla.client.consumer.records import (
    ConsumerRecord,
    CorruptBatchError,
    DeserializationError,
)
from ottla.runtime.loops import check_may_block


class Consumer(ConsumerBase):
    """Records of topics, alone or shared with the other members of a group.

    `target` is an open log, a data directory, or `HOST:PORT[,HOST:PORT]`. Use it in a `with`
    statement and from one thread; `streams` gives one consumer for each of several threads. Errors
    raise `UserError`; a later call may succeed.

    >>> with ottla.Consumer(log, "kitchen", settings={"auto.offset.reset": "earliest"}) as consumer:
    ...     consumer.subscribe("orders")
    ...     for record in consumer:
    ...         print(record.topic)
    ...         break
    orders
    """

    _streams: "tuple[Consumer, ...]" = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The record that the application failed on is read again.
        self._close(commits=kind is None)

    def close(self) -> None:
        """Commits the returned records, with enable.auto.commit, and leaves the group.

        >>> consumer.close()
        >>> consumer.poll()
        Traceback (most recent call last):
        ottla.client.consumer.errors.ClosedError: ...
        """
        self._close(commits=True)

    def _close(self, *, commits: bool) -> None:
        if not self._core.is_closed:
            check_may_block("close()", "await ottla.aio.Consumer.close()")
        for one in self._streams:
            one._close(commits=commits)
        if self._core.is_closed:
            return
        if commits and (farewell := self._core.farewell()) is not None:
            self._core.before(farewell)
            self._tell(farewell)
        self._core.close(commits=commits)

    def streams(self, count: int) -> "list[Consumer]":
        """Creates `count` consumers of the same group, one for each thread, which subscribes it:
        they do not read what this one reads. They share the partitions as the threads of Kafka 0.7
        do, and are closed with this one.

        >>> for stream in consumer.streams(2):  # Each for a thread.
        ...     stream.subscribe("orders")
        """
        self._core.check_group()
        count = check_count(count, "streams", least=1)
        added = [Consumer(**self._stream_arguments(number)) for number in range(count)]
        self._streams += tuple(added)
        return added

    # Records

    def poll(self, timeout: float | None = None) -> ConsumerRecord | None:
        """The next record, or `None` if none arrives within `timeout` seconds.

        >>> consumer.assign({("orders", 0): 0})
        >>> consumer.poll(timeout=10).value
        b'tea'
        """
        if not self._core.attention:
            for record in self._records:
                return record
        return next(self._records) if self._fill(timeout) else None

    @answers_unknown_arguments
    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[ConsumerRecord]:
        """Up to `num_messages` records; fewer if no more arrive within `timeout` seconds.

        >>> consumer.assign({("orders", 0): 1})
        >>> [record.value for record in consumer.consume(2, timeout=10)]
        [b'coffee', b'cake']
        """
        return self._gather(num_messages, timeout, is_patient=True)

    @answers_unknown_arguments
    def poll_many(
        self, max_records: int = 500, timeout: float | None = None
    ) -> list[ConsumerRecord]:
        """The records that are there, up to `max_records`: waits at most `timeout` seconds for the
        first one, and for no others, as `consume` does.

        >>> consumer.assign({("orders", 0): 1})
        >>> [record.value for record in consumer.poll_many(timeout=10)]
        [b'coffee', b'cake']
        """
        return self._gather(max_records, timeout, is_patient=False)

    def _gather(
        self, count: int, timeout: float | None, *, is_patient: bool
    ) -> list[ConsumerRecord]:
        """Waits for `count` records if it is patient, otherwise for one."""
        check_count(count, "records")
        found: list[ConsumerRecord] = []
        until_s = None if timeout is None else time.monotonic() + check_seconds(timeout)
        while len(found) < count:
            if not self._core.attention:
                found += islice(self._records, count - len(found))
                if len(found) == count:
                    break
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            if found and not is_patient:
                left_s = 0.0
            try:
                if not self._fill(left_s):
                    break
            except (CorruptBatchError, DeserializationError):
                if not found:
                    raise
                break  # The next call raises it: what precedes the record is not lost.
        return found

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Endless: waits for records until the consumer is closed."""
        core = self._core
        while True:
            for record in self._records:
                yield record
                if core.attention:
                    break
            if core.is_closed:
                core.check_process()
                return
            self._fill(None)

    def _fill(self, timeout: float | None) -> bool:
        """Whether there is a record to return; it is then in `_records`."""
        core = self._core
        core.check_reads()
        until_s = None if timeout is None else time.monotonic() + check_seconds(timeout)
        while not core.is_closed:
            core.auto_commit()
            while (event := core.next_event()) is not None:
                self._rebalance(event)
            if core.has_work():
                check_may_block("poll()", "ottla.aio.Consumer.poll()")
                core.work()
            if (records := core.next_records()) is not None:
                self._records = records
                return True
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            check_may_block("poll()", "ottla.aio.Consumer.poll()")
            core.wait(left_s)
        return False

    def _rebalance(self, event: Event) -> None:
        core = self._core
        core.before(event)
        if event.kind is EventKind.ASSIGNED:
            core.apply(event)
        try:
            self._tell(event)
        finally:
            if event.kind is not EventKind.ASSIGNED:
                core.apply(event)
            core.handled(event)

    def _tell(self, event: Event) -> None:
        if (listener := self._listeners.get(event.kind)) is not None:
            listener(sorted(event.partitions))

    # Positions

    def seek_to_beginning(self, *partitions: Place) -> None:
        """Continues at the first records of the partitions, by default of all assigned ones.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 2})
        >>> consumer.seek_to_beginning(place)
        >>> consumer.position(place)
        0
        """
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: Place) -> None:
        """Continues after the last records of the partitions, by default of all assigned ones.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> consumer.seek_to_end(place)
        >>> consumer.position(place)
        3
        """
        self._seek_to(partitions, LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: Place) -> None:
        """Continues at the first records of a time or later, or at the end if there are none.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> consumer.seek_to_time(1_767_225_602_000)
        >>> consumer.position(place)
        1
        """
        self._seek_to(partitions, check_time(timestamp_ms))

    def _seek_to(self, partitions: Iterable[Place], time_ms: int) -> None:
        check_may_block("seek_to_...()", "await ottla.aio.Consumer.seek_to_...()")
        self._core.seek_to_time(check_places(partitions), time_ms)

    # What brokers know

    def topics(self) -> set[str]:
        """The names of all topics.

        >>> "orders" in consumer.topics()
        True
        """
        check_may_block("topics()", "await ottla.aio.Consumer.topics()")
        return set(self._opened.topics())

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic. Raises `UserError`, with the topic that was perhaps meant.

        >>> consumer.partitions_for_topic("orders")
        {0, 1}
        >>> consumer.partitions_for_topic("order")
        Traceback (most recent call last):
        ottla.client.refusals.UnknownTopicError: there is no topic order; did you mean orders?
        """
        check_may_block("partitions_for_topic()", "await ottla.aio.Consumer.partitions_for_topic()")
        return set(range(self._opened.partition_count(topic)))

    def beginning_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The first offset of each partition.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.beginning_offsets([place])[place]
        0
        """
        check_may_block("beginning_offsets()", "await ottla.aio.Consumer.beginning_offsets()")
        return self._core.list_offsets(dict.fromkeys(check_places(partitions), EARLIEST))

    def end_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The end offsets; with read_committed the last stable offsets.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.end_offsets([place])[place]
        3
        """
        check_may_block("end_offsets()", "await ottla.aio.Consumer.end_offsets()")
        return self._core.list_offsets(dict.fromkeys(check_places(partitions), LATEST))

    def offsets_for_times(self, timestamps_ms: Offsets) -> dict[TopicPartition, int | None]:
        """The first offset at a time or later; `None` without one.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.offsets_for_times({place: 1_767_225_602_000})[place]
        1
        """
        check_may_block("offsets_for_times()", "await ottla.aio.Consumer.offsets_for_times()")
        found = self._core.list_offsets(check_times(timestamps_ms))
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    # Commits

    @answers_unknown_arguments
    def commit(
        self, record: ConsumerRecord | None = None, *, offsets: Offsets | None = None
    ) -> None:
        """Commits the position after a record, or offsets, or the positions of all returned
        records. An offset is that of the next record to read. Raises `CommitFailedError` if the
        partition was assigned to another member.

        >>> consumer.assign({("orders", 0): 0})
        >>> record = consumer.poll(timeout=10)
        >>> consumer.commit(record)
        >>> consumer.committed([("orders", 0)])
        {TopicPartition(topic='orders', partition=0): 1}
        """
        check_may_block("commit()", "await ottla.aio.Consumer.commit()")
        self._core.commit_later(offsets_to_commit(record, offsets)).result()

    def committed(self, partitions: Iterable[Place]) -> dict[TopicPartition, int | None]:
        """The group's committed offsets; `None` where there is none.

        >>> consumer.assign([("orders", 0)])
        >>> consumer.commit(offsets={("orders", 0): 2})
        >>> consumer.committed([("orders", 0)])
        {TopicPartition(topic='orders', partition=0): 2}
        """
        check_may_block("committed()", "await ottla.aio.Consumer.committed()")
        wanted = check_places(partitions)
        found = self._core.committed(wanted)
        return {one: found[one].offset if one in found else None for one in wanted}
