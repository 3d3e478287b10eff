"""What a client with small requests notices of another whose requests are as large as they may be.

Beside each API, with each of its arrays in turn filled with a hundred thousand elements, beside
requests that ask for much in few bytes, and beside connections that send without end, one client
produces one record every few milliseconds. Its waits are listed, and what memory the broker took.
On a busy machine most of a wait is one for a core that others have: the p99 is listed without what
the broker's threads, and the client's, have waited for one too.
"""

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any

from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.machine import queued_seconds
from benchmarks.measuring import MEGABYTE, Scale, figure, percentile
from benchmarks.report import Report
from benchmarks.wire import Producing, WireClient, frame_of
from ottla.codec.compression import Compression
from ottla.codec.fields import Field
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.server.dispatching.apis import APIS, Api

COUNT = 100_000
PAUSE_S = 0.003
BESIDE_S = 2.0
"""For how long the one client is served at least; and until the other has an answer."""

LIMIT_BEFORE_S = 600.0
"""For what is made before anything is measured: thousands of partitions, on a slow disk."""

LIMIT_S = 30.0
PIPELINED = 64
FIRST_MS = 1_000_000
"""The time of a batch's first record."""

TARGET_MS = 20.0
MOST_MS = 50.0
ALONE = "none"
"""What the machine does to the waits by itself."""

KNOWN: Mapping[str, int] = {"acks": -1, "resource_type": 2, "max_records": 500}
NAMES = ("name", "topic", "topic_name", "resource_name")

