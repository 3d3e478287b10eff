"""Kafka's logs, damaged and repaired: only the batch that was hit is missing afterwards."""

import shutil
from pathlib import Path

import pytest

from ottla.storage.damage_scan import ScannedBatch, scan_log
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.repair import RepairOptions, copy_directory, repair
from tests.golden.directories import CASES, FILES, GOLDEN

OPTIONS = RepairOptions(now_ms=0, deep=True)


def checksums(directory: Path) -> list[int]:
    """Of all sound batches of a log directory."""
    found = []
    for path in sorted(directory.glob("*/*.log")):
        file = FILES.open(str(path))
        for one in scan_log(file, int(path.stem)):
            if isinstance(one, ScannedBatch):
                found.append(one.batch.crc)  # type: ignore[attr-defined]
        file.close()
    return found


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A golden log directory that may be written to."""
    target = tmp_path / "copy"
    copy_directory(FILES, str(GOLDEN / request.param / "logdir"), str(target))
    return target


@pytest.mark.parametrize("copy", CASES, indirect=True)
def test_a_bad_byte_in_the_first_log_costs_one_batch(copy: Path) -> None:
    before = checksums(copy)
    log = max(copy.glob("*/*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x10
    log.write_bytes(content)
    assert not check(FILES, str(copy), deep=True).is_sound
    report = repair(FILES, str(copy), OPTIONS)
    assert report.is_sound
    after = checksums(copy)
    assert len(after) >= len(before) - 1
    assert set(after) <= set(before)


@pytest.mark.parametrize("copy", ["kill9-recovered"] if CASES else [], indirect=True)
def test_indexes_that_kafka_left_overwritten_are_rebuilt(copy: Path) -> None:
    before = checksums(copy)
    assert repair(FILES, str(copy), OPTIONS).is_sound
    assert checksums(copy) == before


@pytest.mark.parametrize("copy", CASES, indirect=True)
def test_all_that_is_derived_can_be_rebuilt(copy: Path) -> None:
    before = checksums(copy)
    logs = list(copy.glob("*/*.log"))
    for log in logs:
        for ending in (".index", ".timeindex"):
            if log.with_suffix(ending).exists():
                log.with_suffix(ending).write_bytes(b"\x7f" * 24)
    for path in copy.glob("*/leader-epoch-checkpoint"):
        path.write_text("nonsense")
    assert repair(FILES, str(copy), OPTIONS).is_sound
    assert checksums(copy) == before
    shutil.rmtree(copy)
