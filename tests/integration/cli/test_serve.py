"""`ottla serve` as a user meets it."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from tests.integration.cli.support import ENVIRONMENT, run_ottla, serving
from tests.support.limits import few_open_files
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "data") as (_, process):
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_records_outlive_a_kill_and_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, process):
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        for number in range(100):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(10) == 0
        process.kill()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with serving(tmp_path) as (address, _):
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        values = [message.value() for message in consumer.consume(100, 10)]
        consumer.close()
    assert values == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-o", "log.segment.bytes=x"], "log.segment.bytes=x: must be a whole number of bytes"),
        (["-o", "log.retention.ms=5days"], "there is no unit days; did you mean 5d?"),
        (["-o", "nonsense"], "a setting is KEY=VALUE"),
        (["--listen", "nowhere"], "an address is HOST:PORT"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_changes_nothing(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    result = run_ottla("serve", "--data-dir", tmp_path / "data", *arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_directory_or_port_in_use_is_named(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as (address, _):
        same_directory = run_ottla("serve", "-d", tmp_path / "a", "--listen", "127.0.0.1:0")
        assert same_directory.returncode == 2
        assert "in use by another process" in same_directory.stderr
        same_port = run_ottla("serve", "-d", tmp_path / "b", "--listen", address)
        assert same_port.returncode == 2
        assert f"cannot listen on {address}: Address already in use" in same_port.stderr
        assert not (tmp_path / "b").exists()
        (tmp_path / "c").mkdir()
        run_ottla("serve", "-d", tmp_path / "c", "--listen", address)
        assert (tmp_path / "c").exists()


def test_an_unreadable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = run_ottla("serve", "-d", tmp_path / "file")
    assert result.returncode == 2
    assert "is a file; name a directory" in result.stderr


SERVER_PROPERTIES = """\
# Licensed to nobody in particular
process.roles=broker,controller
node.id=4
controller.quorum.bootstrap.servers=localhost:{controller}
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
socket.send.buffer.bytes=102400
log.dirs={directory}/a,{directory}/b
num.partitions=3
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
zookeeper.session.timeout.ms = 9000
"""


def test_a_server_properties_of_kafkas_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER_PROPERTIES.format(directory=tmp_path, port=1, controller=free_port()))
    with serving(None, "--config", str(file), "-o", "num.partitions=2") as (address, _):
        admin = AdminClient({"bootstrap.servers": address})

        def topic_is_made() -> ClusterMetadata | None:
            """The first answer may be that its leader is not available, as from Kafka."""
            metadata = admin.list_topics("t", timeout=PATIENCE_S)
            return metadata if metadata.topics["t"].error is None else None

        metadata = wait_until(topic_is_made)
        (broker,) = metadata.brokers.values()
        assert (broker.id, broker.host, broker.port) == (4, "127.0.0.1", 1)
        assert len(metadata.topics["t"].partitions) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "server.properties"}


def test_several_listeners_are_listened_on(tmp_path: Path) -> None:
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    options = [part for pair in settings.items() for part in ("-o", "=".join(pair))]
    with serving(None, *options) as (addresses, _):
        for address in addresses.split(","):
            metadata = AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S)
            (broker,) = metadata.brokers.values()
            assert f"{broker.host}:{broker.port}" == address


def test_settings_without_effect_are_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    given = "log.retention.hour=3\nmy.plugin.password=hunter2\n"
    file.write_text(
        SERVER_PROPERTIES.format(directory=tmp_path, port=1, controller=free_port()) + given
    )
    with serving(tmp_path / "other") as (address, _):
        result = run_ottla("serve", "--config", file, "--listen", address, "-o", "num.partition=1")
    *_, warning, unknown, error = result.stderr.splitlines()
    assert "cannot listen on" in error
    assert unknown.endswith(
        "settings that are not known and have no effect: log.retention.hour (did you mean "
        "log.retention.hours?), my.plugin.password, num.partition (did you mean num.partitions?)"
    )
    assert "hunter2" not in result.stderr
    for name in ("num.network.threads", "zookeeper.session.timeout.ms"):
        assert name in warning
    assert "controller.quorum" not in warning, "it is the only voter itself"
    assert "num.partitions" not in warning


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("log.dirs=", "name a data directory: --data-dir DIR, or log.dirs in the --config file"),
        ("authorizer.class.name=org.example.Acl", "authorizer.class.name=org.example.Acl"),
        ("listeners=SASL_SSL://:9092", "a listener with TLS needs a key and a certificate"),
        ("num.partitions=\\u12", "four hexadecimal digits"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_and_exit_code_2(
    tmp_path: Path, line: str, told: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}/data\n{line}\n")
    result = run_ottla("serve", "--config", file)
    assert result.returncode == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run_ottla("serve", "--config", tmp_path / "none")
    assert result.returncode == 2
    assert "none: No such file or directory; name a server.properties file" in result.stderr


def test_it_ends_with_one_line_and_exit_code_1_when_the_last_directory_fails(
    tmp_path: Path,
) -> None:
    settings = ("log.initial.task.delay.ms=0", "log.flush.offset.checkpoint.interval.ms=100")
    options = [part for setting in settings for part in ("-o", setting)]
    with serving(tmp_path / "data", *options) as (_, process):
        (tmp_path / "data").rename(tmp_path / "taken away")
        assert process.wait(PATIENCE_S) == 1


def test_a_directory_that_cannot_be_read_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    with serving(tmp_path / "a", "--data-dir", str(tmp_path / "b")):
        pass
    (tmp_path / "b" / "meta.properties").write_text("version=9\n")
    with serving(tmp_path / "a", "--data-dir", str(tmp_path / "b")) as (address, _):
        assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S).brokers
    (tmp_path / "a" / "meta.properties").write_text("version=9\n")
    result = run_ottla("serve", "-d", tmp_path / "a", "-d", tmp_path / "b")
    assert result.returncode == 2
    assert "no log directory can be used: " in result.stderr


def test_it_takes_as_many_open_files_as_it_may_have(tmp_path: Path) -> None:
    with few_open_files(), serving(tmp_path) as (address, _):
        admin = AdminClient({"bootstrap.servers": address})
        for made in admin.create_topics([NewTopic("many", 100, 1)]).values():
            made.result(PATIENCE_S)


def test_segments_larger_than_the_system_lets_a_file_be_are_refused_at_the_start(
    tmp_path: Path,
) -> None:
    resource = pytest.importorskip("resource", reason="no such limit on this system")
    limit = (20 << 20, 20 << 20)
    result = subprocess.run(
        [sys.executable, "-m", "ottla", "serve", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("ottla: a file may have 20.0 MiB here (ulimit -f), less than log.seg")
    assert "raise the limit, or set -o log.segment.bytes=20971520 -o offsets.topic" in line
    assert "log.index.size.max.bytes" not in line, "which are small enough"
    assert not (tmp_path / "data").exists()


def test_replicas_that_a_single_broker_cannot_have_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    text = SERVER_PROPERTIES.format(directory=tmp_path, port=1, controller=free_port())
    file.write_text(
        text.replace("factor=1", "factor=3") + "transaction.state.log.replication.factor=3\n"
    )
    result = run_ottla("serve", "--config", file)
    assert result.returncode == 2
    *_, line = result.stderr.splitlines()
    assert "offsets.topic.replication.factor=3" in line
    assert (
        "set -o offsets.topic.replication.factor=1 -o transaction.state.log.replication.factor=1"
        in line
    )
    assert not (tmp_path / "a").exists()


def test_systemd_hears_that_it_serves_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_S)
        monkeypatch.setitem(ENVIRONMENT, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setitem(ENVIRONMENT, "WATCHDOG_USEC", "20000")
        with serving(tmp_path / "data") as (address, _):
            assert systemd.recv(500).startswith(f"READY=1\nSTATUS=ready {address} ".encode())
            assert systemd.recv(500) == b"WATCHDOG=1"
        while (heard := systemd.recv(500)) == b"WATCHDOG=1":
            pass
        assert heard == b"STOPPING=1\nSTATUS=stopping"


WITH_A_DISK_THAT_HANGS = """
import os, sys, threading
from ottla.base import files
from ottla.cli.main import main
from ottla.runtime import flusher, stop_limit

def hang(descriptor, hangs=sys.argv[1], sync=os.fsync):
    if os.path.exists(hangs):
        threading.Event().wait()
    sync(descriptor)

os.fsync = files._sync_content = hang
flusher.STOP_S = 0.2
stop_limit.StopLimit.__init__.__kwdefaults__["limit_s"] = 1.0
sys.argv = ["ottla", *sys.argv[2:]]
main()
"""


def test_a_stop_does_not_wait_for_ever_for_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    hangs, data = tmp_path / "hangs", tmp_path / "data"
    command = [sys.executable, "-c", WITH_A_DISK_THAT_HANGS, str(hangs), "serve", str(data)]
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen(
        [*command, "--listen", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        producer.produce("orders", b"one", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        hangs.touch()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == (
        f"{data}: the disk has not answered for 1 s; stopped without closing what is there, which "
        "the next start recovers"
    )
    hangs.unlink()
    assert not (data / ".kafka_cleanshutdown").exists()
    assert run_ottla("log", "check", data).returncode == 0