COLUMNS = (
    "other client",
    "MB",
    "answered after",
    "median ms",
    "p99 ms",
    "worst ms",
    "p99",
    "own ms",
    "memory MB",
    "MB kept",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burden:
    """What the other client sends, again and again; `before` is asked once, and not measured.

    `elements` are those of its large array; the broker must not refuse a request that has one.
    """

    name: str
    frame: bytes
    elements: int = 0
    before: Sequence[bytes] = ()
    before_each: Sequence[bytes] = ()
    after_each: Sequence[bytes] = ()
    """With these it can be asked more often than `times`."""
    is_pipelined: bool = False
    times: int = 1000
    beside: Sequence[str] = ()
    """A command that runs meanwhile."""

    @property
    def answer_count(self) -> int:
        return PIPELINED if self.is_pipelined else 1


@dataclass(slots=True)
class Seen:
    waits_s: list[float] = field(default_factory=list)
    served_s: list[float] = field(default_factory=list)
    """The same waits, without the time in which the system let others run."""
    answers_s: list[float] = field(default_factory=list)
    refusals: int = 0
    before_bytes: int = 0
    largest_bytes: int = 0
    after_bytes: int = 0


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory:
        peer = Ottla(("num.partitions=1", "auto.create.topics.enable=true"))
        with peer.start(directory) as broker:
            with WireClient(broker.host, broker.port) as client:
                topic = client.create_topic(scale.of(200, 2))
            yield _report("requests that ask for much", broker, _special(topic, scale), scale)
            alone = Burden(name=ALONE, frame=b"", times=0)
            largest = chain([alone], _of_all(topic, scale), [alone])
            yield _report("the largest of each API", broker, largest, scale)


def _report(what: str, broker: RunningBroker, burdens: Iterator[Burden], scale: Scale) -> Report:
    report = Report(f"One record at a time beside {what}", COLUMNS)
    worst: list[float] = []
    for burden in burdens:
        if burden.name != ALONE and scale.only.upper() not in burden.name.upper():
            continue
        seen = _measure(broker, burden, scale)
        _add(report, burden, seen)
        worst.append(percentile(seen.waits_s, 99) * 1000)
    within = sum(one <= TARGET_MS for one in worst)
    beyond = sum(one > MOST_MS for one in worst)
    report.notes.append(
        f"p99 of at most {figure(TARGET_MS)} ms: {within} of {len(worst)}; of more than "
        f"{figure(MOST_MS)} ms: {beyond}. Own is the p99 without waits for cores. Memory is what "
        "the broker had at most beyond what it had before, and what of it is left a second later."
    )
    return report


def _add(report: Report, burden: Burden, seen: Seen) -> None:
    waits = [one * 1000 for one in seen.waits_s]
    answer = f"{figure(statistics.median(seen.answers_s))} s" if seen.answers_s else "none"
    if seen.refusals:
        answer = "refused"
    p99 = percentile(waits, 99)
    report.add(
        burden.name,
        figure(len(burden.frame) / MEGABYTE),
        answer,
        figure(statistics.median(waits)),
        figure(p99),
        figure(max(waits)),
        "met" if p99 <= TARGET_MS else "MISSED",
        figure(percentile(seen.served_s, 99) * 1000),
        figure((seen.largest_bytes - seen.before_bytes) / MEGABYTE),
        figure((seen.after_bytes - seen.before_bytes) / MEGABYTE),
    )


def _measure(broker: RunningBroker, burden: Burden, scale: Scale) -> Seen:
    seen = Seen()
    producing = Producing(broker.host, broker.port)
    peer = producing.sockets(1)[0]
    for frame in burden.before:
        with WireClient(broker.host, broker.port) as client:
            client.socket.settimeout(LIMIT_BEFORE_S)
            client.socket.sendall(frame)
            client.receive_frame()
    is_over = threading.Event()
    seen.before_bytes = seen.largest_bytes = _resident(broker)
    other = threading.Thread(target=_burden, args=(broker, burden, seen, is_over))
    process = subprocess.Popen(burden.beside) if burden.beside else None
    started = perf_counter()
    other.start()
    try:
        beside_s = scale.of(int(BESIDE_S * 1000), 20) / 1000
        while perf_counter() - started < LIMIT_S:
            has_answers = bool(seen.answers_s or seen.refusals or not burden.times)
            if perf_counter() - started > beside_s and has_answers and seen.waits_s:
                break
            queued, asked = _queued(broker), perf_counter()
            peer.sendall(producing.frame)
            _receive(peer)
            waited = perf_counter() - asked
            seen.waits_s.append(waited)
            seen.served_s.append(max(0.0, waited - max(0.0, _queued(broker) - queued)))
            seen.largest_bytes = max(seen.largest_bytes, _resident(broker))
            time.sleep(PAUSE_S)
    finally:
        is_over.set()
        if process is not None:
            process.kill()
            process.wait()
        other.join()
        producing.close()
    time.sleep(scale.of(1000, 1) / 1000)
    seen.after_bytes = _resident(broker)
    return seen


def _queued(broker: RunningBroker) -> float:
    return queued_seconds(broker.pid) + queued_seconds(os.getpid(), threading.get_native_id())


def _resident(broker: RunningBroker) -> int:
    cost = broker.cost()
    return 0 if cost is None else cost.resident_bytes


def _burden(broker: RunningBroker, burden: Burden, seen: Seen, is_over: threading.Event) -> None:
    left = burden.times
    while not is_over.is_set() and left:
        try:
            with socket.create_connection((broker.host, broker.port), timeout=LIMIT_S) as peer:
                while not is_over.is_set() and left:
                    left -= 1
                    started = perf_counter()
                    peer.sendall(burden.frame)
                    for _ in range(burden.answer_count):
                        _receive(peer)
                    seen.answers_s.append(perf_counter() - started)
        except ConnectionError:
            seen.refusals += 1
        except TimeoutError:
            return


def _receive(peer: socket.socket) -> None:
    """Takes an answer in, and does not look at it."""
    size = int.from_bytes(_exactly(peer, 4), "big")
    while size:
        size -= len(_exactly(peer, min(size, 1 << 20)))


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        some = peer.recv(size - len(data))
        if not some:
            raise ConnectionError("the broker closed the connection")
        data += some
    return bytes(data)


# What is sent


def _of_all(topic: str, scale: Scale) -> Iterator[Burden]:
    for api in APIS.values():
        for burden in largest_of(api, topic, scale.of(COUNT, 30)):
            yield burden
            if scale.is_tiny:
                break


def largest_of(
    api: Api, topic: str, count: int, known: Mapping[str, int] = KNOWN
) -> Iterator[Burden]:
    """Each array large, in the newest version that has it; an API without any, pipelined.

    `known` are the values of fields by which a request is not refused at once.
    """
    name, message = ApiKey(api.key).name, request_class(ApiKey(api.key))
    versions: dict[tuple[str, ...], int] = {}
    for version in range(api.newest, api.oldest - 1, -1):
        for path in _arrays(message, version):
            versions.setdefault(path, version)
    for path, version in versions.items():
        request = Filler(version, count, known).fill(message, path, topic)
        called = f"{name}, {'.'.join(path)}"
        yield Burden(name=called, frame=frame_of(request, version), elements=count)
    if not versions:
        request = Filler(api.newest, 1, known).fill(message, (), topic)
        frame = frame_of(request, api.newest) * PIPELINED
        yield Burden(name=f"{name}, pipelined", frame=frame, is_pipelined=True)


def _arrays(struct: Any, version: int) -> Iterator[tuple[str, ...]]:
    for one in struct.FIELDS:
        if one.kind == "array" and one.is_in(version):
            yield (one.name,)
            if one.struct is not None:
                yield from ((one.name, *rest) for rest in _arrays(one.struct, version))


class Filler:
    """Makes structs of one version, in which one array has `count` elements."""

    def __init__(self, version: int, count: int, known: Mapping[str, int]) -> None:
        self._version = version
        self._count = count
        self._known = known

    def fill(self, struct: Any, path: Sequence[str], topic: str, number: int = 0) -> Any:
        """The array at `path` is large; the others on the way have one element, or none."""
        values: dict[str, Any] = {}
        for one in struct.FIELDS:
            if not one.is_in(self._version):
                continue
            if path and one.name == path[0]:
                values[one.name] = self._array(one, path[1:], topic, number)
            elif one.kind not in ("array", "nested", "records", "binary"):
                values[one.name] = self._value(one, topic, number)
        return struct(**values)

    def _array(self, one: Field, rest: Sequence[str], topic: str, number: int) -> list[Any]:
        numbers = range(1 if rest else self._count)
        if one.element is not None:
            return [self._value(one, topic, number) for number in numbers]
        return [
            self.fill(one.struct, rest, f"{topic}-{number}" if number else topic, number)
            for number in numbers
        ]

    def _value(self, one: Field, topic: str, number: int) -> Any:
        kind = one.kind if one.element is None else one.element.kind
        match kind:
            case "string":
                return topic if one.name in NAMES else f"{one.name}-{number}"
            case "uuid":
                return number.to_bytes(16, "big")
            case "boolean":
                return False
            case "float64":
                return 0.0
        if one.name.endswith(("index", "partition", "partitions", "indexes")):
            return number % 200
        return self._known.get(one.name, one.default or 0)


def _special(topic: str, scale: Scale) -> Iterator[Burden]:
    yield Burden(name=ALONE, frame=b"", times=0)
    busy = (sys.executable, "-c", "while True: pass")
    yield Burden(name="none, and a process that only counts", frame=b"", times=0, beside=busy)
    versions = frame_of(ApiVersionsRequest(), 0)
    yield Burden(name="one small request, and then nothing", frame=versions, times=1)
    first = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1000)
    yield Burden(name="INIT_PRODUCER_ID, the first transaction", frame=frame_of(first, 4), times=1)
    commit = OffsetCommitRequest(group_id="first")
    yield Burden(name="OFFSET_COMMIT, the first commit", frame=frame_of(commit, 7), times=1)
    yield _waits_in_vain(scale)
    size = scale.of(10 * MEGABYTE, 1000)
    yield from refused(size, scale.of(3_000_000, 10))
    moved = AlterReplicaLogDirTopic(name=topic, partitions=[0] * scale.of(COUNT, 10))
    moves = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/none", topics=[moved])])
    yield Burden(name="ALTER_REPLICA_LOG_DIRS to nowhere", frame=frame_of(moves, 2))
    yield from _topics(scale)
    yield searched_by_time(topic, packed(scale.of(COUNT, 10)), scale.of(200, 3))
    small = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 5)
    yield Burden(name="METADATA, pipelined", frame=small * PIPELINED, is_pipelined=True)


