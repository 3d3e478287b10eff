"""`ottla.aio.Consumer`: the consumer for an event loop. Requests to brokers run in threads of the
loop's executor; fetched records are returned in the loop itself.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Iterable, Mapping
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
from ottla.client.bulk.reading import EARLIEST, LATEST
from ottla.client.consumer.arguments import offsets_to_commit
from ottla.client.consumer.base import ConsumerBase
from ottla.client.consumer.membership import Event, EventKind
from ottla.client.consumer.records import (
    ConsumerRecord,
    CorruptBatchError,
    DeserializationError,
)
from ottla.runtime.loop_waker import LoopWaker


class Consumer(ConsumerBase):
    """Records of topics, alone or shared with the other members of a group.

    `target` is an open log, a data directory, or `HOST:PORT[,HOST:PORT]`. Use it in an `async with`
    statement. Listeners of `subscribe` may be coroutines. Errors raise `UserError`; a later call
    may succeed.

    >>> async with ottla.aio.Consumer(log, "kitchen",
    ...                               settings={"auto.offset.reset": "earliest"}) as consumer:
    ...     consumer.subscribe("orders")
    ...     async for record in consumer:
    ...         print(record.topic)
    ...         break
    orders
    """

    _woken: LoopWaker | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The record that the application failed at is read again.
        await self._close(commits=kind is None)

    async def close(self) -> None:
        """Commits the returned records, with enable.auto.commit, and leaves the group.

        >>> await consumer.close()
        >>> await consumer.poll()
        Traceback (most recent call last):
        ottla.client.consumer.errors.ClosedError: ...
        """
        await self._close(commits=True)

    async def _close(self, *, commits: bool) -> None:
        core = self._core
        if core.is_closed:
            return
        if commits and (farewell := core.farewell()) is not None:
            await asyncio.to_thread(core.before, farewell)
            await self._tell(farewell)
        await asyncio.to_thread(lambda: core.close(commits=commits))

    # Records

    async def poll(self, timeout: float | None = None) -> ConsumerRecord | None:
        """The next record, or `None` if none arrives within `timeout` seconds.

        >>> consumer.assign({("orders", 0): 0})
        >>> (await consumer.poll(timeout=10)).value
        b'tea'
        """
        if not self._core.attention:
            for record in self._records:
                return record
        return next(self._records) if await self._fill(timeout) else None

    async def consume(
        self, num_messages: int = 1, timeout: float | None = None
    ) -> list[ConsumerRecord]:
        """Up to `num_messages` records; fewer if no more arrive within `timeout` seconds.

        >>> consumer.assign({("orders", 0): 1})
        >>> [record.value for record in await consumer.consume(2, timeout=10)]
        [b'coffee', b'cake']
        """
        return await self._gather(num_messages, timeout, is_patient=True)

    async def poll_many(
        self, max_records: int = 500, timeout: float | None = None
    ) -> list[ConsumerRecord]:
        """The records that are there, up to `max_records`: waits at most `timeout` seconds for the
        first one, and for no others, as `consume` does.

        >>> consumer.assign({("orders", 0): 1})
        >>> [record.value for record in await consumer.poll_many(timeout=10)]
        [b'coffee', b'cake']
        """
        return await self._gather(max_records, timeout, is_patient=False)

    async def _gather(
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
                if not await self._fill(left_s):
                    break
            except (CorruptBatchError, DeserializationError):
                if not found:
                    raise
                break  # The next call raises it: what precedes the record is not lost.
        return found

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Endless: waits for records until the consumer is closed."""
        core = self._core
        while not core.is_closed:
            for record in self._records:
                yield record
                if core.attention:
                    break
            if not core.is_closed:
                await self._fill(None)
        core.check_process()

    async def _fill(self, timeout: float | None) -> bool:
        """Whether there is a record to return; it is then in `_records`."""
        core = self._core
        core.check_reads()
        if self._woken is None:
            self._woken = LoopWaker(core.wakers)
        woken = self._woken
        until_s = None if timeout is None else time.monotonic() + check_seconds(timeout)
        while not core.is_closed:
            core.auto_commit()
            while (event := core.next_event()) is not None:
                await self._rebalance(event)
            if core.has_work():
                await asyncio.to_thread(core.work)
            woken.clear()
            if (records := core.next_records()) is not None:
                self._records = records
                await asyncio.sleep(0)  # Let other tasks run, however much there is to read.
                return True
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            if not core.has_something():
                await woken.wait(core.patience_s(left_s))
        return False

    async def _rebalance(self, event: Event) -> None:
        core = self._core
        await asyncio.to_thread(core.before, event)
        if event.kind is EventKind.ASSIGNED:
            core.apply(event)
        try:
            await self._tell(event)
        finally:
            if event.kind is not EventKind.ASSIGNED:
                core.apply(event)
            core.handled(event)

    async def _tell(self, event: Event) -> None:
        if (listener := self._listeners.get(event.kind)) is not None:
            answer = listener(sorted(event.partitions))
            if inspect.isawaitable(answer):
                await answer

    # Positions

    async def seek_to_beginning(self, *partitions: Place) -> None:
        """Continues at the first records of the partitions, by default of all assigned ones.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 2})
        >>> await consumer.seek_to_beginning(place)
        >>> consumer.position(place)
        0
        """
        await asyncio.to_thread(self._core.seek_to_time, check_places(partitions), EARLIEST)

    async def seek_to_end(self, *partitions: Place) -> None:
        """Continues after the last records of the partitions, by default of all assigned ones.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> await consumer.seek_to_end(place)
        >>> consumer.position(place)
        3
        """
        await asyncio.to_thread(self._core.seek_to_time, check_places(partitions), LATEST)

    async def seek_to_time(self, timestamp_ms: int, *partitions: Place) -> None:
        """Continues at the first records of a time or later, or at the end if there are none.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> await consumer.seek_to_time(1_767_225_602_000)
        >>> consumer.position(place)
        1
        """
        await asyncio.to_thread(
            self._core.seek_to_time, check_places(partitions), check_time(timestamp_ms)
        )

    # What brokers know

    async def topics(self) -> set[str]:
        """The names of all topics.

        >>> "orders" in await consumer.topics()
        True
        """
        return set(await asyncio.to_thread(self._opened.topics))

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic. Raises `UserError`, with the topic that was perhaps meant.

        >>> await consumer.partitions_for_topic("orders")
        {0, 1}
        """
        return set(range(await asyncio.to_thread(self._opened.partition_count, topic)))

    async def beginning_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The first offset of each partition.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> (await consumer.beginning_offsets([place]))[place]
        0
        """
        return await self._list_offsets(dict.fromkeys(check_places(partitions), EARLIEST))

    async def end_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The end offsets; with read_committed the last stable offsets.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> (await consumer.end_offsets([place]))[place]
        3
        """
        return await self._list_offsets(dict.fromkeys(check_places(partitions), LATEST))

    async def offsets_for_times(self, timestamps_ms: Offsets) -> dict[TopicPartition, int | None]:
        """The first offset at a time or later; `None` without one.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> (await consumer.offsets_for_times({place: 1_767_225_602_000}))[place]
        1
        """
        found = await self._list_offsets(check_times(timestamps_ms))
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return await asyncio.to_thread(self._core.list_offsets, wanted)

    # Commits

    async def commit(
        self, record: ConsumerRecord | None = None, *, offsets: Offsets | None = None
    ) -> None:
        """Commits the position after a record, or offsets, or the positions of all returned
        records. An offset is that of the next record to read. Raises `CommitFailedError` if the
        partition was assigned to another member.

        >>> consumer.assign({("orders", 0): 0})
        >>> record = await consumer.poll(timeout=10)
        >>> await consumer.commit(record)
        >>> await consumer.committed([("orders", 0)])
        {TopicPartition(topic='orders', partition=0): 1}
        """
        await asyncio.wrap_future(self._core.commit_later(offsets_to_commit(record, offsets)))

    async def committed(self, partitions: Iterable[Place]) -> dict[TopicPartition, int | None]:
        """The group's committed offsets; `None` where there is none.

        >>> consumer.assign([("orders", 0)])
        >>> await consumer.commit(offsets={("orders", 0): 2})
        >>> await consumer.committed([("orders", 0)])
        {TopicPartition(topic='orders', partition=0): 2}
        """
        wanted = check_places(partitions)
        found = await asyncio.to_thread(self._core.committed, wanted)
        return {one: found[one].offset if one in found else None for one in wanted}
