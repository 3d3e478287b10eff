"""`mirror` and `audit` miss nothing that a directory has lost whose broker was killed at once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.metadata.deciding.topics import NewTopic
from tests.crash.judging import run
from tests.support.brokers import NOW_MS, batch, open_broker

SMALL = {"segment.bytes": "200"}
COUNT = 10


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a broker in its first minute has written, and a table of it."""
    place = tmp_path_factory.mktemp("killed")
    broker = open_broker(OsFileSystem(), str(place / "open"))
    for name in ("one", "two", CONSUMER_OFFSETS):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1, overrides=SMALL))
    for number in range(COUNT):
        for name in ("one", "two"):
            broker.appends.append(
                broker.topics.partition(name, 0), batch(b"%d" % number), now_ms=NOW_MS
            )
        broker.appends.write_out()
    shutil.copytree(place / "open", place / "data")
    broker.close()
    table = ["--into", str(place / "table"), "--engine", "local"]
    code, out, err = run("load", str(place / "data"), "one", *table)
    assert code == 0, out + err
    return place


def last_log(path: Path) -> Path:
    return max(path.glob("one-0/*.log"))


def lose_the_directory(path: Path) -> None:
    shutil.rmtree(path / "one-0")


def lose_the_commits(path: Path) -> None:
    shutil.rmtree(path / f"{CONSUMER_OFFSETS}-0")


def lose_the_last_log(path: Path) -> None:
    last_log(path).unlink()


def lose_the_last_segment(path: Path) -> None:
    for one in path.glob(f"one-0/{last_log(path).stem}.*"):
        one.unlink()


def lose_the_last_batch(path: Path) -> None:
    content = last_log(path).read_bytes()
    last_log(path).write_bytes(content[:-69])


def lose_a_byte(path: Path) -> None:
    content = last_log(path).read_bytes()
    last_log(path).write_bytes(content[:-1])


LOSSES = [lose_the_directory, lose_the_last_log, lose_the_last_segment]
LOSSES += [lose_the_last_batch, lose_a_byte]


@pytest.mark.parametrize("loss", [*LOSSES, lose_the_commits], ids=lambda one: one.__name__)
@pytest.mark.slow
def test_a_mirror_of_a_killed_directory_names_what_is_lost(
    killed: Path, loss: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed / "data", data)
    loss(data)
    code, out, err = run("mirror", str(data), str(tmp_path / "copy"))
    assert code == 1, (out, err)
    assert (f"{CONSUMER_OFFSETS}-0" if loss is lose_the_commits else "one-0") in out + err


@pytest.mark.parametrize("loss", LOSSES, ids=lambda one: one.__name__)
@pytest.mark.slow
def test_an_audit_of_a_killed_directory_names_what_is_lost(
    killed: Path, loss: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed / "data", data)
    audit = ["audit", str(data), "one", "--table", str(killed / "table")]
    code, out, err = run(*audit)
    assert code == 0, (out, err)
    loss(data)
    for options in ([], ["--all"]):
        code, out, err = run(*audit, *options)
        assert code == 1, (out, err)
        assert "one-0" in out + err