def _topics(scale: Scale) -> Iterator[Burden]:
    made = [MetadataRequestTopic(name=f"made-{one}") for one in range(scale.of(800, 2))]
    frame = frame_of(MetadataRequest(topics=made, allow_auto_topic_creation=True), 9)
    yield Burden(name="METADATA that creates 800 topics", frame=frame, times=1)
    yield Burden(name="METADATA of all topics", frame=frame_of(MetadataRequest(topics=None), 9))
    names = [DeleteTopicState(name=one.name) for one in made]
    frame = frame_of(DeleteTopicsRequest(topics=names), 6)
    yield Burden(name="DELETE_TOPICS of 800", frame=frame, times=1)
    yield from made_and_deleted(scale.of(3000, 2))


def refused(name_count: int, tag_count: int) -> tuple[Burden, Burden]:
    """What has more elements than any request may have."""
    empties = DescribeGroupsRequest(groups=[""] * name_count)
    tags = _tagged(frame_of(MetadataRequest(topics=[]), 9), tag_count)
    return (
        Burden(name="DESCRIBE_GROUPS of empty names", frame=frame_of(empties, 5)),
        Burden(name="METADATA with tagged fields", frame=tags),
    )


def made_and_deleted(count: int) -> tuple[Burden, Burden]:
    """A topic of many partitions, made and deleted."""
    large = CreatableTopic(name="large", num_partitions=count, replication_factor=1)
    made = frame_of(CreateTopicsRequest(topics=[large]), 7)
    deleted = frame_of(DeleteTopicsRequest(topics=[DeleteTopicState(name="large")]), 6)
    return (
        Burden(
            name=f"CREATE_TOPICS of {count:,} partitions", frame=made, times=1, after_each=[deleted]
        ),
        Burden(
            name=f"DELETE_TOPICS of {count:,} partitions",
            frame=deleted,
            times=1,
            before_each=[made],
        ),
    )


