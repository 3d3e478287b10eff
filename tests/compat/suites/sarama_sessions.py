"""What users of sarama do, as our own tests in Go against `ottla serve`.

sarama's own tests (`sarama_suite`) are in Debian's source package, which not every machine can
fetch; these need only the library. They pose as every version from 0.8.2 to 2.2. Run with
`python -m tests.compat.suites.sarama_sessions`, with `--three-brokers` against a cluster, in which
brokers are stopped and started too, and with OTTLA_SUITE_CLUSTER=quorum against one of KRaft.
"""

import shutil
import socketserver
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compat.suites.go_packages import absence, run_tests, version_of
from tests.compat.suites.sarama_suite import ASSERTIONS, DEBIAN_PACKAGE, IMPORT_PATH
from tests.compat.suites.suite import THREE, broker, grounds, not_run, report, where
from tests.support.running_cluster import RunningCluster

SUITE = "sessions of sarama"
SOURCES = Path(__file__).with_name("sarama_sessions")
SETTINGS = {
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}


def main(words: Sequence[str]) -> int:
    reason = absence(IMPORT_PATH, DEBIAN_PACKAGE) or absence(*ASSERTIONS)
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        gopath = Path(scratch) / "go"
        package = gopath / "src" / "sessions"
        shutil.copytree(SOURCES, package)
        flags = [word for word in words if word != THREE]
        running = three_brokers if THREE in words else one_broker
        with running(Path(scratch)) as told:
            outcomes = run_tests(package, gopath, flags=flags, settings=told)
    return report(f"{SUITE} {version_of(DEBIAN_PACKAGE)}{where(words)}", outcomes, {})


@contextmanager
def one_broker(scratch: Path) -> Iterator[dict[str, str]]:
    with broker(scratch / "data", SETTINGS) as address:
        yield {"KAFKA_PEERS": address, "REPLICAS": "1"}


@contextmanager
def three_brokers(scratch: Path) -> Iterator[dict[str, str]]:
    folder = scratch / "cluster"
    folder.mkdir()
    with (
        RunningCluster(folder, grounds=grounds(), **SETTINGS) as running,
        Control(running) as control,
    ):
        yield {"KAFKA_PEERS": running.bootstrap, "REPLICAS": "3", "KAFKA_CONTROL": control.address}


class Control(socketserver.ThreadingTCPServer):
    """Takes lines such as "stop 2" from the tests, and answers when it is done."""

    daemon_threads = True

    def __init__(self, running: RunningCluster) -> None:
        super().__init__(("127.0.0.1", 0), Ordered)
        self.running = running
        self.address = f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "Control":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Ordered(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        verb, broker_id = self.rfile.readline().decode().split()
        one = self.server.running.brokers[int(broker_id)]
        if verb == "start":
            one.begin()
            one.wait_ready()
        elif verb == "stop":
            one.stop()
        else:
            one.kill()
        self.wfile.write(b"done\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
