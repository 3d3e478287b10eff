"""Requests from their bytes to the bytes of their answers, without a socket; and embedded appends.

Processor time of the thread, which other processes disturb less than the clock on the wall. So two
states of the sources can be compared on a machine at work: PYTHONPATH chooses which one runs, and
the two in turns, several times, show what is noise.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time

from benchmarks.logs import batch_of
from benchmarks.measuring import Scale
from benchmarks.report import Report, add_figure, figures_report
from benchmarks.wire import frame_of
from ottla.base.clock import SystemClock, read_clock
from ottla.broker.broker import Broker
from ottla.codec.primitives import Output
from ottla.codec.schema import Message
from ottla.embedded.log import Log
from ottla.embedded.log import open as open_log
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.runtime.opening import open_broker
from ottla.server.dispatching.dispatch import Dispatcher
from ottla.server.dispatching.request_context import Client

PEER = Client(("127.0.0.1", 9092), "127.0.0.1")
TOPIC = "bench"
VALUE_SIZE = 100
SLICE_SIZE = 1 << 20


def run(scale: Scale) -> Iterator[Report]:
    times = scale.of(300, 1)
    with scale.data_directory() as directory, open_log(directory / "embedded") as log:
        broker = broker_in(directory / "served")
        try:
            samples = scale.sampled(
                {
                    name: lambda deed=deed: seconds_of(deed, times)  # type: ignore[misc]
                    for name, deed in _deeds(broker, log).items()
                },
                times=3,
            )
        finally:
            broker.close()
    report = figures_report("Requests without a socket, and embedded appends: processor time")
    for name, all_ in samples.items():
        add_figure(report, name, all_.scaled(1e6), "us")
        report.notes.append(f"Least of {name}: {min(all_.values) * 1e6:.2f} us.")
    yield report


def broker_in(path: Path, settings: dict[str, str] | None = None) -> Broker:
    clock = SystemClock()
    broker = open_broker([str(path)], {"num.partitions": "1", **(settings or {})}, clock=clock)
    broker.transactions.load(read_clock(clock))
    return broker


def _deeds(broker: Broker, log: Log) -> dict[str, Callable[[], object]]:
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=1))
    log.create_topic(TOPIC)
    asker = Asker(broker)
    for _ in range(100):
        asker.ask(produce(160), 9)
    requests: dict[str, tuple[Message, int]] = {
        "produce, one record": (produce(1), 9),
        "produce, 160 records": (produce(160), 9),
        "fetch, one batch": (fetch(1), 11),
        "fetch, 1 MB": (fetch(SLICE_SIZE), 11),
        "offset commit": (_commit(), 7),
    }
    deeds: dict[str, Callable[[], object]] = {
        name: asker.asking(request, version) for name, (request, version) in requests.items()
    }
    deeds["embedded append"] = lambda: log.append(TOPIC, b"x" * VALUE_SIZE)
    return deeds


class Asker:
    def __init__(self, broker: Broker, client: Client = PEER) -> None:
        self._broker = broker
        self._client = client
        self._dispatcher = Dispatcher(broker)
        self._dispatcher.set_time(read_clock(SystemClock()))

    def ask(self, request: Message, version: int) -> None:
        self.asking(request, version)()

    def asking(self, request: Message, version: int) -> Callable[[], None]:
        frame = frame_of(request, version)[4:]

        def ask() -> None:
            output = Output()
            # A copy, as from a socket: offsets are stamped into the batch.
            later = self._dispatcher.dispatch(memoryview(bytearray(frame)), self._client, output)
            self._broker.appends.write_out()
            assert later is None
            assert output.size

        return ask


def produce(record_count: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch_of(record_count, VALUE_SIZE))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


def fetch(max_bytes: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=160, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics)


def _commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id="bench", topics=[topic])


def seconds_of(deed: Callable[[], object], times: int) -> float:
    deed()
    started = thread_time()
    for _ in range(times):
        deed()
    return (thread_time() - started) / times
