"""What commands import before they do anything: start-up is imports, and little else."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla

IMPORTED = """
import contextlib, io, sys
from ottla.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(*sorted(sys.modules))
"""


def imported(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", IMPORTED, *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.slow
def test_help_imports_no_command_and_no_room() -> None:
    modules = imported("--help")
    rooms = {name.split(".")[1] for name in modules if name.startswith("ottla.")}
    assert rooms == {"cli"}
    commands = {name for name in modules if name.startswith("ottla.cli.")}
    assert commands == {"ottla.cli.screen", "ottla.cli.main"}


@pytest.mark.slow
def test_records_imports_neither_a_broker_nor_what_writes(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        log.append("t", b"v")
    modules = imported("records", str(tmp_path), "--topic", "t")
    rooms = {name.split(".")[1] for name in modules if name.startswith("ottla.")}
    assert rooms <= {"base", "search", "cli", "codec", "config", "record", "storage"}
    assert not modules & {"rich", "asyncio", "socket", "crc32c", "ottla.storage.segment.segment"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["consume", "produce"])
def test_help_of_what_reads_and_writes_imports_no_log_and_no_client(command: str) -> None:
    modules = imported(command, "--help")
    rooms = {name.split(".")[1] for name in modules if name.startswith("ottla.")}
    assert rooms <= {"base", "search", "cli", "storage"}
    assert not {name for name in modules if name.startswith("ottla.storage.reading")}


OPENED = """
import sys, ottla
with ottla.open(sys.argv[1]) as log:
    log.create_topic("t")
    log.append("t", b"v")
    assert [one.value for one in log.read("t")] == [b"v"]
