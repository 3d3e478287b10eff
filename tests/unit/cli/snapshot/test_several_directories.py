"""`ottla snapshot` of a broker with several directories: one snapshot spans them all."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.main import cli
from ottla.client.administration.admin import Admin
from tests.support.patience import wait_until

PARTITIONS = 6
SETTINGS = {"offsets.topic.num.partitions": 3, "log.segment.bytes": 20_000}
PLACE = TopicPartition("orders", 0)


@pytest.fixture(params=[2, 3])
def directories(tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """With ten records in each partition of `orders`, of which `billing` has read four."""
    made = [str(tmp_path / f"d{number}") for number in range(1, request.param + 1)]
    with ottla.open(made, SETTINGS) as log, Admin(log) as admin:
        log.create_topic("orders", partitions=PARTITIONS, config={"retention.bytes": "123456"})
        append(log)
        offsets = {TopicPartition("orders", one): 4 for one in range(PARTITIONS)}
        admin.alter_group_offsets("billing", offsets)
    return made


def append(log: ottla.Log) -> None:
    for index in range(PARTITIONS):
        for number in range(10):
            log.append("orders", b"%d" % number, partition=index)


def state(paths: list[str]) -> tuple[list[int], list[int | None], str]:
    """The counts of records, where `billing` continues, and a setting."""
    with ottla.open(paths, SETTINGS) as log, Admin(log) as admin:
        offsets = admin.group_offsets("billing")
        counts = [sum(1 for _ in log.read("orders", one)) for one in range(PARTITIONS)]
        places = [offsets[TopicPartition("orders", one)].offset for one in range(PARTITIONS)]
        configs = log.broker.topics.get("orders").overrides
        return counts, places, str(configs["retention.bytes"])


FIRST = ([10] * PARTITIONS, [4] * PARTITIONS, "123456")
LATER = ([20] * PARTITIONS, [4] * PARTITIONS, "123456")


def end(command: str, directories: list[str], *words: str) -> tuple[int, str]:
    named = [word for one in directories for word in ("-d", one)]
    result = CliRunner().invoke(cli, ["snapshot", command, *named, *words])
    return result.exit_code, result.output.strip()


def ok(command: str, directories: list[str], *words: str) -> str:
    code, text = end(command, directories, *words)
    assert code == 0, text
    return text


@pytest.mark.slow
def test_a_snapshot_of_directories_at_rest_is_restored_branched_listed_and_deleted(
    directories: list[str], tmp_path: Path
) -> None:
    ok("create", directories, "a")
    parts = [f"{one}.snapshots/a" for one in directories]
    for part in parts:
        assert CliRunner().invoke(cli, ["log", "check", part]).exit_code == 0
    with ottla.open(directories, SETTINGS) as log:
        append(log)
    into = [str(tmp_path / f"b{number}") for number in range(len(directories))]
    ok("branch", directories, "a", *into)
    assert state(into) == FIRST
    assert "previous state is snapshot before-restore-" in ok("restore", directories, "a")
    assert state(directories) == FIRST
    names = ok("list", directories, "-q").splitlines()
    assert names[0] == "a"
    assert state([f"{one}.snapshots/{names[1]}" for one in directories]) == LATER
    ok("delete", directories, "a")
    assert ok("list", directories, "-q").splitlines() == names[1:]
    assert not any(Path(part).exists() for part in parts)


@pytest.mark.slow
def test_a_snapshot_beside_a_broker_has_all_directories_of_one_instant(
    directories: list[str],
) -> None:
    with ottla.open(directories, SETTINGS) as log:
        ok("create", directories, "a")
        append(log)
        code, text = end("restore", directories, "a")
        assert (code, "is in use by this process" in text) == (2, True)
    assert state(directories) == LATER
    ok("restore", directories, "a")
    assert state(directories) == FIRST


@pytest.mark.slow
def test_a_partition_that_moves_is_in_a_snapshot_once_and_its_move_goes_on(
    directories: list[str],
) -> None:
    settings = {**SETTINGS, "replica.alter.log.dirs.io.max.bytes.per.second": 0}
    with ottla.open(directories, settings) as log, Admin(log) as admin:
        moved = log.broker.topics.partition("orders", 0).directory.path
        other = next(one for one in directories if one != moved)
        broker = admin.log_directories()[0].broker
        admin.move_partitions(broker, {PLACE: other})
        ok("create", directories, "moving")
    ok("restore", directories, "moving")
    with ottla.open(directories, SETTINGS) as log:
        wait_until(lambda: log.broker.topics.partition("orders", 0).directory.path == other)
        ok("create", directories, "moved")
    assert state([f"{one}.snapshots/moved" for one in directories]) == FIRST
    assert (Path(other) / "orders-0").is_dir()


@pytest.mark.slow
def test_directories_that_are_left_out_missing_or_of_another_broker_are_named(
    directories: list[str], tmp_path: Path
) -> None:
    alone = directories[:1]
    other = str(tmp_path / "other")
    with ottla.open(other):
        pass
    code, text = end("create", alone, "a")
    assert (code, "a snapshot spans all directories of a broker" in text) == (1, True), text
    with ottla.open(directories, SETTINGS):
        code, text = end("create", alone, "a")
        assert (code, "a snapshot spans all directories of a broker" in text) == (1, True), text
        code, text = end("create", [*directories, other], "a")
        assert (code, "in use by the same process" in text) == (1, True), text
    ok("create", directories, "a")
    named = " ".join(f"-d {one}" for one in directories)
    for command, *words in (("restore", "a"), ("branch", "a", f"{tmp_path}/b")):
        code, text = end(command, alone, *words)
        assert (code, f"is of {named}; name exactly these" in text) == (1, True), text
    code, text = end("branch", directories, "a", f"{tmp_path}/b")
    assert (code, f"has {len(directories)} directories; name as many" in text) == (1, True), text
    last = directories[-1]
    shutil.move(last, f"{last}.lost")
    code, text = end("restore", directories, "a")
    assert (code, f"{last} is not there, but " in text) == (1, True), text
    code, text = end("create", directories, "b")
    assert code != 0
    assert last in text
    shutil.move(f"{last}.lost", last)
    shutil.move(f"{last}.snapshots/a", f"{last}.snapshots/gone")
    code, text = end("restore", directories, "a")
    assert (code, f"snapshot a lacks {last}.snapshots/a" in text) == (1, True), text
    assert state(directories) == FIRST


@pytest.mark.slow
def test_directories_that_are_all_gone_are_restored(directories: list[str]) -> None:
    ok("create", directories, "a")
    for one in directories:
        shutil.move(one, f"{one}.lost")
    ok("restore", directories, "a")
    assert state(directories) == FIRST


@pytest.mark.slow
def test_the_parts_lie_together_where_a_place_is_named(
    directories: list[str], tmp_path: Path
) -> None:
    place = str(tmp_path / "elsewhere")
    ok("create", directories, "a", "--in", place)
    assert ok("list", directories, "-q", "--in", place) == "a"
    with ottla.open(directories, SETTINGS) as log:
        append(log)
    ok("restore", directories, "a", "--in", place)
    assert state(directories) == FIRST
