"""Producers as applications use them, a call for each record; and an open log, in and out.

All send to the same partition of one broker, in turns, each with its own defaults, until the last
record is acknowledged. The clocks start when the first one is, so that finding brokers is not what
is measured. What a neighbour on the machine takes counts for the rates, not for processor time,
which is that of the whole process of the client.
"""

import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as numbers
from pathlib import Path
from time import process_time

import ottla
import ottla.aio
from benchmarks import clients
from benchmarks.beside_others import Cost, Stopwatch, compared
from benchmarks.brokers import Ottla, started_brokers
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.codec.crc32c import crc32c
from ottla.embedded.log import Log

SIZES = {"100 B": (100, 200_000), "1 KB": (1000, 50_000)}
"""Of a value, and how many records there are."""

TINY = 2000
SINGLE_SHARE = 20
"""So many times fewer records are appended one by one."""

SLOW = ("kafka-python", "aiokafka")
SLOW_SHARE = 5
"""So many times fewer records are sent by these."""

OURS = {"confluent-kafka": "ottla", "kafka-python": "ottla", "aiokafka": "ottla.aio"}
"""Another's client -> which of ours it is compared with."""

EMBEDDED = {
    "append_many, a list": 1.0,
    "append_many, an Arrow table": 2.0,
    "append, one by one": 0.1,
    "scan, to_arrow": 5.0,
    "scan, records": 1.0,
}
"""Million records a second that there should be of the small ones."""

PIECE = 1_000_000
"""Bytes that are copied, written or read at once where the machine's limits are measured."""

APPENDED, SCANNED = ("copied", "checked", "written"), ("read", "checked", "copied to keep")
LIMITS = {
    "append_many, a list": APPENDED,
    "append_many, an Arrow table": APPENDED,
    "append, one by one": ("written one by one",),
    "scan, to_arrow": SCANNED,
}
"""What each cannot do without: the least time that it could take here is the sum of these. A target
above the rate that follows is beyond the machine."""

Send = Callable[[str, str, bytes, int], Cost]
"""`send(address, topic, value, count)`"""