print(*sorted(sys.modules))
"""


@pytest.mark.slow
def test_an_embedded_log_imports_no_event_loop_and_nothing_for_sockets(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENED, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"asyncio", "ssl", "socket", "subprocess", "tempfile", "click", "numpy"}


@pytest.mark.slow
def test_a_broker_alone_imports_no_http_and_nothing_for_tls_or_clusters(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ottla", "serve", str(tmp_path / "data")]
    broker = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert broker.stdout is not None
    assert broker.stdout.readline().startswith("ready")
    broker.terminate()
    imported = {line.rpartition("|")[2].strip() for line in broker.communicate()[1].splitlines()}
    assert broker.returncode == 0
    assert "ottla.server.network.listener" in imported
    unwanted = {"http", "email", "ssl", "asyncio", "ctypes", "importlib.metadata", "rich", "numpy"}
    assert not imported & unwanted
    rooms = ["cluster", "controller", "zookeeper", "broker.replication", "server.orders"]
    rooms.append("metadata.records")  # there is no metadata log before the first change
    assert not [one for one in imported if one.startswith(tuple(f"ottla.{it}" for it in rooms))]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        yield log.listen("127.0.0.1:0").address


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("topics list BROKER", {"config", "coordinator", "diagnosis"}),
        ("configs get BROKER orders", {"config", "diagnosis"}),
        ("groups list BROKER", {"coordinator"}),
        ("quotas list BROKER", set()),
        ("explain stuck BROKER orders", {"config", "coordinator", "diagnosis"}),
        ("consume BROKER orders", {"search"}),
    ],
)
def test_what_asks_a_broker_imports_no_broker_and_nothing_for_tls(
    address: str,
    command: str,
    more: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    modules = imported(*command.replace("BROKER", address).split())
    rooms = {name.split(".")[1] for name in modules if name.startswith("ottla.")}
    assert (
        rooms
        <= {"base", "cli", "client", "codec", "protocol", "record", "runtime", "storage"} | more
    )
    unwanted = {"rich", "asyncio", "ssl", "secrets", "hashlib", "logging", "pathlib", "tomllib"}
    assert not modules & unwanted
    assert not {name for name in modules if name.startswith("ottla.storage.log")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "topics list DIRECTORY",
        "topics describe DIRECTORY orders",
        "groups list DIRECTORY",
        "configs get DIRECTORY orders",
        "produce DIRECTORY orders",
        "consume DIRECTORY orders",
        "log check DIRECTORY",
        "snapshot list DIRECTORY",
        "doctor DIRECTORY",
        "explain retention DIRECTORY orders",
        "explain compaction DIRECTORY orders",
    ],
)
def test_what_opens_a_directory_imports_no_extra_no_socket_and_nothing_for_clusters(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    modules = imported(*command.replace("DIRECTORY", str(tmp_path / "data")).split())
    assert "ottla.storage" in modules
    extras = {
        "rich",
        "numpy",
        "pyarrow",
        "duckdb",
        "pandas",
        "polars",
        "fastavro",
        "prometheus_client",
    }
    assert not modules & extras
    assert not modules & {"asyncio", "socket", "ssl", "hmac", "http", "email", "multiprocessing"}
    assert not modules & {"pathlib", "tomllib"}
    rooms = ("cluster", "controller", "zookeeper", "spark", "loading", "console", "mirror")
    assert not [one for one in modules if one.startswith(tuple(f"ottla.{it}." for it in rooms))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "doctor DIRECTORY",
        "explain retention DIRECTORY orders",
        "explain compaction DIRECTORY orders",
        "log check DIRECTORY",
    ],
)
def test_what_examines_a_directory_imports_no_client(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    modules = imported(*command.replace("DIRECTORY", str(tmp_path / "data")).split())
    rooms = {name.split(".")[1] for name in modules if name.startswith("ottla.")}
    assert not rooms & {"client", "embedded", "protocol", "server"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "delete-records DIRECTORY orders --before 0",
        "configs set DIRECTORY orders retention.ms=7d",
        "topics create DIRECTORY teas",
        "topics grow DIRECTORY orders 2",
    ],
)
def test_what_changes_one_kind_of_thing_imports_the_requests_of_no_other(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    modules = imported(*command.replace("DIRECTORY", str(tmp_path / "data")).split())
    assert "ottla.client.administration.admin" not in modules
    for name in ("groups", "quotas", "security", "transactions"):
        assert f"ottla.client.administration.{name}" not in modules


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "produce DIRECTORY orders",
        "delete-records DIRECTORY orders --before 0",
        "configs set DIRECTORY orders retention.ms=7d",
        "topics create DIRECTORY teas",
        "topics alter DIRECTORY orders -o retention.ms=7d",
    ],
)
def test_what_changes_a_directory_imports_nothing_for_groups_compaction_logins_and_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    modules = imported(*command.replace("DIRECTORY", str(tmp_path / "data")).split())
    assert "ottla.broker.broker" in modules
    unwanted = (
        "ottla.coordinator.classic",
        "ottla.coordinator.consumer",
        "ottla.coordinator.transaction",
        "ottla.broker.records.fetch_sessions",
        "ottla.broker.groups",
        "ottla.broker.transactions",
        "ottla.broker.security.sasl",
        "ottla.client.administration.group_offsets",
        "ottla.client.bulk.transactions",
        "ottla.config.inter_broker_version",
        "ottla.embedded.compacting",
        "ottla.embedded.scanning",
        "ottla.protocol.messages.find_coordinator",
        "ottla.record.legacy",
        "ottla.record.message_set",
        "ottla.storage.compaction",
        "ottla.storage.log.conversion",
        "ottla.storage.reading",
        "ottla.storage.recovery.damage",
        "ottla.storage.retention",
        "ipaddress",
    )
    assert not [one for one in modules if one.startswith(unwanted)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "topics list DIRECTORY",
        "topics describe DIRECTORY orders",
        "configs get DIRECTORY orders",
        "configs get DIRECTORY --broker 1",
        "configs get DIRECTORY --group billing",
        "quotas list DIRECTORY",
        "users list DIRECTORY",
        "acls list DIRECTORY",
        "groups list DIRECTORY",
        "transactions list DIRECTORY",
    ],
)
def test_what_only_reads_a_directory_imports_no_broker_and_nothing_that_writes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    modules = imported(*command.replace("DIRECTORY", str(tmp_path / "data")).split())
    if not command.startswith(("groups", "transactions")):
        assert not [one for one in modules if one.startswith("ottla.coordinator.classic")]
    unwanted = ("broker.broker", "embedded.log", "storage.directory.log", "storage.log.writer")
    assert not [one for one in modules if one.startswith(tuple(f"ottla.{it}" for it in unwanted))]


@pytest.mark.slow
def test_help_of_the_console_imports_neither_the_console_nor_what_it_needs() -> None:
    modules = imported("console", "--help")
    assert not {name for name in modules if name.startswith(("ottla.console", "ottla.client"))}
    assert not modules & {"starlette", "uvicorn", "jinja2", "anyio", "asyncio"}
