"""Commands on a directory that has lost a partition, or a file of its broker: one line, exit 1."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY as METADATA
from ottla.storage.files.filenames import METADATA_MARK

pytestmark = pytest.mark.slow

QUOTA = "producer_byte_rate=1024"
READERS = [
    "quotas list",
    "users list",
    "acls list",
    "topics list",
    "explain retention TARGET orders",
    "doctor",
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a quota, a user, and a topic of which nothing is to be deleted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OTTLA_USER_PASSWORD", "pot & kettle")
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with ottla.open(tmp_path / "data", settings) as log, ottla.Admin(log) as admin:
        log.create_topic("orders", partitions=2)
        log.append("orders", b"x", partition=0)
        log.append("orders", b"x", partition=1)
        admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 1})
    assert run(tmp_path / "data", "users set TARGET ana")[0] == 0
    assert run(tmp_path / "data", f"quotas set TARGET --client-id a {QUOTA}")[0] == 0
    return tmp_path / "data"


def run(directory: Path, command: str) -> tuple[int, list[str]]:
    """`TARGET` stands for the directory, or it comes last."""
    words = (command if "TARGET" in command else f"{command} TARGET").split()
    done = CliRunner().invoke(cli, [one.replace("TARGET", str(directory)) for one in words])
    return done.exit_code, done.output.splitlines()


@pytest.mark.parametrize(
    "command",
    [
        "topics list",
        "topics describe TARGET orders",
        "records TARGET --topic orders",
        "groups list",
        "groups describe TARGET billing",
        "export TARGET orders -o - --as csv",
        "explain retention TARGET orders",
        "doctor",
        "log check",
        "mirror TARGET TARGET-copy",
    ],
)
def test_a_lost_partition_ends_a_command_with_1(command: str, directory: Path) -> None:
    shutil.rmtree(directory / "orders-0")
    code, lines = run(directory, command)
    path = directory / "orders-0"
    assert code == 1, lines
    assert any(f"{path} is not there" in one or f"{path}: is not" in one for one in lines), lines


@pytest.mark.parametrize(("topic", "command"), [
    ("__consumer_offsets", "groups list"),
    ("__transaction_state", "transactions list"),
])  # fmt: skip
def test_a_lost_internal_partition_ends_a_command_with_1(
    topic: str, command: str, directory: Path
) -> None:
    with (
        ottla.open(directory) as log,
        ottla.Producer(log, settings={"transactional.id": "payments"}) as producer,
        producer.transaction(),
    ):
        producer.send("orders", b"x", partition=0).result()
    shutil.rmtree(directory / f"{topic}-0")
    code, lines = run(directory, command)
    assert code == 1, lines
    assert f"{topic}-0 is not there, though recovery-point-offset-checkpoint" in lines[0]


@pytest.mark.parametrize("command", READERS)
def test_a_lost_metadata_log_is_named_by_its_readers(command: str, directory: Path) -> None:
    shutil.rmtree(directory / METADATA)
    code, lines = run(directory, command)
    assert code == 1
    (line,) = lines
    assert line.startswith(
        f"ottla: {directory / METADATA} is missing, though {METADATA_MARK} says that there was one"
    )
    assert f"by itself goes on without them once {METADATA_MARK} is removed" in line
    assert "A controller of a cluster must not vote without it" in line


def test_a_lost_metadata_log_is_found_by_a_check(directory: Path) -> None:
    assert run(directory, "log check")[0] == 0
    shutil.rmtree(directory / METADATA)
    code, lines = run(directory, "log check")
    assert code == 1
    assert any(f"{METADATA}: is missing, though {METADATA_MARK}" in line for line in lines), lines


def test_a_changed_byte_in_the_metadata_log_is_found_by_a_check(directory: Path) -> None:
    path = directory / METADATA / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    code, lines = run(directory, "log check")
    assert code == 1
    assert any(str(path) in line for line in lines), lines


@pytest.mark.parametrize("form", ["--csv", "--json", "-q"])
def test_a_query_over_damage_ends_with_the_line_that_names_it(form: str, directory: Path) -> None:
    pytest.importorskip("duckdb")
    log = directory / "orders-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    done = CliRunner().invoke(cli, ["sql", str(directory), "select * from orders", form])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ottla: {log} at byte 0: ")
    assert f"`ottla log check {directory}` lists the damage" in line