def run(scale: Scale) -> Iterator[Report]:
    for name, (size, full) in SIZES.items():
        yield _embedded(scale, name, bytes(range(100)) * (size // 100), scale.of(full, TINY))
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=False) as (brokers, _),
    ):
        broker = next(one for one in brokers if one.name == Ottla.name)
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("sent")
        for name, (size, full) in SIZES.items():
            count = scale.of(full, TINY)
            value = bytes(range(100)) * (size // 100)
            counts = {who: count // (SLOW_SHARE if who in SLOW else 1) for who in present()}
            senders = {
                who: partial(send, broker.address, "sent", value, counts[who])
                for who, send in present().items()
            }
            costs = scale.take_turns(senders)
            yield from compared(f"producers, {name} in a record", costs, counts, OURS)


def _embedded(scale: Scale, name: str, value: bytes, count: int) -> Report:
    import pyarrow as pa

    values = [value] * count
    table = pa.table({"value": pa.array(values, pa.binary())})
    single = max(count // SINGLE_SHARE, 1)
    topics = (f"t{number}" for number in numbers())
    with scale.data_directory() as directory, ottla.open(directory / "log") as log:
        log.create_topic("read")
        log.append_many("read", values)
        deeds: dict[str, tuple[Callable[[], float], int]] = {
            "append_many, a list": (partial(_append_many, log, topics, values), count),
            "append_many, an Arrow table": (partial(_append_many, log, topics, table), count),
            "append, one by one": (partial(_append_each, log, topics, values[:single]), single),
            "scan, to_arrow": (
                partial(processor_seconds_of, lambda: log.scan("read").to_arrow()),
                count,
            ),
            "scan, records": (
                partial(processor_seconds_of, lambda: sum(1 for _ in log.scan("read"))),
                count,
            ),
        }
        limits = _limits(directory / "bare", values, single)
        seconds = scale.sampled({one: deed for one, (deed, _) in (deeds | limits).items()})
    report = figures_report(f"an open log, {name} in a record, in processor time")
    for one, (_, records) in deeds.items():
        rates = Samples(tuple(records / each / 1e6 for each in seconds[one].values))
        target = Target(limit=EMBEDDED[one], unit="M records/s", is_minimum=True)
        add_figure(report, one, rates, "M records/s", target if len(value) == 100 else None)
    for one, (_, records) in limits.items():
        rates = Samples(tuple(records * len(value) / each / 1e6 for each in seconds[one].values))
        add_figure(report, f"the machine: the same bytes {one}", rates, "MB/s")
    for one, needed in LIMITS.items():
        rounds = zip(*(seconds[each].values for each in needed), strict=True)
        least = Samples(tuple(map(sum, rounds)))
        possible = Samples(tuple(deeds[one][1] / each / 1e6 for each in least.values))
        add_figure(report, f"{one}: at most, on this machine", possible, "M records/s")
        add_figure(report, f"{one}: of what is possible", least.over(seconds[one]).scaled(100), "%")
    return report


def _limits(
    path: Path, values: list[bytes], single: int
) -> dict[str, tuple[Callable[[], float], int]]:
    """What the machine itself takes for the bytes of the values, in pieces of about a batch."""
    each = max(1, PIECE // len(values[0]))
    pieces = [b"".join(values[start : start + each]) for start in range(0, len(values), each)]

    def write(written: list[bytes]) -> float:
        path.unlink(missing_ok=True)
        with path.open("wb", buffering=0) as file:
            return processor_seconds_of(lambda: sum(map(file.write, written)))

    def read() -> None:
        with path.with_suffix(".read").open("rb", buffering=0) as file:
            while file.read(PIECE):
                pass

    def copy() -> None:
        for start in range(0, len(values), each):
            b"".join(values[start : start + each])

    path.with_suffix(".read").write_bytes(b"".join(pieces))
    deeds: dict[str, Callable[[], float]] = {
        "copied": partial(processor_seconds_of, copy),
        "copied to keep": partial(processor_seconds_of, lambda: list(map(bytearray, pieces))),
        "checked": partial(processor_seconds_of, lambda: sum(map(crc32c, pieces))),
        "written": partial(write, pieces),
        "read": partial(processor_seconds_of, read),
        "written one by one": partial(write, values[:single]),
    }
    return {
        one: (deed, single if one == "written one by one" else len(values))
        for one, deed in deeds.items()
    }


def _append_many(log: Log, topics: Iterator[str], records: object) -> float:
    topic = next(topics)
    log.create_topic(topic)
    return processor_seconds_of(lambda: log.append_many(topic, records))


def _append_each(log: Log, topics: Iterator[str], values: list[bytes]) -> float:
    topic = next(topics)
    log.create_topic(topic)

    def append() -> None:
        for value in values:
            log.append(topic, value)

    return processor_seconds_of(append)


def processor_seconds_of(deed: Callable[[], object]) -> float:
    """Of this process, all threads: what a neighbour on the machine takes does not count."""
    started = process_time()
    deed()
    return process_time() - started


def present() -> dict[str, Send]:
    """The clients that are installed."""
    found: dict[str, Send] = {"ottla": _ottla, "ottla.aio": _ottla_aio}
    if importlib.util.find_spec("confluent_kafka"):
        found["confluent-kafka"] = _confluent
    if importlib.util.find_spec("kafka"):
        found["kafka-python"] = _kafka_python
    if importlib.util.find_spec("aiokafka"):
        found["aiokafka"] = _aiokafka
    return found


def _ottla(address: str, topic: str, value: bytes, count: int) -> Cost:
    with ottla.Producer(address) as producer:
        producer.send(topic, value).result()
        watch = Stopwatch()
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()
        return watch.read()


def _ottla_aio(address: str, topic: str, value: bytes, count: int) -> Cost:
    async def send() -> Cost:
        async with ottla.aio.Producer(address) as producer:
            await producer.send_and_wait(topic, value)
            watch = Stopwatch()
            for _ in range(count):
                await producer.send(topic, value)
            await producer.flush()
            return watch.read()

    return asyncio.run(send())


def _confluent(address: str, topic: str, value: bytes, count: int) -> Cost:
    """With a callback for each record, since that is how one hears of its answer."""
    from confluent_kafka import Producer

    failed: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({**clients.QUIET, "bootstrap.servers": address, "acks": "all"})
    producer.produce(topic, value, on_delivery=delivered)
    producer.flush()
    watch = Stopwatch()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    assert not failed
    return watch.read()


def _kafka_python(address: str, topic: str, value: bytes, count: int) -> Cost:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    try:
        producer.send(topic, value).get(60)
        watch = Stopwatch()
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()
        return watch.read()
    finally:
        producer.close()


def _aiokafka(address: str, topic: str, value: bytes, count: int) -> Cost:
    from aiokafka import AIOKafkaProducer

    async def send() -> Cost:
        producer = AIOKafkaProducer(bootstrap_servers=address, acks="all")
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
            watch = Stopwatch()
            for _ in range(count):
                await producer.send(topic, value)
            await producer.flush()
            return watch.read()
        finally:
            await producer.stop()

    return asyncio.run(send())
