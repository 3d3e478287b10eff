"""One trial: a broker behind a proxy, clients of several roles, and what is done to all of them.

The seed decides what is done and in which order; real processes do not repeat themselves to the
byte, so a seed that found something is worth some more runs.
"""

import contextlib
import logging
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.history import (
    Assign,
    LogEnd,
    Operation,
    Poll,
    Read,
    read_history,
)
from tests.histories.clients import OUTPUT, PARTITIONS, PATIENCE_S, TOPIC, Silence
from tests.histories.clocks import HOUR_MS, WallClock, wrong_ms
from tests.histories.proxy import Mischief, Proxy
from tests.integration.cli.support import ENVIRONMENT
from tests.support import patience
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
WITH_TESTS = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.segment.bytes": "40000",
    "offsets.topic.num.partitions": "2",
    # Whoever is unheard of for an hour is forgotten: no clock that is set makes that of a second.
    "producer.id.expiration.ms": str(HOUR_MS),
    "producer.id.expiration.check.interval.ms": "100",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "2",
    "transactional.id.expiration.ms": str(HOUR_MS),
}

IDEMPOTENT = ("producer", "producer", "consumer", "committed")
TRANSACTIONAL = ("transactional", "transactional", "producer", "consumer", "committed")
JAVA_TRANSACTIONAL = ("java_transactional", "java_transactional", "consumer", "committed")
JAVA_PAUSES_S = (1.0, 3.0)
"""A Java machine has to start before it does anything."""
EXACTLY_ONCE = ("transactional", "transformer", "transformer", "committed")
GROUP_PAUSES_S = (0.6, 2.5)
"""A group has to come together before it does anything."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RunningClient:
    """One slot of a trial; each process in it has a name of its own."""

    role: str
    slot: str
    lives: int = 0
    process: subprocess.Popen[bytes] | None = None


class Broker:
    """`ottla serve` behind a proxy, on the same ports and by the same clock in every life."""

    def __init__(self, directory: Path, port: int, advertised_port: int) -> None:
        options = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised_port}"}
        self.clock = WallClock(directory.with_name("clock"))
        self._command = [sys.executable, "-m", "tests.histories.stepped_broker"]
        self._command += [str(self.clock.path), "--data-dir", str(directory)]
        self._command += ["--listen", f"127.0.0.1:{port}"]
        self._command += [word for one in options.items() for word in ("-o", "=".join(one))]
        self._errors = directory.with_name("broker.log").open("ab")
        self.process = self._start()

    def kill(self) -> None:
        self._check()
        self.process.kill()
        self._end()
        self.process = self._start()

    def pause(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._check()
        self.process.terminate()
        self._end()
        self._errors.close()

    def _check(self) -> None:
        """It is still there, unless it was killed here."""
        code = self.process.poll()
        assert code is None, f"it ended by itself, {code}: {Path(self._errors.name).read_text()}"

    def _end(self) -> None:
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=WITH_TESTS,
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready "), "see broker.log"
        return process


@dataclass(slots=True)
class Trial:
    """Runs once; `history` is what the clients told, and a last reader."""

    directory: Path
    seed: int
    seconds: float
    roles: tuple[str, ...]
    pauses_s: tuple[float, float] = (0.2, 1.0)
    """How long the trial lets them work between two deeds of its own."""
    mischief: Mischief = field(default_factory=Mischief)
    done: Counter[str] = field(default_factory=Counter)
    is_enough: Callable[[list[Operation], Counter[str]], bool] = lambda *_: True
    """Asked when the time is over: a slow machine is given twice as much, while it may wait."""
    _clients: list[RunningClient] = field(default_factory=list)
    _until: float = 0.0
    _slowness: int = 1

    def run(self) -> list[Operation]:
        port = free_port()
        proxy = Proxy(("127.0.0.1", port), self.seed, self.mischief)
        with contextlib.ExitStack() as stack:
            stack.callback(proxy.close)
            broker = Broker(self.directory / "data", port, proxy.port)
            stack.callback(broker.close)
            stack.callback(self._kill_clients)
            create_topics(f"127.0.0.1:{port}")
            self._let_run(broker, proxy)
            proxy.is_calm = True
            self._wait_for_clients()
            broker.kill()
            last = read_all(f"127.0.0.1:{proxy.port}")
        self.done += proxy.done
        return [*self._told(), *last]

    def _told(self) -> list[Operation]:
        return read_history(sorted(self.directory.glob("*.history")))

    def _let_run(self, broker: Broker, proxy: Proxy) -> None:
        address = f"127.0.0.1:{proxy.port}"
        chance = random.Random(self.seed)
        started = time.monotonic()
        self._until = started + self.seconds
        proxy.is_calm = False
        for number, role in enumerate(self.roles):
            self._clients.append(RunningClient(role, f"{role}{number}"))
            self._start(self._clients[-1], address)
        while self._continues(started + self.seconds + patience.PATIENCE_S, proxy):
            for client in self._clients:
                if client.process is None or client.process.poll() is not None:
                    self.done["ended by itself"] += 1
                    self._start(client, address)
            time.sleep(chance.uniform(*self.pauses_s) * self._slowness)
            self._set_clock(broker.clock, chance)
            deed = chance.choices(("kill", "pause", "kill_client", "nothing"), (4, 2, 4, 2))[0]
            self.done[deed] += 1
            logger.info("%s", deed)
            if deed == "kill":
                broker.kill()
            elif deed == "pause":
                broker.pause(chance.uniform(0.05, 0.7))
            elif deed == "kill_client":
                client = chance.choice(self._clients)
                end(client, signal.SIGKILL)
                self._start(client, address)

    def _continues(self, deadline: float, proxy: Proxy) -> bool:
        now = time.monotonic()
        if now < self._until:
            return True
        if now > deadline or self.is_enough(self._told(), self.done + proxy.done):
            return False
        self.done["extended"] += 1
        self._slowness *= 2
        self._until = now + self.seconds * self._slowness
        return True

    def _set_clock(self, clock: WallClock, chance: random.Random) -> None:
        """Forwards or back, now and then to where it belongs."""
        fast_ms = wrong_ms(chance)
        clock.set(fast_ms)
        self.done["clock set"] += 1
        logger.info("the broker's clock is %.1f hours fast", fast_ms / HOUR_MS)

    def _start(self, client: RunningClient, address: str) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            return
        name = f"{client.slot}.{client.lives}"
        client.lives += 1
        arguments = [client.role, name, str(self.directory / f"{name}.history"), address]
        with (self.directory / "clients.log").open("ab") as errors:
            client.process = subprocess.Popen(
                [
                    sys.executable, "-m", "tests.histories.clients", *arguments,
                    str(self.seed + client.lives), str(left),
                ],
                stderr=errors,
                cwd=ROOT,
                env=WITH_TESTS,
            )  # fmt: skip

    def _wait_for_clients(self) -> None:
        until = time.monotonic() + PATIENCE_S
        for client in self._clients:
            if client.process is not None:
                try:
                    client.process.wait(max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    self.done["did not end"] += 1
                    logger.warning("%s does not end", client.slot)

    def _kill_clients(self) -> None:
        for client in self._clients:
            end(client, signal.SIGKILL)


def end(client: RunningClient, how: signal.Signals) -> None:
    if client.process is not None:
        client.process.send_signal(how)
        client.process.wait(PATIENCE_S)


def create_topics(address: str, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": address}, logger=Silence())
    futures = admin.create_topics(
        [
            NewTopic(name, num_partitions=PARTITIONS, config=dict(config or {}))
            for name in (TOPIC, OUTPUT)
        ]
    )
    for future in futures.values():
        future.result(PATIENCE_S)


def read_all(address: str) -> list[Operation]:
    """Everything, as read_committed, once all is quiet: whatever was open has ended or timed out.

    Uncommitted consumers of the trial see the rest. Begins with where each log ends.
    """
    places = [
        TopicPartition(topic, one, 0) for topic in (TOPIC, OUTPUT) for one in range(PARTITIONS)
    ]
    told, ends = _log_ends(address, places)
    consumer = last_reader(address, "read_committed")
    begun = time.monotonic_ns()
    consumer.assign(places)
    told.append(
        Assign(
            process="last",
            began=begun,
            ended=time.monotonic_ns(),
            positions={f"{one.topic}-{one.partition}": 0 for one in places},
        )
    )
    told += _read_up_to(consumer, ends)
    consumer.close()
    return told


def last_reader(address: str, isolation: str) -> Consumer:
    config = {
        "bootstrap.servers": address,
        "group.id": "the last",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "error",
    }
    return Consumer(config, logger=Silence())


def _log_end(consumer: Consumer, place: TopicPartition) -> int:
    """Librdkafka gives up at once when it notices only then that its connection was cut."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            _, end = consumer.get_watermark_offsets(place, PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TRANSPORT or time.monotonic() > deadline:
                raise
        else:
            return int(end)


