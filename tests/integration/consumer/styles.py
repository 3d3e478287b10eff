"""Both transports and both styles behind one face, so that one test is held against all four."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import ottla.aio
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.client.administration.group_offsets import committed_by
from ottla.client.bulk.producer_identity import init_producer
from ottla.client.bulk.transactions import add_partitions, end_transaction
from ottla.client.connecting.cluster import CoordinatorKind
from ottla.client.connecting.target import Target, open_target
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from tests.support.brokers import lead_in_next_epoch
from tests.support.patience import PATIENCE_S

EARLIEST = {"heartbeat.interval.ms": 100, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}

SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


class AsyncStyle:
    """An `ottla.aio.Consumer`, each of whose coroutines is run to its end."""

    kind: Any = ottla.aio.Consumer

    def __init__(self, *args: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        try:
            self._client = self.kind(*args, **options)
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        with self._runner:
            self._run(self._client.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        records = aiter(self._client)
        while True:
            yield self._run(anext(records))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            return self._run(answer) if inspect.isawaitable(answer) else answer

        return call

    def _run(self, work: Any) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(work, PATIENCE_S)

        return self._runner.run(limited())


class Place:
    """An open log, and how a consumer of one style gets at it."""

    def __init__(self, log: Log, target: Target, make: Any) -> None:
        self.log = log
        self.target = target
        self._make = make

    def consumer(self, group: str | None = None, *, options: Any = None, **settings: Any) -> Any:
        """`settings` are Kafka's names with `_` for `.`."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return self._make(self.target, group, settings={**EARLIEST, **named}, **(options or {}))

    def fill(self, topic: str, count: int, *, partitions: int = 1) -> None:
        """Numbers as values, dealt out to the partitions."""
        if topic not in self.log.topics():
            self.log.create_topic(topic, partitions=partitions)
        for number in range(count):
            self.log.append(topic, b"%d" % number, partition=number % partitions)

    def elect(self, topic: str) -> None:
        """Another leader comes, which has everything."""

        def deed(broker: Broker, at: Timestamps) -> None:
            lead_in_next_epoch(broker, self.log.find_partition(topic, 0))

        self.log.hold(deed)

    def committed(self, group: str, topic: str) -> tuple[int, int]:
        """Offset and epoch of the first partition."""
        with open_target(self.log) as cluster:
            (one,) = cluster.ask_coordinator(
                CoordinatorKind.GROUP, group, lambda broker: list(committed_by(broker, group))
            )
        assert (one.topic, one.partition) == (topic, 0)
        return one.offset, one.leader_epoch

    def write_transaction(self, topic: str, value: bytes, *, is_commit: bool) -> None:
        with open_target(self.log) as cluster:
            who = init_producer(cluster, "tests", 60_000)
            add_partitions(cluster, who, {TopicPartition(topic, 0)})
            builder = RecordBatchBuilder(
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                base_sequence=0,
                is_transactional=True,
            )
            builder.append(None, value, 1)
            self.log.append_batch(topic, 0, builder)
            assert end_transaction(cluster, who, is_commit=is_commit)


@contextmanager
def places(path: Any, transport: str, style: str) -> Iterator[Place]:
    make: Any = ottla.Consumer if style == "sync" else AsyncStyle
    with ottla.open(path, SETTINGS) as log:
        if transport == "in process":
            yield Place(log, log, make)
        else:
            yield Place(log, log.listen("127.0.0.1:0").address, make)


def values(records: Any) -> list[bytes]:
    return sorted((one.value for one in records), key=int)
