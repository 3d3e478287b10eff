"""An offset index and a time index against the batches of their log."""

import pytest

from ottla.record.batch import batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch
from ottla.storage.diagnosis.index_checks import IndexFindings, OffsetIndexCheck, TimeIndexCheck
from ottla.storage.diagnosis.index_entries import IndexContent
from ottla.storage.findings import Finding, FindingKind

BASE = 10
SIZE = 100
"""The batches of these tests are two records each, and begin at 0, 100, 200, ..."""


def content(*entries: tuple[int, int], size: int = 8, excess: int = 0) -> IndexContent:
    return IndexContent(entries=list(entries), entry_size=size, free_size=0, excess_size=excess)


def scanned(number: int, timestamp_ms: int = 0) -> ScannedBatch:
    builder = RecordBatchBuilder()
    builder.append(None, b"a", timestamp_ms)
    builder.append(None, b"b", timestamp_ms)
    data = bytearray(builder.build())
    data[:8] = (BASE + 2 * number).to_bytes(8, "big")
    return ScannedBatch(number * SIZE, batch_at(bytes(data)))


def region(number: int) -> DamagedRegion:
    return DamagedRegion(position=number * SIZE, size=SIZE, reason="CRC", is_tail=False)


def offset_findings(
    *entries: tuple[int, int],
    count: int = 4,
    damaged: int | None = None,
    is_growing: bool = False,
    excess: int = 0,
) -> list[Finding]:
    check = OffsetIndexCheck("index", content(*entries, excess=excess), BASE)
    for number in range(count):
        if number == damaged:
            check.skip(region(number))
        else:
            check.take(scanned(number))
    return list(check.findings(end=count * SIZE, is_growing=is_growing))


def test_entries_that_point_at_batches_by_their_last_offsets_are_sound() -> None:
    assert offset_findings((13, 100), (17, 300)) == []


def test_an_entry_for_an_append_of_several_batches_has_the_first_position_and_last_offset() -> None:
    assert offset_findings((15, 100)) == []


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ((13, 150), "no batch begins at position 150 of offset 13"),
        ((11, 100), "offset 11 points to a batch that begins at offset 12"),
        ((14, 100), "no batch ends at offset 14"),
        ((99, 900), "position 900 of offset 99 is after the log's end"),
        ((9, 100), "does not come after the segment's start at offset 10"),
    ],
)
def test_an_entry_that_points_elsewhere_is_named(entry: tuple[int, int], reason: str) -> None:
    (found,) = offset_findings(entry)
    assert (found.kind, found.path, found.position) == (FindingKind.OFFSET_INDEX, "index", 0)
    assert reason in found.reason


def test_what_does_not_ascend_is_named_by_its_place_in_the_file() -> None:
    (found,) = offset_findings((15, 200), (13, 100))
    assert found.position == 8
    assert "offset 13 at position 100 does not come after offset 15 at position 200" in found.reason


def test_entries_for_batches_that_are_still_to_be_written_are_no_damage() -> None:
    assert offset_findings((13, 100), (19, 400), is_growing=True) == []
    assert len(offset_findings((13, 100), (19, 400))) == 1


def test_entries_into_damage_are_not_blamed() -> None:
    assert offset_findings((15, 200), damaged=2) == []
    assert len(offset_findings((15, 150), damaged=2)) == 1


def test_many_wrong_entries_are_one_finding() -> None:
    (found,) = offset_findings((12, 1), (13, 2), (14, 3), excess=3)
    assert found.position == 0
    assert found.reason.endswith("(and 3 more wrong entries after it)")


def test_nothing_wrong_is_no_finding() -> None:
    assert list(IndexFindings(FindingKind.TIME_INDEX, "x").condensed()) == []


def time_findings(
    *entries: tuple[int, int],
    times: tuple[int | None, ...] = (50, 40, 70),
    is_growing: bool = False,
    is_active: bool = False,
) -> list[Finding]:
    """`None` is damage."""
    check = TimeIndexCheck("timeindex", content(*entries, size=12), BASE)
    for number, timestamp_ms in enumerate(times):
        if timestamp_ms is None:
            check.skip(region(number))
        else:
            check.take(scanned(number, timestamp_ms))
    return list(check.findings(is_growing=is_growing, is_active=is_active))


def test_entries_that_hold_the_largest_time_so_far_are_sound() -> None:
    assert time_findings((50, 11), (70, 15)) == []


@pytest.mark.parametrize(
    ("entries", "position", "reason"),
    [
        (((40, 13), (70, 15)), 0, "timestamp 40 is not the largest up to offset 13, which is 50"),
        (((50, 11), (50, 13), (70, 15)), 12, "does not come after timestamp 50 at offset 11"),
        (((50, 11),), 0, "the segment's largest timestamp, 70, is missing at the end"),
        ((), 0, "the segment's largest timestamp, 70, is missing at the end"),
        (((50, 11), (70, 15), (90, 99)), 24, "offset 99 is after the log's end"),
    ],
)
def test_a_wrong_time_is_named(
    entries: tuple[tuple[int, int], ...], position: int, reason: str
) -> None:
    (found,) = time_findings(*entries)
    assert (found.kind, found.position) == (FindingKind.TIME_INDEX, position)
    assert reason in found.reason


def test_the_active_segments_last_entry_comes_when_it_is_ended() -> None:
    assert time_findings((50, 11), is_active=True) == []


def test_an_entry_for_what_is_still_to_be_written_is_no_damage() -> None:
    assert time_findings((50, 11), (70, 15), (90, 99), is_growing=True) == []


def test_after_damage_a_larger_time_is_believed_and_a_smaller_one_is_not() -> None:
    assert time_findings((50, 11), (90, 13), times=(50, None, 70)) == []
    (found,) = time_findings((60, 15), times=(50, None, 70))
    assert "timestamp 60 is not the largest up to offset 15" in found.reason