def _log_ends(
    address: str, places: list[TopicPartition]
) -> tuple[list[Operation], dict[tuple[str, int], int]]:
    """A consumer that is read_committed is told the last stable offset instead."""
    told: list[Operation] = []
    ends: dict[tuple[str, int], int] = {}
    consumer = last_reader(address, "read_uncommitted")
    for one in places:
        began = time.monotonic_ns()
        end = _log_end(consumer, one)
        ends[one.topic, one.partition] = end
        told.append(
            LogEnd(
                process="last",
                began=began,
                ended=time.monotonic_ns(),
                partition=f"{one.topic}-{one.partition}",
                offset=end,
            )
        )
    consumer.close()
    return told, ends


def _read_up_to(consumer: Consumer, ends: dict[tuple[str, int], int]) -> list[Operation]:
    told: list[Operation] = []
    positions = {f"{topic}-{one}": 0 for topic, one in ends}
    until = time.monotonic() + PATIENCE_S
    while any(positions[f"{topic}-{one}"] < end for (topic, one), end in ends.items()):
        assert time.monotonic() < until, f"read_committed stands at {positions}, logs end at {ends}"
        began, reads = time.monotonic_ns(), []
        for message in consumer.consume(500, 0.2):
            where = f"{message.topic()}-{message.partition()}"
            error = message.error()
            if error is None:
                reads.append(Read(where, message.offset(), message.value().decode()))
                positions[where] = message.offset() + 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                positions[where] = message.offset()
        told.append(
            Poll(
                process="last", began=began, ended=time.monotonic_ns(), records=tuple(reads),
                is_committed=True, positions=dict(positions),
            )
        )  # fmt: skip
    return told
