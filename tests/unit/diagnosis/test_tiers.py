"""`ottla doctor` names what is wrong with tiers, by the records about them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.base.times import second_text
from ottla.broker.tiering.tier_troubles import TIER_TROUBLES, TierTrouble, write_tier_troubles
from ottla.diagnosis.complaints import Complaint
from ottla.diagnosis.directories import read_directories
from ottla.diagnosis.doctor import check_directories
from ottla.diagnosis.tiers import PATIENCE_MS, check_tier, check_tier_troubles
from ottla.diagnosis.words.remedies import remedy_text
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.files.filenames import LOCK, log_file_name
from tests.golden.test_golden_remote_log_metadata import RECORDED
from tests.support.tiered import TieredPlace, uploaded
from tests.support.tiers import NOW_MS

LATER_MS = 1_900_000_000_000
"""After the recording."""


TIERED = {"remote.storage.enable": "true"}


def complaints(place: TieredPlace, now_ms: int = 0) -> list[Complaint]:
    directories = read_directories([str(place.data)], given=TIERED)
    (log,) = directories.logs("orders")
    config = directories.config("orders")
    explained = explain_log(log, config, NOW_MS, directories.file_system)
    return list(check_tier(directories, log, explained, now_ms=now_ms))


@contextmanager
def holding(directory: str) -> Iterator[None]:
    """As a running broker holds it."""
    lock = OsFileSystem().lock(f"{directory}/{LOCK}")
    assert lock is not None
    yield
    lock.release()


def test_a_sound_tier_needs_nothing(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (10, 19), (20, 25))
    assert complaints(place, now_ms=1 << 50) == []


def test_offsets_that_are_nowhere_are_a_problem(tmp_path: Path) -> None:
    (one,) = complaints(TieredPlace(tmp_path, [uploaded(1, 0, 9)], (20, 25)))
    assert (one.kind, one.is_note) == ("tier_gap", False)
    assert "offsets 10 to 19" in one.what
    assert f"ottla tier check {tmp_path}" in remedy_text(one, "")


def test_closed_segments_that_are_not_copied_for_long_are_a_problem(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 19), (20, 25))
    os.utime(place.partition / log_file_name(10), (NOW_MS / 1000, NOW_MS / 1000))
    assert complaints(place) == []  # No broker runs that would copy them.
    assert complaints(place, NOW_MS + PATIENCE_MS) == []
    (one,) = complaints(place, NOW_MS + PATIENCE_MS + 1000)
    assert one.kind == "tier_behind"
    assert "1 closed segments" in one.what
    assert "2023-11-14 22:13:20" in one.what


def test_what_the_broker_says_of_its_tier_is_a_problem_while_it_runs(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    troubles = [
        TierTrouble(what="copying orders-0", since_ms=NOW_MS, reason="403", of_store=True),
        TierTrouble(what="copying t-0", since_ms=NOW_MS + 1, reason="503", of_store=True),
        TierTrouble(what="copying big-0", since_ms=NOW_MS, reason="too much", is_over=True),
    ]
    data = str(place.data)
    write_tier_troubles(OsFileSystem(), data, "s3://b", troubles)
    for is_live in (False, True):
        with holding(data) if is_live else nullcontext():
            found = check_directories(read_directories([data], given=TIERED), NOW_MS)
            store, other = (one for one in found if one.where == "s3://b")
        assert (store.kind, other.kind) == ("tier_failing", "tier_work_failing")
        assert store.is_note is other.is_note is not is_live
        since = f"has failed since {second_text(NOW_MS)}"
        assert store.what.startswith(since + ("" if is_live else ", when the broker stopped") + ":")
        assert "503 (copying orders-0 and 1 more)" in store.what
        assert "is given up: too much" in other.what
    (place.data / TIER_TROUBLES).write_text("nonsense")
    (note,) = check_tier_troubles(read_directories([data], given=TIERED))
    assert (note.kind, note.is_note) == ("tier_troubles", True)


def test_damaged_records_are_a_problem_of_the_directory(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    (log,) = (place.data / "__remote_log_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    found = check_directories(read_directories([str(place.data)], given=TIERED), NOW_MS)
    assert str(log) in {one.where for one in found}


@pytest.mark.skipif(not RECORDED.exists(), reason="needs the recorded tiers")
def test_a_directory_of_a_tiered_kafka_has_no_problems() -> None:
    place = str(RECORDED / "1-basic" / "logdir")
    found = list(check_directories(read_directories([place]), LATER_MS))
    assert [one for one in found if not one.is_note] == []
    assert not any("__remote_log_metadata" in one.where for one in found)