def _waits_in_vain(scale: Scale) -> Burden:
    """A fetch of many partitions that looks at all of them twice."""
    count = scale.of(5000, 3)
    made = CreatableTopic(name="many", num_partitions=count, replication_factor=1)
    partitions = [FetchPartition(partition=index) for index in range(count)]
    fetch = FetchRequest(
        max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="many", partitions=partitions)]
    )
    return Burden(
        name="FETCH of 5,000 partitions that waits in vain",
        frame=frame_of(fetch, 11),
        before=[frame_of(CreateTopicsRequest(topics=[made]), 7)],
    )


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch that is many times as large as it seems; its last record has the largest time."""

    name: str
    data: bytes
    record_count: int


def packed(
    count: int, value_size: int = 100, compression: Compression = Compression.GZIP
) -> Packed:
    builder = RecordBatchBuilder(compression=compression)
    for number in range(count):
        builder.append(None, bytes(value_size), FIRST_MS + number)
    size = figure(count * value_size / MEGABYTE)
    name = f"{size} MB of {count:,} records in {compression.kafka_name}"
    return Packed(name, bytes(builder.build()), count)


def searched_by_time(topic: str, batch: Packed, searches: int) -> Burden:
    wanted = [
        ListOffsetsPartition(partition_index=0, timestamp=FIRST_MS + batch.record_count - number)
        for number in range(1, searches)
    ]
    asked = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
    )
    return Burden(
        name=f"LIST_OFFSETS by time: {batch.name}",
        frame=frame_of(asked, 7),
        before=[_produced(topic, batch)],
        times=1,
    )


def converted(topic: str, batch: Packed) -> Burden:
    """A fetch of a consumer that knows only the oldest format."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        replica_id=-1, max_wait_ms=0, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    return Burden(
        name=f"FETCH in format 0: {batch.name}",
        frame=frame_of(fetch, 1),
        before=[_produced(topic, batch)],
        times=1,
    )


def _produced(topic: str, batch: Packed) -> bytes:
    data = PartitionProduceData(index=0, records=batch.data)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return frame_of(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)


def _tagged(frame: bytes, count: int) -> bytes:
    """A request with tagged fields at its end that nobody knows."""
    assert frame[-1] == 0, "a flexible version ends with the number of its tagged fields"
    number = bytearray()
    left = count
    while left > 127:
        number.append(left & 127 | 128)
        left >>= 7
    number.append(left)
    body = frame[4:-1] + bytes(number) + b"\x7f\x00" * count
    return len(body).to_bytes(4, "big") + body
