"""The ZooKeeper that a cluster on one machine runs itself: the server in PySpark's jars."""

import importlib.util
import os
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.base.errors import UserError
from ottla.base.extras import install_command
from ottla.base.tls import in_tls
from ottla.cli.cluster.secured import LocalSecurity

MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MS: Final = 500
"""Sessions may last from two to twenty ticks."""

TRIES: Final = 5
START_S: Final = 60.0
LOOK_S: Final = 0.05
LOCAL: Final = "127.0.0.1"


def jars_of_pyspark() -> Path:
    """Returns the folder of PySpark's jars; raises `UserError` without PySpark."""
    found = importlib.util.find_spec("pyspark")
    jars = None if found is None or found.origin is None else Path(found.origin).parent / "jars"
    if jars is None or not list(jars.glob("zookeeper-[0-9]*.jar")):
        raise UserError(
            f"ZooKeeper is not installed: its jars come with PySpark ({install_command('spark')}); "
            "or name a running one with --zookeeper HOST:PORT (Debian: apt install zookeeperd)"
        )
    return jars


def start_zookeeper(
    folder: Path, port: int | None, security: LocalSecurity | None
) -> tuple[int, int]:
    """Starts a server on a folder, detached from this terminal; returns its process id and its
    port.

    If another program uses the port that it had before, it gets a new one. Raises `UserError`.
    """
    from ottla.spark.java import find_java

    jars, java = jars_of_pyspark(), find_java(os.environ).program
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(TRIES):
        chosen = port if port is not None and number == 0 else free_port()
        process = _start(java, jars, folder, _settings(folder, chosen, security))
        deadline_s = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline_s:
            if answers(chosen, security):
                # The server keeps running, and nobody here waits for its end.
                process.returncode = 0
                return process.pid, chosen
            time.sleep(LOOK_S)
        process.kill()
        process.wait()
    raise UserError(f"ZooKeeper does not start; {folder / 'zookeeper.log'} says why")


def _settings(folder: Path, port: int, security: LocalSecurity | None) -> Path:
    settings = {
        "dataDir": str(folder / "data"),
        "tickTime": str(TICK_MS),
        "admin.enableServer": "false",
        "maxClientCnxns": "0",
        "4lw.commands.whitelist": "srvr",
    }
    if security is None:
        settings |= {"clientPort": str(port), "clientPortAddress": LOCAL}
    else:
        settings |= security.zookeeper_settings(port) | {"secureClientPortAddress": LOCAL}
    file = folder / "zoo.cfg"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return file


def _start(java: str, jars: Path, folder: Path, settings: Path) -> "subprocess.Popen[bytes]":
    command = [java, "-Xmx256m", "-cp", f"{jars}/*", MAIN, str(settings)]
    with (folder / "zookeeper.log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def free_port() -> int:
    """Returns a port that no program uses at the moment."""
    with socket.create_server((LOCAL, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def answers(port: int, security: LocalSecurity | None) -> bool:
    """Whether a ZooKeeper at this port serves requests."""
    with suppress(OSError), socket.create_connection((LOCAL, port), timeout=1.0) as plain:
        if security is None:
            return _serves(plain)
        with in_tls(security.context(), plain, server_hostname=LOCAL) as connection:
            return _serves(connection)
    return False


def _serves(connection: socket.socket) -> bool:
    connection.sendall(b"srvr")
    return b"Zookeeper version" in connection.recv(4096)
