"""One-record produce requests, which cost a broker most for the bytes they carry.

By a client that does next to nothing: on one connection with one request in flight, on many
connections with one each, and pipelined on one connection. The client has the second core.
"""

import selectors
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.measuring import (
    MEGABYTE,
    Samples,
    Scale,
    figure,
    percentile,
    warm_memory,
)
from benchmarks.report import Report
from benchmarks.wire import RECEIVE_SIZE, Producing

BLOCK = 64
"""Requests that leave in one call, pipelined; two blocks are under way at any time."""

CONNECTIONS = 16
WARM_SIZE = 200 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement of one broker."""

    requests_per_second: float
    broker_microseconds: float | None
    p50_us: float = 0.0
    p99_us: float = 0.0


def run(scale: Scale) -> Iterator[Report]:
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        notes.append(
            "Processor time is the broker's own, in steps of 10 ms; the client has the other core."
        )
        for title, count, exchange in (
            ("one connection, one request in flight", scale.of(20_000, 20), one_by_one),
            (f"{CONNECTIONS} connections, one in flight each", scale.of(100_000, 64), _spread),
            ("one connection, pipelined", scale.of(200_000, 2 * BLOCK), _pipelined),
        ):
            contestants = {
                broker.name: lambda broker=broker: _measure(broker, exchange, count)  # noqa: B023
                for broker in brokers
            }
            warm_memory(directory, scale.of(WARM_SIZE, 1))
            runs = scale.take_turns(contestants)
            report = _report(f"One-record produce requests, acks=all: {title}", runs)
            report.notes.extend(_memory(brokers))
            yield report
        report.notes.extend(notes)


def _measure(
    broker: RunningBroker, exchange: Callable[[Producing, int], list[float]], count: int
) -> Run:
    producing = Producing(broker.host, broker.port)
    try:
        producing.sockets(CONNECTIONS)
        before = broker.cost()
        started = perf_counter()
        latencies = exchange(producing, count)
        seconds = perf_counter() - started
        after = broker.cost()
        producing.check(count)
    finally:
        producing.close()
    spent = None if before is None or after is None else after.cpu_seconds - before.cpu_seconds
    return Run(
        requests_per_second=count / seconds,
        broker_microseconds=None if spent is None else spent / count * 1e6,
        p50_us=percentile(latencies, 50) * 1e6 if latencies else 0.0,
        p99_us=percentile(latencies, 99) * 1e6 if latencies else 0.0,
    )


def one_by_one(producing: Producing, count: int) -> list[float]:
    """The seconds that each took, with one request in flight."""
    (peer,) = producing.sockets(1)
    frame, size = producing.frame, producing.answer_size
    latencies = []
    for _ in range(count):
        started = perf_counter()
        peer.sendall(frame)
        left = size
        while left:
            left -= _received(peer, left)
        latencies.append(perf_counter() - started)
    return latencies


def _spread(producing: Producing, count: int) -> list[float]:
    peers = producing.sockets(CONNECTIONS)
    frame, size = producing.frame, producing.answer_size
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer, selectors.EVENT_READ)
            peer.sendall(frame)
        sent, received = len(peers), 0
        while received < count * size:
            for key, _ in selector.select():
                answered = key.fileobj
                assert isinstance(answered, socket.socket)
                # Answers this small come whole.
                received += _received(answered, size)
                if sent < count:
                    answered.sendall(frame)
                    sent += 1
    return []


def _pipelined(producing: Producing, count: int) -> list[float]:
    assert count % BLOCK == 0
    (peer,) = producing.sockets(1)
    block = producing.frame * BLOCK
    left = count * producing.answer_size
    unsent = count // BLOCK
    for _ in range(2):
        peer.sendall(block)
        unsent -= 1
    answered = 0
    while left:
        got = _received(peer, RECEIVE_SIZE)
        left -= got
        answered += got
        while unsent and answered >= BLOCK * producing.answer_size:
            answered -= BLOCK * producing.answer_size
            peer.sendall(block)
            unsent -= 1
    return []


def _received(peer: socket.socket, size: int) -> int:
    got = len(peer.recv(size))
    if got == 0:
        raise ConnectionError("the broker closed the connection")
    return got


def _report(title: str, runs: dict[str, list[Run]]) -> Report:
    has_latencies = any(one.p50_us for all_ in runs.values() for one in all_)
    columns = ["broker", "requests/s", "from ... to", "broker CPU us each"]
    report = Report(title, (*columns, "p50 us", "p99 us") if has_latencies else columns)
    for name, all_ in runs.items():
        rates = Samples(tuple(one.requests_per_second for one in all_))
        cells = [name, figure(rates.median), rates.spread, _broker_time(all_)]
        if has_latencies:
            cells.append(figure(Samples(tuple(one.p50_us for one in all_)).median))
            cells.append(figure(Samples(tuple(one.p99_us for one in all_)).median))
        report.add(*cells)
    return report


def _broker_time(runs: list[Run]) -> str:
    known = tuple(one.broker_microseconds for one in runs if one.broker_microseconds is not None)
    return figure(Samples(known).median) if known else "-"


def _memory(brokers: list[RunningBroker]) -> list[str]:
    costs = [(broker.name, broker.cost()) for broker in brokers]
    texts = [f"{name} {figure(cost.resident_bytes / MEGABYTE)} MB" for name, cost in costs if cost]
    return [f"Memory now: {', '.join(texts)}."] if texts else []
