"""Notes of batches that are read in parts come to the roll-up of the whole range."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import OffsetRange
from ottla.record.batch import RecordBatch
from ottla.record.batch_notes import BatchNotes, RangeNotes
from ottla.record.batch_roll_up import roll_up
from ottla.record.builder import RecordBatchBuilder


def batches(sizes: list[int]) -> list[RecordBatch]:
    """Neighbouring batches of so many records from offset 0 on; a negative size is a gap."""
    found, offset = [], 0
    for size in sizes:
        if size > 0:
            builder = RecordBatchBuilder()
            for number in range(size):
                builder.append(None, b"%d" % (offset + number), 1_700_000_000_000)
            found.append(RecordBatch(bytearray(builder.build())))
            found[-1].stamp(offset, leader_epoch=offset % 7)
        offset += abs(size)
    return found


def part(offsets: tuple[int, int]) -> OffsetRange:
    return OffsetRange(from_offset=offsets[0], until_offset=offsets[1])


def noted(every: list[RecordBatch], offsets: tuple[int, int]) -> RangeNotes:
    """As a task notes that reads whole batches, some of which may lie before its range."""
    notes = RangeNotes(part(offsets))
    for one in every:
        notes.take([bytes(one.bytes_view())])
    return notes


@given(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=8), st.data())
def test_parts_in_any_order_come_to_the_roll_up_of_the_range(
    sizes: list[int], data: st.DataObject
) -> None:
    every, end = batches(sizes), sum(map(abs, sizes))
    inner = data.draw(st.sets(st.integers(1, end - 1))) if end > 1 else set()
    edges = [0, *sorted(inner), end]
    parts = list(pairwise(edges))
    notes = BatchNotes()
    for offsets in data.draw(st.permutations(parts)):
        notes.add(part(offsets), noted(every, offsets))
    assert notes.take_roll_up(part((0, end))) == roll_up(every)
    assert notes.take_roll_up(part((0, end))) is None  # they are forgotten


def test_notes_of_another_range_come_to_nothing() -> None:
    every = batches([2, 2, 2])
    for there, wanted in (((0, 4), (0, 6)), ((2, 6), (0, 6)), ((0, 6), (0, 4))):
        notes = BatchNotes()
        notes.add(part(there), noted(every, there))
        assert notes.take_roll_up(part(wanted)) is None


def test_a_part_that_is_read_again_counts_as_it_was_read_last() -> None:
    notes, whole = BatchNotes(), (0, 4)
    notes.add(part(whole), noted(batches([2, 2]), whole))
    notes.add(part(whole), noted(batches([4]), whole))
    assert notes.take_roll_up(part(whole)) == roll_up(batches([4]))


def test_batches_of_an_old_format_are_left_to_another_reading() -> None:
    notes, old = BatchNotes(), bytearray(batches([2])[0].bytes_view())
    old[16] = 1  # the magic
    range_notes = RangeNotes(part((0, 2)))
    range_notes.take([old])
    notes.add(part((0, 2)), range_notes)
    assert notes.take_roll_up(part((0, 2))) is None
