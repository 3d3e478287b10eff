"""A ZooKeeper of three processes, which goes on without one of them."""

import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.grounds import Grounds
from tests.support.patience import wait_until
from tests.support.ports import free_port
from tests.support.server_properties import write_properties
from tests.support.zookeeper_server import MAX_SESSION_MS, java_of_zookeeper, wait_answered

COUNT = 3


class Ensemble(Grounds):
    """The grounds of a cluster, and its ZooKeeper."""

    def __init__(self) -> None:
        self.members: dict[int, EnsembleMember] = {}
        self.address = ""
        self._stack = ExitStack()

    def zookeeper(self, folder: Path, tick_ms: int) -> "Ensemble":
        ports = {number: free_port() for number in range(1, COUNT + 1)}
        servers = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in ports}
        self.address = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        for number, port in ports.items():
            mine = folder / str(number)
            mine.mkdir(parents=True)
            (mine / "myid").write_text(f"{number}\n")
            settings = {
                "tickTime": str(tick_ms),
                "minSessionTimeout": str(2 * tick_ms),
                "maxSessionTimeout": str(MAX_SESSION_MS),
                "initLimit": "60",
                "syncLimit": "10",
                "dataDir": str(mine),
                "clientPort": str(port),
                "clientPortAddress": "127.0.0.1",
                **servers,
            }
            file = write_properties(mine / "zoo.cfg", settings)
            self.members[number] = EnsembleMember(port, file)
        return self

    def __enter__(self) -> "Ensemble":
        with ExitStack() as stack:
            for one in self.members.values():
                stack.callback(one.kill)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Returns once it answers; what runs already runs on."""
        for one in self.members.values():
            one.start()
        wait_answered(self.address)

    def kill(self) -> None:
        for one in self.members.values():
            one.kill()

    def wait_leader(self) -> "EnsembleMember":
        def leader() -> EnsembleMember | None:
            return next((one for one in self.members.values() if one.mode() == "leader"), None)

        found: EnsembleMember = wait_until(leader, "ZooKeeper elects no leader")
        return found


class EnsembleMember:
    def __init__(self, port: int, settings: Path) -> None:
        self._port = port
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._command = [*java_of_zookeeper(), main, str(settings)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def mode(self) -> str:
        """`leader` or `follower`, as it says itself; empty while it says nothing."""
        if self._process is None:
            return ""
        text = b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as asked:
            asked.sendall(b"srvr")
            while some := asked.recv(4096):
                text += some
        lines = text.decode().splitlines()
        return next((one.removeprefix("Mode: ") for one in lines if one.startswith("Mode: ")), "")
