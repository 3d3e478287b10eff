"""Share groups: records delivered to a member and accepted one by one, and what locks cost.

Requests go from their bytes to the bytes of their answers without a socket, in processor time of
the thread. Each fetch says of each record of the one before that it is accepted: by one type a
record in one range, and by one range a record, as members do that finish records out of order.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, thread_time

import ottla
from benchmarks.brokers import Ottla
from benchmarks.dispatch import PEER, Asker, broker_in, produce, seconds_of
from benchmarks.logs import batch_of
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import frame_of
from ottla.base.clock import SystemClock, read_clock
from ottla.base.ids import Uuid
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import InitializeState
from ottla.codec.primitives import Output
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.records_in_flight import AcknowledgeType
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from ottla.server.dispatching.dispatch import Dispatcher

GROUP = "bench"
CLIENT_RECORDS = 200_000
VALUE = b"x" * 100
WAIT_S = 60.0
PER_FETCH = 500
BATCH = 100
LOCKED = 10_000
PARTITIONS = 5
GOAL = 50_000
LOCK_GOAL_US = 1.0


def run(scale: Scale) -> Iterator[Report]:
    report = figures_report("Share groups: processor time of one core, and a client")
    fetches = scale.of(400, 4)
    ways = {
        "delivered, and accepted by a type a record": _types,
        "delivered, and accepted by a range a record": _ranges,
    }
    with scale.data_directory() as directory:
        for number, (name, said) in enumerate(ways.items()):
            samples = [
                Delivering(directory / f"{number}-{one}", said).rate(fetches)
                for one in range(scale.rounds)
            ]
            goal = Target(limit=GOAL, unit="records/s", is_minimum=True)
            add_figure(report, name, Samples(tuple(samples)), "records/s", goal)
        goal = Target(limit=GOAL, unit="records/s", is_minimum=True)
        clients = [
            _client_rate(directory / f"client-{one}", scale.of(CLIENT_RECORDS, 100))
            for one in range(scale.rounds)
        ]
        name = "read by ottla.ShareConsumer over a socket, each accepted by a call"
        add_figure(report, name, Samples(tuple(clients)), "records/s", goal)
        locked = scale.of(LOCKED, 10)
        costs, expired_us = Locked(directory / "locked", locked).costs(
            scale.of(200, 2), scale.rounds
        )
        goal = Target(limit=LOCK_GOAL_US, unit="us")
        name = f"a locked record in a round, of {locked:,}"
        add_figure(report, name, Samples(tuple(costs)), "us", goal)
        add_figure(report, "a record whose lock expires", Samples((expired_us,)), "us")
    yield report


def _client_rate(directory: Path, count: int) -> float:
    """Records per second, with the broker in a process of its own."""
    with Ottla().start(directory) as broker:
        address = f"{broker.host}:{broker.port}"
        with ottla.Admin(address) as admin:
            admin.create_topic("bench")
            earliest = {"share.auto.offset.reset": "earliest"}
            admin.alter_configs(ottla.ResourceKind.GROUP, GROUP, earliest)
        with ottla.Producer(address) as producer:
            for _ in range(count):
                producer.send("bench", VALUE)
        settings: ottla.ShareConsumerSettings = {"share.acknowledgement.mode": "explicit"}
        with ottla.ShareConsumer(address, GROUP, settings=settings) as consumer:
            consumer.subscribe("bench")
            first = consumer.consume(1, timeout=WAIT_S)
            started, left = perf_counter(), count - len(first)
            consumer.accept(first[0])
            while left:
                records = consumer.poll_many(timeout=WAIT_S)
                assert records
                for one in records:
                    consumer.accept(one)
                left -= len(records)
            consumer.commit()
            return (count - 1) / (perf_counter() - started)


def _types(first: int, last: int) -> list[AcknowledgementBatch]:
    kinds = [int(AcknowledgeType.ACCEPT)] * (last - first + 1)
    return [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=kinds)]


def _ranges(first: int, last: int) -> list[AcknowledgementBatch]:
    return [_types(offset, offset)[0] for offset in range(first, last + 1)]


class _Group:
    """A broker with a topic of some partitions, and a member of a group that begins at 0."""

    def __init__(self, path: Path, partition_count: int) -> None:
        self.broker: Broker = broker_in(path)
        self.broker.admin.create_topic(NewTopic(name="bench", partition_count=partition_count))
        self.topic_id: Uuid = self.broker.topics.get("bench").topic_id
        self.epoch = 0
        clock = SystemClock()
        answers: list[ShareStateAnswer] = []
        keys = [SharePartitionKey(GROUP, self.topic_id, one) for one in range(partition_count)]
        at = read_clock(clock)
        self.broker.share_persister.ask(
            [InitializeState(one, 1, 0) for one in keys], answers.extend, at
        )
        while not answers:
            self.broker.appends.write_out()
            self.broker.answers.advance(read_clock(clock))
        assert not any(one.error for one in answers)
        self.dispatcher = Dispatcher(self.broker)
        self.dispatcher.set_time(read_clock(clock))

    def fetch(self, partition: int, said: Sequence[AcknowledgementBatch], count: int) -> bytes:
        """The frame of the next fetch."""
        wanted = FetchPartition(partition_index=partition, acknowledgement_batches=list(said))
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id="member",
            share_session_epoch=self.epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_records=count,
            batch_size=count,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[wanted])],
            forgotten_topics_data=[],
        )
        self.epoch += 1
        return bytes(frame_of(request, 2)[4:])

    def ask(self, frame: bytes) -> int:
        """The size of the answer."""
        output = Output()
        later = self.dispatcher.dispatch(memoryview(bytearray(frame)), PEER, output)
        self.broker.appends.write_out()
        assert later is None
        return output.size


class Delivering(_Group):
    def __init__(self, path: Path, said: Callable[[int, int], list[AcknowledgementBatch]]) -> None:
        super().__init__(path, 1)
        self._said = said

    def rate(self, fetches: int) -> float:
        """Records per second of processor time."""
        asker = Asker(self.broker)
        fill = asker.asking(produce(BATCH), 9)
        for _ in range(fetches * PER_FETCH // BATCH):
            fill()
        self.ask(self.fetch(0, (), 0))
        frames = [self.fetch(0, (), PER_FETCH)]
        for number in range(fetches):
            said = self._said(number * PER_FETCH, (number + 1) * PER_FETCH - 1)
            frames.append(self.fetch(0, said, PER_FETCH))
        self.dispatcher.set_time(read_clock(SystemClock()))
        started = thread_time()
        for frame in frames:
            self.ask(frame)
        taken_s = thread_time() - started
        led = self.broker.shares.led.find(GROUP, (self.topic_id, 0))
        assert led.machine.records.start == fetches * PER_FETCH
        self.broker.close()
        return fetches * PER_FETCH / taken_s


class Locked(_Group):
    """Records that are locked, each for itself, while rounds pass."""

    def __init__(self, path: Path, count: int) -> None:
        super().__init__(path, PARTITIONS)
        self._count = count
        for partition in self.broker.topics.get("bench").partitions.values():
            for _ in range(count // PARTITIONS):
                one = bytearray(batch_of(1, 100))
                self.broker.appends.append(partition, one, now_ms=0)
            self.broker.appends.write_out()
        for partition_index in range(PARTITIONS):
            self.ask(self.fetch(partition_index, (), 0))
        for number in range(count):
            self.ask(self.fetch(number % PARTITIONS, (), 1))

    def costs(self, rounds: int, times: int) -> tuple[list[float], float]:
        """Microseconds of a record in a round, and of one whose lock expires."""
        broker, clock = self.broker, SystemClock()
        leds = broker.shares.led
        places = [(self.topic_id, one) for one in range(PARTITIONS)]
        locked = sum(leds.find(GROUP, one).machine.records.open_count for one in places)
        assert locked == self._count

        def one_round() -> None:
            broker.answers.advance(read_clock(clock))
            assert broker.scheduler.next_deadline_ms is not None

        found = [seconds_of(one_round, rounds) * 1e6 / self._count for _ in range(times)]
        self.dispatcher.set_time(read_clock(clock))
        at = read_clock(clock)
        at.monotonic_ms += 60_000
        started = thread_time()
        broker.answers.advance(at)
        broker.appends.write_out()
        expired_us = (thread_time() - started) * 1e6 / self._count
        broker.close()
        return found, expired_us
