"""Which batches a reader of committed records leaves out."""

import pytest

from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.segment.aborted_ranges import AbortedRanges


def batch(offset: int, producer_id: int, *, is_transactional: bool = True) -> RecordBatch:
    builder = RecordBatchBuilder(
        offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    builder.append(None, b"value", 0)
    return RecordBatch(builder.build())


def aborted(producer_id: int, first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=last + 1
    )


RANGES = AbortedRanges([aborted(1, 10, 20), aborted(1, 40, 50), aborted(2, 15, 45)])


@pytest.mark.parametrize(
    ("offset", "producer_id", "is_covered"),
    [
        (9, 1, False),
        (10, 1, True),
        (20, 1, True),
        (21, 1, False),
        (40, 1, True),
        (30, 2, True),
        (30, 3, False),
    ],
)
def test_a_producers_batches_between_the_offsets_are_covered(
    offset: int, producer_id: int, is_covered: bool
) -> None:
    assert RANGES.covers(batch(offset, producer_id)) is is_covered


def test_what_was_written_outside_a_transaction_is_read() -> None:
    assert not RANGES.covers(batch(15, 1, is_transactional=False))
    assert not AbortedRanges([]).covers(batch(15, 1))
