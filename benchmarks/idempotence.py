"""What idempotence costs: the broker, by frames made beforehand, and clients, with it and without.

A batch that carries a producer id and a sequence number is the same batch otherwise, so the frames
show what the broker does for these. A client may send other batches at other times when it is
idempotent; librdkafka shows its own part in that against the mock cluster in its own process, in
which no broker has one, and against other brokers.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time, thread_time_ns
from typing import NamedTuple

from benchmarks.brokers import Ottla, RunningBroker, started_brokers
from benchmarks.idempotent_clients import CLIENTS, IN_BATCHES, IN_FLIGHT, VALUE, Client
from benchmarks.logs import batch_of, new_log, now_ms, open_logs
from benchmarks.machine import first_thread_seconds
from benchmarks.measuring import Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import ACKS_ALL, RECEIVE_SIZE, WireClient, decode, frame_of
from ottla.base.files import Buffer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.log.partition_log import PartitionLog

VALUE_SIZE = len(VALUE)
SHAPES = {"1 record": (1, 500), "100 records": (100, 200), "9,000 records": (9000, 4)}
"""Records in a batch, and how many batches at a time; librdkafka fills them up to a megabyte."""

BURST_TIMES = 200
"""Of all rounds: short bursts in turns, so that both have the same caches and neighbours."""

APPEND_TIMES = 200
CLIENT_TIMES = 3
"""Of all rounds, since clients spread widely."""

VERSION = 9
PRODUCER_ID = 7

COST_TARGET = Target(limit=5, unit="%")


def run(scale: Scale) -> Iterator[Report]:
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, _),
    ):
        ours, *peers = brokers
        yield _by_appends(scale, directory / "appends")
        yield _by_frames(scale, ours)
        yield _by_clients(scale, ours, peers)


def _by_appends(scale: Scale, directory: Path) -> Report:
    """In this process, so that a difference shows which the rest of a request would hide."""
    logs = open_logs(directory)
    both = {
        name: Appends(new_log(logs, name), producer_id)
        for name, producer_id in (("plain", -1), ("idempotent", PRODUCER_ID))
    }
    count = scale.of(200, 10)
    contestants = {name: partial(one.burst, count) for name, one in both.items()}
    samples = scale.sampled(contestants, times=scale.of(APPEND_TIMES, 4))
    logs.abandon()
    pairs = zip(samples["idempotent"].values, samples["plain"].values, strict=True)
    more = Samples(tuple(idempotent - plain for idempotent, plain in pairs))
    report = figures_report(f"Appends of one-record batches, {count} of each kind in turns")
    add_figure(report, "append, without a write_out", samples["plain"], "us")
    add_figure(report, "  with a producer id", samples["idempotent"], "us")
    add_figure(report, "  what that costs", more, "us")
    return report


class Appends:
    """One-record batches of one producer into a log."""

    def __init__(self, log: PartitionLog, producer_id: int) -> None:
        self._log = log
        self._producer_id = producer_id
        self._next = 0

    def burst(self, count: int) -> float:
        """Microseconds of processor time for each."""
        is_idempotent = self._producer_id >= 0
        batches = [
            batch_of(
                1,
                VALUE_SIZE,
                producer_id=self._producer_id,
                producer_epoch=0 if is_idempotent else -1,
                base_sequence=self._next + number if is_idempotent else -1,
            )
            for number in range(count)
        ]
        self._next += count
        time_ms = now_ms()
        started = thread_time_ns()
        for batch in batches:
            self._log.writer.append_as_leader(batch, leader_epoch=0, now_ms=time_ms)
        spent = thread_time_ns() - started
        self._log.writer.write_out()
        return spent / count / 1000


def _by_frames(scale: Scale, broker: RunningBroker) -> Report:
    report = figures_report(
        f"Produce requests made beforehand, records of {VALUE_SIZE} bytes, {IN_FLIGHT} on their "
        "way: the broker's processor time for each"
    )
    for name, (records, burst) in SHAPES.items():
        count = scale.of(burst, IN_FLIGHT + 2)
        with Stream(broker, records) as plain, Stream(broker, records, PRODUCER_ID) as idempotent:
            contestants = {
                "plain": partial(plain.burst, count),
                "idempotent": partial(idempotent.burst, count),
            }
            samples = scale.sampled(contestants, times=scale.of(BURST_TIMES, 4))
        add_figure(report, f"batches of {name}, plain", samples["plain"], "us")
        add_figure(report, "  with a producer id", samples["idempotent"], "us")
        add_figure(report, "  what that costs", _cost(samples), "%", COST_TARGET)
    return report


class Stream:
    """Requests of one producer, on a connection and to a topic of their own."""

    def __init__(self, broker: RunningBroker, records: int, producer_id: int = -1) -> None:
        self._broker = broker
        self._records = records
        self._producer_id = producer_id
        self._sent_count = 0
        first = batch_at(batch_of(records, VALUE_SIZE))
        self._payload, self._timestamp_ms = first.payload, first.max_timestamp_ms
        self._client = WireClient(broker.host, broker.port)
        self._topic = self._client.create_topic()
        self._answer_size = _ask(self._client, self._next_frame())

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        """The last answer is looked at: had one been refused, so would this be."""
        _ask(self._client, self._next_frame())
        self._client.socket.close()

    def burst(self, count: int) -> float:
        """The broker's microseconds for each of `count` requests.

        Ottla serves in one thread. Where its time is not to be had, the wall's is taken.
        """
        frames = [self._next_frame() for _ in range(count)]
        started = _seconds(self._broker)
        _exchange(self._client, frames, self._answer_size)
        return (_seconds(self._broker) - started) / count * 1e6

    def _next_frame(self) -> bytes:
        is_idempotent = self._producer_id >= 0
        builder = RecordBatchBuilder(
            producer_id=self._producer_id,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=self._sent_count * self._records if is_idempotent else -1,
        )
        builder.append_packed(
            self._payload,
            self._records,
            base_timestamp_ms=self._timestamp_ms,
            max_timestamp_ms=self._timestamp_ms,
        )
        self._sent_count += 1
        return _frame(self._topic, builder.build(last_offset=self._records - 1))


def _cost(samples: dict[str, Samples]) -> Samples:
    """How much more time it takes, in percent, round by round."""
    ratios = samples["idempotent"].over(samples["plain"]).values
    return Samples(tuple(100 * (ratio - 1) for ratio in ratios))


def _seconds(broker: RunningBroker) -> float:
    spent = first_thread_seconds(broker.pid)
    return perf_counter() if spent is None else spent


def _frame(topic: str, batch: Buffer) -> bytes:
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


def _by_clients(scale: Scale, broker: RunningBroker, peers: Sequence[RunningBroker]) -> Report:
    report = figures_report(
        f"Clients, messages of {len(VALUE)} bytes to one partition, acks=all, {IN_FLIGHT} requests "
        "on their way"
    )
    for client in CLIENTS:
        if importlib.util.find_spec(client.needs) is None:
            report.notes.append(f"{client.name} is left out: {client.needs} is not installed.")
            continue
        _add_client(report, scale, broker, client)
    if importlib.util.find_spec(IN_BATCHES.needs):
        for other in (*peers, None):
            _add_client(report, scale, other, IN_BATCHES)
    return report


def _add_client(report: Report, scale: Scale, broker: RunningBroker | None, client: Client) -> None:
    """What idempotence costs is the median of the rounds' ratios, not a ratio of medians."""
    count = scale.of(client.message_count, 50)
    contestants = {
        kind: partial(_produced, broker, client, count, is_idempotent=kind == "idempotent")
        for kind in ("plain", "idempotent")
    }
    runs = scale.take_turns(contestants, times=scale.of(CLIENT_TIMES, 1))
    rates = {kind: Samples(tuple(one.rate for one in all_)) for kind, all_ in runs.items()}
    shares = rates["idempotent"].over(rates["plain"]).values
    slower = Samples(tuple(100 * (1 - share) for share in shares))
    is_ours = broker is not None and broker.name == Ottla.name
    name = client.name if is_ours else f"{client.name}, to {broker.name if broker else 'its mock'}"
    add_figure(report, f"{name}, plain", rates["plain"], "k/s")
    add_figure(report, "  idempotent", rates["idempotent"], "k/s")
    add_figure(report, "  what that costs of the throughput", slower, "%", COST_TARGET)
    for who in ("client", "broker") if is_ours else ("client",):
        cpu = {kind: Samples(tuple(one.cpu_us[who] for one in all_)) for kind, all_ in runs.items()}
        add_figure(report, f"  {who}'s processor time for 1,000, plain", cpu["plain"], "us")
        add_figure(report, "    idempotent", cpu["idempotent"], "us")
        add_figure(report, f"    what that costs of the {who}'s", _cost(cpu), "%")


class Run(NamedTuple):
    """Thousands of messages a second, and the microseconds of "client" and "broker" for as many."""

    rate: float
    cpu_us: dict[str, float]


def _produced(
    broker: RunningBroker | None, client: Client, count: int, *, is_idempotent: bool
) -> Run:
    topic = "mock"
    if broker is not None:
        with WireClient(broker.host, broker.port) as wire:
            topic = wire.create_topic()
    address = None if broker is None else broker.address
    with client.open(address, topic, is_idempotent=is_idempotent) as send:
        send(1)
        before = _cpu_seconds(broker)
        seconds = seconds_of(lambda: send(count))
        after = _cpu_seconds(broker)
    spent = {who: (after[who] - before[who]) / count * 1e9 for who in after}
    return Run(count / seconds / 1000, spent)


def _cpu_seconds(broker: RunningBroker | None) -> dict[str, float]:
    """The client's are those of this process, with all its threads."""
    return {"client": process_time(), "broker": 0.0 if broker is None else _seconds(broker)}
