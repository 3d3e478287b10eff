"""Which gaps are losses, which are holes of a power failure, and that all who ask agree."""

import pytest

from ottla.base.files import join, remove_if_present
from ottla.config.setting import INT32_MAX
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.storage.files.losses import KnownLosses, SegmentGap, UnflushedGaps
from ottla.storage.findings import FindingKind
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import batch, fill, open_log

GAP = SegmentGap(before=10, end_offset=15, base_offset=20, last_offset=24)
PATH = "t-0/20.log"
JUDGE = UnflushedGaps(recovery_point=0, tight_from=0, log_start_offset=0, is_same_boot=False)


def test_what_is_lost_in_a_gap_is_what_no_compaction_can_have_removed() -> None:
    assert KnownLosses().within(0, 10) is None
    assert KnownLosses(gapless_from=4).within(0, 10) == (4, 10)
    assert KnownLosses(gapless_from=10).within(0, 10) is None
    assert KnownLosses(segments=((2, 6), (8, 20))).within(4, 10) == (4, 10)


@pytest.mark.parametrize(
    ("judge", "gap", "wrong_files"),
    [
        (UnflushedGaps(recovery_point=20, tight_from=0, log_start_offset=0, is_same_boot=False),
         GAP, []),
        (UnflushedGaps(recovery_point=0, tight_from=20, log_start_offset=0, is_same_boot=False),
         GAP, []),
        (UnflushedGaps(recovery_point=0, tight_from=0, log_start_offset=20, is_same_boot=False),
         GAP, []),
        (UnflushedGaps(recovery_point=0, tight_from=0, log_start_offset=0, is_same_boot=True),
         GAP, []),
        (JUDGE, GAP, [10]),
        (JUDGE, GAP, [15]),
        (JUDGE, SegmentGap(before=10, end_offset=15, base_offset=20, last_offset=INT32_MAX + 11),
         []),
    ],
)  # fmt: skip
def test_a_gap_with_another_cause_is_no_hole(
    judge: UnflushedGaps, gap: SegmentGap, wrong_files: list[int]
) -> None:
    assert judge.hole(PATH, gap, wrong_files) is None


def test_any_other_gap_is_a_hole() -> None:
    found = JUDGE.hole(PATH, GAP, [])
    assert found is not None
    assert (
        found.text
        == f"{PATH}: offsets {GAP.end_offset} to {GAP.base_offset - 1} are missing before it"
    )
    assert JUDGE.hole(PATH, GAP, [5]) is not None
    without_header = SegmentGap(before=10, end_offset=15, base_offset=20, last_offset=None)
    assert JUDGE.hole(PATH, without_header, []) is not None


@pytest.mark.parametrize("is_same_boot", [False, True])
@pytest.mark.parametrize("taken", ["tail", "segment"])
def test_a_check_names_the_holes_at_which_a_start_ends_the_log_and_no_others(
    is_same_boot: bool, taken: str
) -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    fill(log, 20)
    first, second, third = (one.base_offset for one in log.segments.values[:3])
    disk = disk.crash(CrashMode.KEEP)
    if not is_same_boot:
        remove_if_present(disk, join("data", BOOT_NOTE))
    if taken == "tail":
        file = disk.open(f"data/t-0/{first:020d}.log", writable=True)
        file.truncate(file.size() - len(batch(b"10", b"11")))
    else:
        disk.remove(f"data/t-0/{second:020d}.log")
    named = [one.path for one in check(disk, "data").findings if one.kind is FindingKind.GAP]
    after = {"tail": second, "segment": third}[taken]
    assert named == ([] if is_same_boot else [f"data/t-0/{after:020d}.log"])
    opened = open_log(disk)
    is_kept = after in [one.base_offset for one in opened.segments.values]
    assert is_kept == is_same_boot
