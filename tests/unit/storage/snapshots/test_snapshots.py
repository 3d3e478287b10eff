"""Snapshots share files: a log that is cut, continued or repaired leaves theirs as they were."""

from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.log_file import LogFile
from ottla.storage.snapshots.snapshots import Snapshots
from tests.support.brokers import NOW_MS, batch, open_broker
from tests.support.logs import values
from tests.support.moving import SMALL_SEGMENTS, numbered

FIRST_LOG = "00000000000000000000.log"


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """The first log of a directory, and that of its snapshot: one file."""
    directory = tmp_path / "d"
    broker = open_broker(OsFileSystem(), str(directory), **SMALL_SEGMENTS)
    broker.admin.create_topic(NewTopic(name="t"))
    for content in numbered(9):
        broker.appends.append(broker.topics.partition("t", 0), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()
    broker.close()
    found = Snapshots(OsFileSystem(), str(directory))
    made = found.create("a", now_ms=NOW_MS, on_copied=lambda done, total: None)
    own, kept = directory / "t-0" / FIRST_LOG, Path(made.paths[0]) / "t-0" / FIRST_LOG
    assert own.samefile(kept)
    assert 0 < made.own_size < made.size
    return own, kept


def test_a_log_cut_back_into_a_shared_segment_continues_in_a_file_of_its_own(
    paths: tuple[Path, Path],
) -> None:
    own, kept = paths
    before = kept.read_bytes()
    broker = open_broker(OsFileSystem(), str(own.parents[1]), **SMALL_SEGMENTS)
    log = broker.topics.partition("t", 0).log
    log.maintenance.truncate_to(1, now_ms=NOW_MS)
    broker.appends.append(broker.topics.partition("t", 0), batch(b"new"), now_ms=NOW_MS)
    broker.appends.write_out()
    assert values(log) == [b"0", b"new"]
    broker.close()
    assert kept.read_bytes() == before
    assert not own.samefile(kept)


def test_an_append_to_a_shared_file_goes_to_a_copy(paths: tuple[Path, Path]) -> None:
    own, kept = paths
    before = kept.read_bytes()
    modified = own.stat().st_mtime_ns // 1_000_000
    files = OsFileSystem()
    log = LogFile.open(files, str(own))
    quoted = log.slice(0, 8)
    assert files.status(str(own)).modified_ms == modified  # type: ignore[union-attr]
    log.append(b"more")
    log.write_out()
    log.close()
    assert own.read_bytes() == before + b"more"
    assert kept.read_bytes() == before
    assert quoted.size == 8
    assert not (own.parent / f"{own.name}.tmp").exists()


@pytest.mark.parametrize("position", [20, -5], ids=["its header", "its end"])
def test_a_repair_in_place_changes_no_snapshot(paths: tuple[Path, Path], position: int) -> None:
    own, kept = paths
    damaged = bytearray(kept.read_bytes())
    damaged[position] ^= 1
    with own.open("r+b") as file:
        file.write(damaged)
    repair(OsFileSystem(), str(own.parents[1]), RepairOptions(now_ms=NOW_MS))
    assert own.read_bytes() != damaged
    assert kept.read_bytes() == damaged


def test_a_name_that_is_taken_gets_a_number(paths: tuple[Path, Path]) -> None:
    own, _ = paths
    found = Snapshots(OsFileSystem(), str(own.parents[1]))
    assert found.free_name("b") == "b"
    assert found.free_name("a") == "a-2"
    found.create("a-2", now_ms=NOW_MS, on_copied=lambda done, total: None)
    assert found.free_name("a") == "a-3"
