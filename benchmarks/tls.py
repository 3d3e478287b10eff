"""What TLS costs: throughput beside plain connections, handshakes, memory, and strangers that begin
handshakes and go no further.

Client and broker share the machine, and the client encrypts too: with both on few cores a ratio of
rates is that of all work, the client's included.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from tests.support.ports import free_port

from benchmarks import clients
from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.logs import CHANCE
from benchmarks.measuring import MEGABYTE, Samples, Scale, percentile, warm_memory
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.requests import one_by_one
from benchmarks.wire import Producing, WireClient

MESSAGES = 300_000
VALUE_SIZE = 1000
IDLE = 500
HANDSHAKES = 300
HALF_DONE = 1000
WORK = 2000
TIMEOUT_S = 60.0


class TlsOttla(Ottla):
    """With a plain listener, and one with TLS."""

    name = "ottla"

    def __init__(self, keystore: Path) -> None:
        super().__init__(("ottla.authentication.timeout.ms=600000",))
        self._keystore = keystore
        self.plain, self.tls = free_port(), free_port()

    def command(self, directory: Path, port: int) -> list[str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.plain},SSL://127.0.0.1:{self.tls}"
        given = (f"listeners={listeners}", f"ssl.keystore.location={self._keystore}")
        settings = [part for one in given for part in ("-o", one)]
        command = super().command(directory, port)
        at = command.index("--listen")
        return [*command[:at], *settings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One of the two listeners; `context` is that of a client of the one with TLS."""

    broker: RunningBroker
    plain_port: int
    settings: dict[str, str]
    context: ssl.SSLContext | None = None


def run(scale: Scale) -> Iterator[Report]:
    from tests.support.certificates import authority, client_context

    with scale.data_directory() as directory, contextlib.ExitStack() as stack:
        keystore = authority().server().write(directory / "server.pem")
        trusted = authority().write(directory / "ca.pem")
        peer = TlsOttla(keystore)
        started = stack.enter_context(peer.start(directory / "data"))
        plain = Contestant(
            broker=replace(started, host="127.0.0.1", port=peer.plain),
            plain_port=peer.plain,
            settings={},
        )
        tls = Contestant(
            broker=replace(started, host="127.0.0.1", port=peer.tls),
            plain_port=peer.plain,
            settings={"security.protocol": "ssl", "ssl.ca.location": str(trusted)},
            context=client_context(authority()),
        )
        if (reason := clients.absence()) is None:
            yield _throughput(scale, directory, plain, tls)
        else:
            yield Report("Throughput", ("left out",), notes=[f"{reason}."])
        yield _connections(scale, plain, tls)
        yield _strangers(scale, plain, tls)


def _throughput(scale: Scale, directory: Path, plain: Contestant, tls: Contestant) -> Report:
    count = scale.of(MESSAGES, 50)
    value = CHANCE.randbytes(VALUE_SIZE)
    memory = scale.of(count * VALUE_SIZE * 2, 1)

    def measure(one: Contestant) -> tuple[float, float]:
        warm_memory(directory, memory)
        return _rates(one, value, count)

    contestants: dict[str, Callable[[], tuple[float, float]]] = {
        "plain": lambda: measure(plain),
        "TLS": lambda: measure(tls),
    }
    runs = scale.take_turns(contestants)
    report = figures_report(f"{count:,} messages of {VALUE_SIZE:,} bytes, one partition, acks=all")
    share = Target(limit=0.4, unit="", is_minimum=True)
    for number, deed in enumerate(("produce", "consume")):
        rates = {
            name: Samples(tuple(one[number] * VALUE_SIZE / MEGABYTE for one in all_))
            for name, all_ in runs.items()
        }
        for name, samples in rates.items():
            add_figure(report, f"{deed}, {name}", samples, "MB/s")
        add_figure(report, f"{deed}, TLS over plain", rates["TLS"].over(rates["plain"]), "", share)
    return report


def _rates(one: Contestant, value: bytes, count: int) -> tuple[float, float]:
    """Messages per second, produced and consumed."""
    with WireClient(one.broker.host, one.plain_port) as client:
        topic = client.create_topic()
    target = clients.producer(one.broker.address, **one.settings)
    clients.produce_all(target, topic, value, 1)  # connects, and waits for the leader
    started = perf_counter()
    clients.produce_all(target, topic, value, count)
    produced = count / (perf_counter() - started)
    source = clients.consumer(one.broker.address, **one.settings)
    try:
        source.list_topics(topic, timeout=30)  # connects
        started = perf_counter()
        clients.read_from(source, topic, 0)
        clients.consume_all(source, count + 1, (count + 1) * len(value))
        return produced, count / (perf_counter() - started)
    finally:
        source.close()


