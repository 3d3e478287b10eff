"""Spark's standalone cluster on this machine: a master and workers, out of PySpark's wheel."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ottla.spark.java import find_java
from ottla.spark.session import OPENED_PACKAGES, spark_home
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
}
HOST = "127.0.0.1"
LOOK_AGAIN_S = 0.2
WITHOUT = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
"""Begins a command for which an empty directory lies over another; root alone may."""


@contextmanager
def standalone_cluster(
    directory: Path, worker_count: int, hidden: Path | None = None
) -> Iterator[str]:
    """The master's address, once all workers have registered, which see nothing of `hidden`.

    Each worker has an address of its own where the system has so many: Spark runs a task a second
    time only on another host.
    """
    port, pages = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as started:

        def run(name: str, host: str, *arguments: str, hidden: Path | None = None) -> None:
            words = ["--host", host, *arguments]
            started.enter_context(spark_program(directory, name, words, hidden=hidden))

        run(MASTER, HOST, "--port", str(port), "--webui-port", str(pages))
        for number in range(worker_count):
            place = str(directory / f"worker-{number}")
            host = f"127.0.0.{number + 1}" if sys.platform == "linux" else HOST
            sizes = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
            run(WORKER, host, *sizes, "--work-dir", place, address, hidden=hidden)
        _wait_until(lambda: _alive_workers(pages) == worker_count, directory)
        yield address


@contextmanager
def connect_server(directory: Path, master: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Spark Connect's address, of a server whose tasks run on the cluster."""
    port = free_port()
    settings = {
        **EXECUTORS,
        "spark.master": master,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **{f"spark.executorEnv.{name}": text for name, text in environment.items()},
    }
    options = [f"-D{name}={text}" for name, text in settings.items()]
    with spark_program(directory, CONNECT, [], options, environment):
        _wait_until(lambda: _answers(port), directory)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def spark_program(
    directory: Path,
    name: str,
    arguments: list[str],
    options: list[str] | None = None,
    environment: Mapping[str, str] | None = None,
    hidden: Path | None = None,
) -> Iterator[None]:
    """One of Spark's own, killed at the end; what it says is in `directory`.

    Where it and its children look for `hidden`, they find an empty directory.
    """
    home = spark_home()
    (core,) = Path(home, "jars").glob("spark-core_*.jar")
    command = [
        *(() if hidden is None else (*WITHOUT, str(hidden))),
        find_java(os.environ).program,
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED_PACKAGES),
        *(options or []),
        "-cp",
        os.path.join(home, "jars", "*"),
        name,
        *arguments,
    ]
    given = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    spark = {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # As Spark's scripts find it out, to build the command of an executor.
        "SPARK_SCALA_VERSION": core.name.removeprefix("spark-core_").partition("-")[0],
        "PYSPARK_PYTHON": sys.executable,
    }
    with (directory / f"{name.rpartition('.')[2]}.log").open("a") as log:
        process = subprocess.Popen(
            command, env={**given, **spark, **(environment or {})}, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _alive_workers(pages: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{pages}/json/") as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # Or a page that is not there yet.
        return 0


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _wait_until(is_so: Callable[[], bool], directory: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError("\n".join(one.read_text() for one in directory.glob("*.log")))
        time.sleep(LOOK_AGAIN_S)
