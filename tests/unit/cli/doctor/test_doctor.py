"""`ottla doctor`: each complaint, with its fix, and the exit code."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.files import DiskSpace, OsFileSystem
from ottla.broker.log_jobs.cleaner_troubles import DamagedSegment, Trouble, write_troubles
from ottla.cli.doctor.doctor_command import doctor_command
from ottla.cli.main import cli
from ottla.config.listeners import client_listeners
from ottla.diagnosis.directories import described_config

HOUR_MS = 3_600_000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(doctor_command, [*map(str, arguments)], catch_exceptions=False)


def found(*arguments: object) -> dict[str, dict[str, Any]]:
    """The complaints by kind, but for that of the settings that a directory does not hold."""
    lines = [json.loads(line) for line in run(*arguments, "--json").output.splitlines()]
    assert lines[-1]["type"] == "summary"
    return {one["kind"]: one for one in lines[:-1] if one["kind"] != "settings_unknown"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory that was stopped cleanly, with a topic of four segments."""
    path = tmp_path / "d"
    with ottla.open(path, {"log.segment.bytes": 200}) as log:
        log.create_topic("t")
        for _ in range(4):
            log.append("t", b"x" * 100)
    return path


def test_a_broker_that_names_the_listener_of_brokers_can_be_checked() -> None:
    """It describes the other setting of the two as well, with its default."""
    config = described_config(
        {
            "listeners": "A://localhost:9092",
            "listener.security.protocol.map": "A:SASL_PLAINTEXT",
            "inter.broker.listener.name": "A",
            "security.inter.broker.protocol": "PLAINTEXT",
        }
    )
    assert [one.protocol for one in client_listeners(config)] == ["SASL_PLAINTEXT"]


def test_a_healthy_directory_needs_nothing(directory: Path) -> None:
    result = run(directory)
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "nothing needs to be done, 1 note"
    assert found(directory, "--deep") == {}


def test_a_node_of_a_quorum_that_makes_no_snapshots_is_named(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
    )
    path = tmp_path / "node"
    made = ["cluster", "format", str(path), "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
    result = CliRunner().invoke(cli, [*made, "--node-id", "1", "--standalone"])
    assert result.exit_code == 0, result.output
    log = path / "__cluster_metadata-0" / f"{0:020}.log"
    log.write_bytes(b"")
    assert "no_snapshots" not in found(path, "--config", properties)
    later = time.time() + 4 * 3600
    os.utime(log, (later, later))
    complaint = found(path, "--config", properties)["no_snapshots"]
    assert "its newest snapshot is 4.0 h older" in complaint["what"]


def test_a_broker_by_itself_with_the_log_of_a_cluster_is_told_what_it_cannot_do(
    tmp_path: Path,
) -> None:
    path, properties = tmp_path / "node", tmp_path / "server.properties"
    voters = "1@host1:9093:MkU3OEVBNTcwNTJENDM2QA,2@host2:9093:MkU3OEVBNTcwNTJENDM2QQ"
    made = ["cluster", "format", str(path), "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
    result = CliRunner().invoke(cli, [*made, "--node-id", "1", "--initial-controllers", voters])
    assert result.exit_code == 0, result.output
    assert "metadata_refused" not in found(path), "it may be served as what it is"
    properties.write_text("")
    complaint = found(path, "--config", properties)["metadata_refused"]
    assert "cannot be changed: The metadata log" in complaint["what"]
    assert "is that of a cluster with other nodes (2)" in complaint["what"]
    assert complaint["fix"] == f"stop the broker, and run ottla adopt {path}"


def _stray(directory: Path) -> None:
    (directory / f"old-0.{'0' * 32}-stray").mkdir()


def _delete(directory: Path) -> None:
    (directory / f"old-0.{'0' * 32}-delete").mkdir()


def _move(directory: Path) -> None:
    (directory / f"t-0.{'0' * 32}-future").mkdir()


def _unclean(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").unlink()


def _checkpoint(directory: Path) -> None:
    (directory / "log-start-offset-checkpoint").write_text("nonsense\n")


def _entry(directory: Path) -> None:
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 99\n")


def _index(directory: Path) -> None:
    (directory / "t-0" / "00000000000000000001.index").unlink()


def _topic_id(directory: Path) -> None:
    (directory / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: cut\n")


def _deleted_files(directory: Path) -> None:
    (directory / "t-0" / "00000000000000000001.log.deleted").write_bytes(b"x" * 100)


def _clock(directory: Path) -> None:
    later = time.time() + 3600
    os.utime(directory / "meta.properties", (later, later))


@pytest.mark.parametrize(
    ("kind", "is_note", "harm"),
    [
        ("stray", False, _stray),
        ("leftover", True, _delete),
        ("unfinished_move", True, _move),
        ("unclean_stop", True, _unclean),
        ("checkpoint", False, _checkpoint),
        ("checkpoint", False, _entry),
        ("missing_index", True, _index),
        ("partition_metadata", False, _topic_id),
        ("leftover", True, _deleted_files),
        ("clock", False, _clock),
    ],
)
def test_what_is_amiss_is_reported_with_its_fix(
    kind: str, is_note: bool, harm: Callable[[Path], None], directory: Path
) -> None:
    harm(directory)
    complaints = found(directory)
    assert set(complaints) == {kind}
    assert complaints[kind]["type"] == ("note" if is_note else "problem")
    assert complaints[kind]["fix"]
    assert run(directory).exit_code == (0 if is_note else 1)


def test_a_timestamp_in_the_future_is_a_problem(directory: Path) -> None:
    with ottla.open(directory) as log:
        log.append("t", b"x", timestamp_ms=int(time.time() * 1000) + 9 * HOUR_MS)
    complaint = found(directory)["future_timestamp"]
    assert complaint["where"].endswith("/d/t-0 from offset 3")
    assert complaint["fix"] == "ottla explain retention t lists the options"


def test_settings_that_contradict_each_other_are_a_problem_once_they_are_known(
    directory: Path, tmp_path: Path
) -> None:
    with ottla.open(directory) as log:
        log.create_topic("u", config={"retention.ms": 1000})
    assert found(directory)["settings"]["type"] == "note", "segment.ms may be anything"
    properties = tmp_path / "server.properties"
    properties.write_text("log.roll.ms=5000\n")
    complaint = found(directory, "--config", properties)["settings"]
    assert complaint["type"] == "problem"
    assert complaint["what"].startswith("segment.ms=5000 is more than retention.ms=1000")
    assert complaint["fix"].endswith(" u segment.ms=1000")
    properties.write_text("log.roll.ms=500\n")
    assert "settings" not in found(directory, "--config", properties)


def test_what_coordinators_delete_themselves_needs_no_limit(directory: Path) -> None:
    unlimited = {"retention.ms": -1, "retention.bytes": -1}
    with ottla.open(directory) as log:
        log.create_topic("u", config=unlimited)
    assert found(directory)["settings"]["what"].startswith("retention.ms=-1 and retention.bytes")
    with ottla.open(directory) as log:
        log.delete_topic("u")
        log.create_topic("__share_group_state", config=unlimited)
    assert "settings" not in found(directory)


@pytest.mark.parametrize(("usable", "kind"), [(200, None), (99, "note"), (49, "problem")])
def test_a_disk_that_is_nearly_full_is_reported(
    usable: int, kind: str | None, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ottla.base.files.OsFileSystem.space", lambda *_: DiskSpace(total=1000, usable=usable)
    )
    complaint = found(directory).get("disk_space")
    assert (complaint and complaint["type"]) == kind


def test_damage_is_found_by_a_deep_look(directory: Path) -> None:
    path = directory / "t-0" / "00000000000000000001.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert found(directory) == {}
    complaint = found(directory, "--deep")["log_damage"]
    assert complaint["fix"] == f"ottla log repair {directory} shows the repair"


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("00000000000000000000.log", "offset 0"),
        ("00000000000000000001.log", "offset 1"),
        ("00000000000000000003.log", "offset 3"),
    ],
)
def test_a_segment_that_is_gone_is_found_without_a_deep_look(
    directory: Path, name: str, lost: str
) -> None:
    (directory / "t-0" / name).unlink()
    complaint = found(directory)["lost_offsets"]
    assert complaint["what"].endswith(f"; {lost} cannot be read")
    assert complaint["fix"] == f"ottla log repair {directory} shows the repair"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("meta.properties", b"version: 0\ntopic_id: EeusvhYn50HdR1Ol4ncqWg", "meta_properties"),
        ("meta.properties", b"", "meta_properties"),
        ("ottla-log-starts", b"0\n0\n", "checkpoint"),
    ],
)
def test_a_file_beside_the_partitions_that_cannot_be_read_is_found(
    directory: Path, name: str, content: bytes, kind: str
) -> None:
    (directory / name).write_bytes(content)
    assert found(directory)[kind]["where"] == str(directory / name)


