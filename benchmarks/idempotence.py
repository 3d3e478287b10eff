"""What idempotence costs: the broker, by frames made beforehand, and librdkafka, with a broker and
without.

A batch that carries a producer id and a sequence number is the same batch otherwise, so the frames
show what the broker does for these. librdkafka sends other batches at other times when it is
idempotent; against the mock cluster in its own process no broker has a part in that.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter

from benchmarks import clients
from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.logs import CHANCE, batch_of
from benchmarks.machine import first_thread_seconds
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import ACKS_ALL, RECEIVE_SIZE, WireClient, decode, frame_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

IN_FLIGHT = 5
"""The most requests that an idempotent producer has on their way."""

VALUE_SIZE = 100
SHAPES = {"1 record": (1, 20_000), "100 records": (100, 4000), "9,000 records": (9000, 100)}
"""Records in a batch, and how many batches; librdkafka fills them up to a megabyte."""

MESSAGES = 1_000_000
VERSION = 9
PRODUCER_ID = 7
TIMEOUT_S = 20.0
PER_CONNECTION = "max.in.flight.requests.per.connection"

COST_TARGET = Target(limit=5, unit="%")


def run(scale: Scale) -> Iterator[Report]:
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=False) as (brokers, _),
    ):
        yield _by_frames(scale, brokers[0])
        reason = clients.absence()
        if reason is not None:
            yield Report("By librdkafka", ("left out",), notes=[f"{reason}."])
            return
        yield _by_librdkafka(scale, brokers[0])


def _by_frames(scale: Scale, broker: RunningBroker) -> Report:
    report = figures_report(
        f"Produce requests made beforehand, records of {VALUE_SIZE} bytes, {IN_FLIGHT} on their "
        "way: the broker's processor time for each"
    )
    for name, (records, full_count) in SHAPES.items():
        count = scale.of(full_count, IN_FLIGHT + 2)
        plain = [batch_of(records, VALUE_SIZE)] * count
        idempotent = [
            batch_of(
                records,
                VALUE_SIZE,
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=number * records,
            )
            for number in range(count)
        ]
        samples = scale.sampled(
            {
                "plain": lambda batches=plain: _cpu_each(broker, batches),  # type: ignore[misc]
                "idempotent": lambda batches=idempotent: _cpu_each(broker, batches),  # type: ignore[misc]
            },
            times=4,
        )
        add_figure(report, f"batches of {name}, plain", samples["plain"], "us")
        add_figure(report, "  with a producer id", samples["idempotent"], "us")
        add_figure(report, "  what that costs", _cost(samples), "%", COST_TARGET)
    return report


def _cost(samples: dict[str, Samples]) -> Samples:
    """How much more time it takes, in percent, round by round."""
    ratios = samples["idempotent"].over(samples["plain"]).values
    return Samples(tuple(100 * (ratio - 1) for ratio in ratios))


def _cpu_each(broker: RunningBroker, batches: list[bytearray]) -> float:
    """The broker's microseconds for a request with one batch, to a topic of their own.

    Ottla serves in one thread. Where its time is not to be had, the wall's is taken.
    """
    with WireClient(broker.host, broker.port) as client:
        topic = client.create_topic()
        frames = [_frame(topic, batch) for batch in batches]
        first, *more, last = frames
        size = _ask(client, first)
        started = _seconds(broker)
        _exchange(client, more, size)
        spent = _seconds(broker) - started
        _ask(client, last)
    return spent / len(more) * 1e6


def _seconds(broker: RunningBroker) -> float:
    spent = first_thread_seconds(broker.pid)
    return perf_counter() if spent is None else spent


def _frame(topic: str, batch: bytearray) -> bytes:
    data = PartitionProduceData(index=0, records=batch)
    wanted = TopicProduceData(name=topic, partition_data=[data])
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=10_000, topic_data=[wanted])
    return frame_of(request, VERSION)


def _ask(client: WireClient, frame: bytes) -> int:
    """Sends one request, and returns how long the answer is; it must be a success."""
    client.socket.sendall(frame)
    answer = client.receive_frame()
    decoded = decode(answer, ApiKey.PRODUCE, VERSION)
    code = decoded.responses[0].partition_responses[0].error_code
    if code:
        raise RuntimeError(f"a produce request failed with error {code}")
    return len(answer) + 4


def _exchange(client: WireClient, frames: list[bytes], answer_size: int) -> None:
    """Sends all, a next one for each answer; a refusal would be of another size."""
    unsent = iter(frames)
    for frame in islice(unsent, IN_FLIGHT):
        client.socket.sendall(frame)
    left = len(frames) * answer_size
    answered = 0
    while left:
        got = len(client.socket.recv(RECEIVE_SIZE))
        if got == 0:
            raise ConnectionError("the broker closed the connection")
        left -= got
        answered += got
        for frame in islice(unsent, answered // answer_size):
            client.socket.sendall(frame)
        answered %= answer_size


def _by_librdkafka(scale: Scale, broker: RunningBroker) -> Report:
    count = scale.of(MESSAGES, 50)
    report = figures_report(
        f"librdkafka, {count:,} messages of {VALUE_SIZE} bytes to one partition, acks=all, "
        f"{IN_FLIGHT} requests on their way"
    )
    with WireClient(broker.host, broker.port) as client:
        topic = client.create_topic()
    places = {"to the broker": broker.address, "to its own mock": None}
    contestants = {
        f"{kind} {place}": _producing(address, topic, count, is_idempotent=kind == "idempotent")
        for place, address in places.items()
        for kind in ("plain", "idempotent")
    }
    samples = scale.sampled(contestants, times=2)
    for place in places:
        pair = {kind: samples[f"{kind} {place}"] for kind in ("plain", "idempotent")}
        add_figure(report, f"plain, {place}", pair["plain"], "s")
        add_figure(report, f"idempotent, {place}", pair["idempotent"], "s")
        add_figure(report, "  what idempotence costs", _cost(pair), "%")
    return report


def _producing(
    address: str | None, topic: str, count: int, *, is_idempotent: bool
) -> Callable[[], float]:
    value = CHANCE.randbytes(VALUE_SIZE)

    def once() -> float:
        settings = {"enable.idempotence": is_idempotent, PER_CONNECTION: IN_FLIGHT}
        producer = clients.producer(address, **settings)
        # It looks for its producer id every half second: that is not what is measured.
        producer.produce(topic, value, partition=0)
        producer.flush(TIMEOUT_S)
        started = perf_counter()
        clients.produce_all(producer, topic, value, count)
        return perf_counter() - started

    return once
