"""`ottla log check` has nothing to say against what Kafka wrote, compacted and killed included."""

import pytest

from ottla.storage.diagnosis.directory_check import check
from ottla.storage.findings import FindingKind
from tests.golden.directories import CASES, FILES, GOLDEN, is_overwritten, overwritten_files

EXCEPT_OVERWRITTEN = {"kill9-recovered"}
"""Indexes that were filled with 0xff below the recovery point, where Kafka left them so."""


@pytest.mark.parametrize("case", CASES)
def test_every_golden_directory_is_sound(case: str) -> None:
    report = check(FILES, str(GOLDEN / case / "logdir"), deep=True)
    wrong = [one for one in report.findings if not one.is_note]
    assert report.is_sound == (case not in EXCEPT_OVERWRITTEN), wrong
    assert sum(one.record_count for one in report.partitions) > 0
    assert {one.kind for one in report.findings if one.is_note} <= {FindingKind.STATE}


def test_the_overwritten_indexes_are_named_and_nothing_else() -> None:
    expected = {str(path) for path in overwritten_files("*index")}
    for case in EXCEPT_OVERWRITTEN & set(CASES):
        report = check(FILES, str(GOLDEN / case / "logdir"), deep=True)
        assert {one.path for one in report.findings if not one.is_note} == expected


@pytest.mark.parametrize("case", CASES)
def test_every_partition_is_sound_alone(case: str) -> None:
    for path in sorted((GOLDEN / case / "logdir").iterdir()):
        if path.is_dir() and not any(is_overwritten(one) for one in path.iterdir()):
            assert check(FILES, str(path)).is_sound
