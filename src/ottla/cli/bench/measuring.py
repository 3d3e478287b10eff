"""Producing, consuming and the latency of single records, measured on a topic that is removed."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import ottla
from ottla.base.errors import UserError
from ottla.base.values import dataclass

MEGABYTE = 1e6
PATIENCE_S = 60.0
CHUNK = 1000
WARM_UP = 20
"""Records sent before the measurement, while connections are made and code is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load to send; `size` is bytes of a record's value."""

    count: int
    size: int
    partitions: int
    latencies: int
    """Records that are sent one at a time, each after the previous one is acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results: seconds for all records, and milliseconds for each single one."""

    produce_s: float
    consume_s: float
    latencies_ms: tuple[float, ...]

    def percentile_ms(self, percent: float) -> float:
        """Returns the smallest latency that at least this percentage of the records does not
        exceed.
        """
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


Say = Callable[[str, int, int], None]
"""Called with the activity, the amount done and the total."""


def measure(target: str, settings: Mapping[str, str], load: Load, say: Say) -> Figures:
    """Runs the whole measurement; raises `UserError`, and errors that the target returns."""
    with _topic(target, settings, load.partitions) as topic:
        return Figures(
            latencies_ms=_latencies_ms(target, settings, topic, load, say),
            produce_s=_produce(target, settings, topic, load, say),
            consume_s=_consume(target, settings, topic, load, say),
        )


@contextmanager
def _topic(target: str, settings: Mapping[str, str], partitions: int) -> Iterator[str]:
    name = f"ottla-bench-{os.getpid()}"
    with ottla.Admin(target, settings) as admin:
        admin.create_topic(name, partitions=partitions)
        try:
            yield name
        finally:
            admin.delete_topics([name])


def _latencies_ms(
    target: str, settings: Mapping[str, str], topic: str, load: Load, say: Say
) -> tuple[float, ...]:
    value = os.urandom(load.size)
    found = []
    # A record that waits for a fuller batch would measure the linger time.
    with ottla.Producer(target, settings={**settings, "linger.ms": "0"}) as producer:
        for number in range(-WARM_UP, load.latencies):
            began = time.perf_counter()
            producer.send(topic, value, partition=0).result(PATIENCE_S)
            if number >= 0:
                found.append((time.perf_counter() - began) * 1000)
                say("latency", number + 1, load.latencies)
    return tuple(found)


def _produce(target: str, settings: Mapping[str, str], topic: str, load: Load, say: Say) -> float:
    value = os.urandom(load.size)
    with ottla.Producer(target, settings=settings) as producer:
        producer.send(topic, value, partition=0).result(PATIENCE_S)
        began = time.perf_counter()
        last = None
        for number in range(load.count):
            last = producer.send(topic, value, partition=number % load.partitions)
            if number % CHUNK == 0:
                say("produce", number, load.count)
        producer.flush()
        produce_s = time.perf_counter() - began
        assert last is not None
        last.result(PATIENCE_S)  # get() raises if the record was refused
    return produce_s


def _consume(target: str, settings: Mapping[str, str], topic: str, load: Load, say: Say) -> float:
    places = [ottla.TopicPartition(topic, number) for number in range(load.partitions)]
    wanted = load.count + load.latencies + WARM_UP + 1
    given = {**settings, "auto.offset.reset": "earliest"}
    with ottla.Consumer(target, settings=given) as consumer:
        consumer.assign(places)
        began = time.perf_counter()
        count = 0
        while count < wanted:
            found = len(consumer.consume(min(CHUNK, wanted - count), PATIENCE_S))
            if not found:
                raise UserError(f"{target}: {count} of {wanted} records came in {PATIENCE_S:.0f} s")
            count += found
            say("consume", count, wanted)
        # As for as many records as were produced.
        return (time.perf_counter() - began) * load.count / wanted