def test_a_running_broker_is_looked_over_too(directory: Path) -> None:
    with ottla.open(directory, {"log.segment.bytes": 2_000_000}) as log:
        log.create_topic("u", config={"min.insync.replicas": 2})
        address = log.listen("127.0.0.1:0").address
        complaints = found("--bootstrap", address)
        assert complaints["settings"]["what"].startswith("min.insync.replicas=2 with one broker")
        assert f"ottla configs set {address} " in complaints["settings"]["fix"]
        log.broker.directories[0].health.fail(OSError(5, "broken"))
        complaints = found("--bootstrap", address)
        assert complaints["offline_directory"]["where"] == str(directory)
        assert run("--bootstrap", address).exit_code == 1


def _compacted(tmp_path: Path) -> Path:
    path = tmp_path / "c"
    with ottla.open(path) as log:
        log.create_topic("c", config={"cleanup.policy": "compact"})
        log.append("c", b"value", b"key")
    return path


def test_what_the_cleaner_has_noted_is_reported_with_its_fix(tmp_path: Path) -> None:
    directory = _compacted(tmp_path)
    damaged = DamagedSegment(base_offset=0, reason="a bad batch", size=1, modified_ms=1)
    trouble = Trouble(failure_count=2, reason="no memory", failed_ms=1, damaged=(damaged,))
    write_troubles(OsFileSystem(), str(directory), {("c", 0): trouble})
    complaints = found(directory)
    assert set(complaints) == {"cleaner_failing", "segment_set_aside"}
    failing, aside = complaints["cleaner_failing"], complaints["segment_set_aside"]
    assert "in 2 tries, the last at 1970-01-01 00:00:00.001: no memory" in failing["what"]
    assert "ottla explain compaction c" in failing["fix"]
    assert aside["where"].endswith("c-0 from offset 0")
    assert "ottla log repair --in-place" in aside["fix"]
    assert run(directory).exit_code == 1


def test_notes_of_the_cleaner_that_cannot_be_read_are_no_problem(tmp_path: Path) -> None:
    directory = _compacted(tmp_path)
    (directory / "ottla-cleaner.json").write_text("nonsense")
    assert found(directory)["cleaner_troubles"]["type"] == "note"
    assert run(directory).exit_code == 0


def test_a_compacted_topic_without_a_cleaner_is_a_problem(tmp_path: Path) -> None:
    directory = _compacted(tmp_path)
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.enable=false\n")
    complaint = found(directory, "--config", properties)["cleaner_off"]
    assert (complaint["type"], complaint["where"]) == ("problem", "topic c")
    assert found(directory) == {}
