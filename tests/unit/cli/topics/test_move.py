"""`ottla topics move`: between two log directories of a broker, and of directories at rest."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.embedded.log import Log

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Disks:
    """A log with a partition of `orders` in each of two directories, and the command on it."""

    def __init__(self, folder: Path, log: Log, target: list[str]) -> None:
        self.first, self.second = str(folder / "one"), str(folder / "two")
        self._log, self.target = log, target

    def move(self, *words: str, code: int = 0) -> list[str]:
        result = CliRunner().invoke(cli, ["topics", "move", *self.target, *words])
        assert result.exit_code == code, result.output
        return result.output.splitlines()

    def places(self) -> list[str]:
        """Directories of partitions 0 and 1."""
        with ottla.Admin(self._log) as admin:
            found = {
                place.partition: one.path
                for one in admin.log_directories()
                for place in one.sizes
                if place.topic == "orders"
            }
        return [found[0], found[1]]


@pytest.fixture
def settings() -> dict[str, object]:
    return {}


@pytest.fixture
def disks(tmp_path: Path, settings: dict[str, object]) -> Iterator[Disks]:
    with ottla.open([tmp_path / "one", tmp_path / "two"], settings) as log:
        log.create_topic("orders", partitions=2)
        for partition in range(2):
            log.append("orders", b"tea", partition=partition)
        yield Disks(tmp_path, log, [log.listen("127.0.0.1:0").address])


def test_partitions_move_to_the_named_directory(disks: Disks) -> None:
    first, second = disks.places()
    plan = disks.move("orders:0", "--to", second, "--dry-run")
    assert plan == [f"orders-0 of broker 1: {first} -> {second} (71 B)"]
    assert disks.places() == [first, second]
    assert disks.move("orders:0", "--to", second, "--yes") == [*plan, "moved 1 partition"]
    assert disks.places() == [second, second]
    assert disks.move("orders", "--to", second, "--yes") == ["nothing is to be moved"]


def test_a_directory_is_emptied(disks: Disks) -> None:
    first, second = disks.places()
    (moved,) = disks.move("--from", first, "--to", second, "--yes", "--json")
    assert json.loads(moved) == {
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "before": first,
        "after": second,
        "size": 71,
        "is_done": True,
    }
    assert disks.places() == [second, second]


@pytest.mark.parametrize("settings", [{RATE: 0}])
def test_moves_under_way_are_listed_and_cancelled(disks: Disks) -> None:
    first, second = disks.places()
    assert disks.move() == ["no moves are under way"]
    begun = disks.move("orders", "--to", second, "--yes", "--no-wait")
    assert begun[-1] == "the moves have begun; ottla topics move TARGET lists them"
    text = f"orders-0 of broker 1: {first} -> {second}: 0 B of 71 B copied, 1 offsets behind"
    assert disks.move() == [text]
    assert disks.move("-q") == ["orders-0"]
    assert disks.move("orders:1") == ["no moves are under way"]
    assert disks.move("--cancel", "--yes") == ["cancelled 1 move"]
    assert disks.move("--cancel", "--yes") == ["no moves are under way"]
    assert disks.places() == [first, second]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["orders:7", "--to", "x"], "orders:7: there is no such partition"),
        (["ordrs", "--to", "x"], "there is no topic ordrs; did you mean orders?"),
        (["--to", "x"], "name the topics to move, or the log directory to empty with --from"),
        (["--from", "x"], "name the log directory to move to with --to DIR"),
        (["orders", "--to", "x"], "--to x: there is no such log directory: broker 1 has"),
        (["--broker", "9"], "--broker 9: no such broker is up; brokers that are up: 1"),
    ],
)
def test_a_mistake_is_named_with_what_there_is(disks: Disks, words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["topics", "move", *disks.target, *words])
    assert result.exit_code
    assert said in result.output


@pytest.mark.slow  # without a server's loop a move begins at a second's tick
def test_directories_at_rest_are_moved_between_too(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    with ottla.open(paths) as log:
        log.create_topic("orders", partitions=2)
    given = [word for path in paths for word in ("-d", str(path))]
    disks = Disks(tmp_path, log, given)
    assert disks.move("orders", "--to", disks.second, "--yes")[-1] == "moved 1 partition"
    assert {one.name for one in paths[1].glob("orders-[01]")} == {"orders-0", "orders-1"}
