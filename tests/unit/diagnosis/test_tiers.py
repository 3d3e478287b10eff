"""`ottla doctor` names what is wrong with tiers, by the records about them."""

import os
from pathlib import Path

import pytest

from ottla.diagnosis.complaints import Complaint
from ottla.diagnosis.directories import read_directories
from ottla.diagnosis.doctor import check_directories
from ottla.diagnosis.tiers import PATIENCE_MS, check_tier
from ottla.diagnosis.words.remedies import remedy_text
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.files.filenames import log_file_name
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
