"""What is known of a segment is compared with its files: another's file, and a lost end."""

import pytest

from ottla.base.files import join
from ottla.storage.files.integrity import NOTHING_KNOWN, Integrity, SegmentFacts
from ottla.storage.findings import FindingKind
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.segment_facts import (
    first_checksum,
    known_losses,
    segment_facts,
    wrong_file,
)
from ottla.testing import FakeFileSystem
from tests.support.logs import fill, open_log


@pytest.fixture
def log() -> PartitionLog:
    log = open_log(FakeFileSystem())
    fill(log, 12)
    return log


def test_the_facts_of_a_segment_are_those_of_its_files(log: PartitionLog) -> None:
    first = log.segments.first
    facts = segment_facts(log.file_system, first.log, join("data/t-0", "none.txnindex"))
    assert facts == SegmentFacts(first_checksum(first.log), (0, 0), first.log.size)
    assert wrong_file(first.log, facts) is None


def test_another_sound_first_batch_is_another_segments_file(log: PartitionLog) -> None:
    first, second = log.segments.values[:2]
    found = wrong_file(first.log, SegmentFacts(first_checksum(second.log)))
    assert found is not None
    assert (found.kind, found.path) == (FindingKind.WRONG_FILE, first.log.path)
    assert "this is the file of another segment" in found.reason
    found = wrong_file(first.log, SegmentFacts(size=0))
    assert found is not None
    assert "it was empty: this is the file of another" in found.reason


def test_where_nothing_is_known_any_file_is_right(log: PartitionLog) -> None:
    assert wrong_file(log.segments.first.log, NOTHING_KNOWN) is None


def test_a_first_batch_that_is_not_sound_is_damage_and_no_other_file(log: PartitionLog) -> None:
    first, second = log.segments.values[:2]
    log.file_system.open(first.log.path, writable=True).pwrite(b"\xff\xff", 70)
    assert wrong_file(first.log, SegmentFacts(first_checksum(second.log))) is None


def test_a_segment_that_is_shorter_than_it_was_has_lost_its_end(log: PartitionLog) -> None:
    first, second = log.segments.values[:2]
    sizes = {one.base_offset: SegmentFacts(size=one.log.size) for one in log.segments.values}
    whole = known_losses(Integrity(segments=sizes), log.segments.values, 0)
    assert whole.within(0, log.log_end_offset) is None
    sizes[0] = SegmentFacts(size=first.log.size + 1)
    cut = known_losses(Integrity(segments=sizes), log.segments.values, 0)
    assert cut.segments == ((second.base_offset, second.base_offset),)
    sizes[0] = SegmentFacts(size=first.log.size)
    first.truncate_to(10)
    cut = known_losses(Integrity(segments=sizes), log.segments.values, 0)
    assert cut.within(0, second.base_offset) == (10, second.base_offset)