def _connections(scale: Scale, plain: Contestant, tls: Contestant) -> Report:
    idle, handshakes = scale.of(IDLE, 5), scale.of(HANDSHAKES, 5)
    report = figures_report("Connections with TLS 1.3, keys of ECDSA P-256")
    sizes = {name: _bytes_of_each(one, idle) for name, one in (("plain", plain), ("TLS", tls))}
    for name, size in sizes.items():
        target = Target(limit=60, unit="KB") if name == "TLS" else None
        if size is not None:
            add_figure(
                report, f"memory, {name}, of {idle:,}", Samples((size / 1000,)), "KB", target
            )
    rates = tuple(_handshakes_in_a_second(tls, handshakes) for _ in range(scale.rounds))
    known = tuple(one for one in rates if one is not None)
    if known:
        target = Target(limit=500, unit="/s", is_minimum=True)
        add_figure(report, "handshakes, of processor time", Samples(known), "/s", target)
    return report


def _secured(one: Contestant) -> socket.socket:
    peer = socket.create_connection((one.broker.host, one.broker.port), TIMEOUT_S)
    if one.context is None:
        return peer
    return one.context.wrap_socket(peer, server_hostname="localhost")


def _bytes_of_each(one: Contestant, count: int) -> float | None:
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            _ask(stack.enter_context(_secured(one)))
        before = one.broker.cost()
        for _ in range(count):
            _ask(stack.enter_context(_secured(one)))
        after = one.broker.cost()
    if before is None or after is None:
        return None
    return (after.resident_bytes - before.resident_bytes) / count


API_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"
"""In version 0, without a client id."""


def _ask(peer: socket.socket) -> None:
    peer.sendall(API_VERSIONS)
    if not peer.recv(4096):
        raise RuntimeError("the broker closed a connection")


def _handshakes_in_a_second(one: Contestant, count: int) -> float | None:
    """Of the broker's processor time, its threads' together. All clients take each step together.

    Otherwise the loop would look for the next message, and spend time on it, while a client works.
    """
    with contextlib.ExitStack() as stack:
        address = (one.broker.host, one.broker.port)
        peers = [
            stack.enter_context(contextlib.closing(_Handshake(one, address))) for _ in range(count)
        ]
        before = one.broker.cost()
        for step in (_Handshake.begin, _Handshake.finish, _Handshake.ask):
            for peer in peers:
                step(peer)
        after = one.broker.cost()
    if before is None or after is None or after.cpu_seconds == before.cpu_seconds:
        return None
    return count / (after.cpu_seconds - before.cpu_seconds)


class _Handshake:
    """A client's, one message at a time."""

    def __init__(self, one: Contestant, address: tuple[str, int]) -> None:
        assert one.context is not None
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._secured = one.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )

    def begin(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._secured.do_handshake()
        self._socket.sendall(self._outgoing.read())

    def finish(self) -> None:
        while True:
            try:
                self._secured.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._incoming.write(self._socket.recv(65536))
        self._socket.sendall(self._outgoing.read())

    def ask(self) -> None:
        self._secured.write(API_VERSIONS)
        self._socket.sendall(self._outgoing.read())
        while True:
            try:
                self._secured.read(4096)
                return
            except ssl.SSLWantReadError:
                self._incoming.write(self._socket.recv(65536))

    def close(self) -> None:
        self._socket.close()


def _strangers(scale: Scale, plain: Contestant, tls: Contestant) -> Report:
    count, work = scale.of(HALF_DONE, 5), scale.of(WORK, 5)
    hello = _client_hello(tls)
    producing = Producing(plain.broker.host, plain.broker.port)
    samples: dict[str, list[float]] = {"alone": [], "while they begin": [], "beside them": []}

    def measure(when: str) -> None:
        samples[when].append(percentile(one_by_one(producing, work), 99) * 1e6)

    with contextlib.closing(producing):
        one_by_one(producing, work)
        for _ in range(scale.rounds):
            measure("alone")
            with contextlib.ExitStack() as stack:
                for _ in range(count):
                    address = (tls.broker.host, tls.broker.port)
                    stranger = stack.enter_context(socket.create_connection(address, TIMEOUT_S))
                    stranger.sendall(hello)
                measure("while they begin")
                measure("beside them")
    report = figures_report(f"One-record requests beside {count:,} half-done handshakes")
    for when, all_ in samples.items():
        add_figure(report, f"p99 {when}", Samples(tuple(all_)), "us")
    for when in ("while they begin", "beside them"):
        ratio = Samples(tuple(samples[when])).over(Samples(tuple(samples["alone"])))
        add_figure(report, f"{when}, over alone", ratio, "", Target(limit=2, unit=""))
    report.notes.append(f"Each has sent its first message of {len(hello)} bytes, and no other.")
    return report


def _client_hello(one: Contestant) -> bytes:
    assert one.context is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = one.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        secured.do_handshake()
    return outgoing.read()
