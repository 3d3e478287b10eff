"""Which gaps are losses: what is recorded counts when there is a gap, and not before."""

import pytest

from ottla.base.files import join, replace_file
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS, log_file_name
from ottla.storage.files.integrity import Integrity, SegmentFacts, integrity_text
from ottla.storage.reading.lost_offsets import Gaps, LostOffsetsError, lost_front
from ottla.testing import FakeFileSystem

PATH = "data/t-0"
HELD = SegmentFacts(first_checksum=1)


def disk(known: Integrity | None, *base_offsets: int) -> FakeFileSystem:
    """A partition's directory with some log files, and with what is known of the log."""
    files = FakeFileSystem()
    files.make_directory("data")
    files.make_directory(PATH)
    for one in base_offsets:
        replace_file(files, join(PATH, log_file_name(one)), b"")
    if known is not None:
        replace_file(files, join(PATH, INTEGRITY), integrity_text(known))
    return files


@pytest.mark.parametrize(
    ("known", "gap", "lost"),
    [
        (Integrity(gapless_from=0, gap_checkpoint=0), (3, 5), (3, 5)),
        (Integrity(gapless_from=4, gap_checkpoint=0), (3, 5), (4, 5)),
        (Integrity(gapless_from=5, gap_checkpoint=0), (3, 5), None),
        (Integrity(gapless_from=0, gap_checkpoint=9), (3, 5), None),
        (Integrity(gapless_from=0), (3, 5), None),
        (Integrity(gapless_from=0), (30, 35), (30, 35)),
        (Integrity(segments={0: HELD, 10: HELD, 20: HELD}), (7, 20), (10, 20)),
        (Integrity(segments={0: HELD, 10: SegmentFacts(), 20: HELD}), (7, 20), None),
        (None, (3, 5), None),
    ],
    ids=[
        "no gaps at all", "in part", "before", "a checkpoint", "compacted", "after compaction",
        "a listed segment", "an empty segment", "nobody knows",
    ],
)  # fmt: skip
def test_a_gap_is_a_loss_as_far_as_is_recorded(
    known: Integrity | None, gap: tuple[int, int], lost: tuple[int, int] | None
) -> None:
    gaps = Gaps(disk(known, 0, 20), PATH, lambda: 25)
    damage = gaps.damage("log", 7, gap)
    assert (damage and (damage.from_offset, damage.until_offset)) == lost
    if lost is None:
        gaps.check("log", 7, gap)
    else:
        with pytest.raises(LostOffsetsError, match="the batches before it are missing"):
            gaps.check("log", 7, gap)


def test_a_gap_that_compaction_has_recorded_before_it_left_it_is_none() -> None:
    files = disk(Integrity(gapless_from=0, gap_checkpoint=0), 0)
    gaps = Gaps(files, PATH, lambda: 0)
    replace_file(
        files, join(PATH, INTEGRITY), integrity_text(Integrity(gapless_from=0, gap_checkpoint=9))
    )
    assert gaps.damage("log", 0, (3, 5)) is None
    assert gaps.damage("log", 0, (9, 10)) is not None


@pytest.mark.parametrize(
    ("begun", "recorded", "known", "lost"),
    [
        (0, 0, Integrity(segments={0: HELD}), (0, 8)),
        (0, 3, Integrity(segments={0: HELD}), (3, 8)),
        (8, 0, Integrity(segments={0: HELD}), None),
        (0, 8, Integrity(segments={0: HELD}), None),
        (0, 0, Integrity(segments={0: HELD}, start_offset=8), None),
        (0, 0, None, None),
    ],
)
def test_the_front_is_lost_where_both_files_had_offsets_before_the_first_segment(
    begun: int, recorded: int, known: Integrity | None, lost: tuple[int, int] | None
) -> None:
    files = disk(known, 8)
    replace_file(files, join(PATH, LEADER_EPOCHS), b"0\n1\n0 %d\n" % begun)
    damage = lost_front(files, PATH, 8, recorded)
    assert (damage and (damage.from_offset, damage.until_offset)) == lost


def test_epochs_that_cannot_be_read_show_nothing() -> None:
    files = disk(Integrity(segments={0: HELD}), 8)
    replace_file(files, join(PATH, LEADER_EPOCHS), b"nonsense")
    assert lost_front(files, PATH, 8, 0) is None


@pytest.mark.parametrize("content", [None, b"nonsense", b"0\n1\n0 8\n"])
@pytest.mark.parametrize(
    ("known", "lost"),
    [
        (Integrity(segments={0: HELD, 4: HELD}), (0, 8)),
        (Integrity(segments={0: HELD, 4: HELD}, start_offset=4), (4, 8)),
        (Integrity(segments={0: SegmentFacts()}), None),
        (Integrity(segments={8: HELD}), None),
    ],
)
def test_without_a_power_failure_the_listed_segments_alone_show_what_is_lost(
    content: bytes | None, known: Integrity, lost: tuple[int, int] | None
) -> None:
    files = disk(known, 8)
    if content is not None:
        replace_file(files, join(PATH, LEADER_EPOCHS), content)
    damage = lost_front(files, PATH, 8, 0, is_same_boot=True)
    assert (damage and (damage.from_offset, damage.until_offset)) == lost
    assert damage is None or INTEGRITY in damage.reason


@pytest.mark.parametrize("content", [None, b"0\n1\n0 0\n"])
@pytest.mark.parametrize(
    ("known", "lost"),
    [
        (Integrity(segments={0: HELD, 4: HELD}), (0, 8)),
        (Integrity(segments={0: HELD, 4: HELD}, start_offset=4), (4, 8)),
        (Integrity(segments={0: HELD, 4: HELD}, start_offset=8), None),
        (Integrity(segments={8: HELD}), None),
    ],
)
@pytest.mark.parametrize("is_same_boot", [True, False])
def test_of_a_tiered_log_the_epochs_do_not_show_what_was_here(
    content: bytes | None, known: Integrity, is_same_boot: bool, lost: tuple[int, int] | None
) -> None:
    files = disk(known, 8)
    if content is not None:
        replace_file(files, join(PATH, LEADER_EPOCHS), content)
    damage = lost_front(files, PATH, 8, 0, is_same_boot=is_same_boot, is_tiered=True)
    assert (damage and (damage.from_offset, damage.until_offset)) == lost


def test_a_lost_integrity_file_makes_no_front_of_a_tiered_log_lost() -> None:
    files = disk(Integrity(segments={8: HELD}), 8)
    replace_file(files, join(PATH, LEADER_EPOCHS), b"0\n1\n0 0\n")
    replace_file(files, join(PATH, INTEGRITY), b"nonsense")
    assert lost_front(files, PATH, 8, 0) is not None
    assert lost_front(files, PATH, 8, 0, is_tiered=True) is None
