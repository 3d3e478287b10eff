"""Compaction in parts that run separately, for logs with more keys than one map can hold.

The parts read each segment's transactions, read each segment's keys, and copy each group. The
caller joins the keys and gives each group the offsets that it retains. The resulting files are the
same as those of `compact`. This module imports numpy.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from ottla.record.batch import Batch, InvalidBatchError
from ottla.storage.compaction.compaction import (
    MAX_GROUP_SIZE,
    CleanedGroup,
    CompactionPlan,
    CompactionStats,
    Copying,
    SourceReader,
    Surroundings,
)
from ottla.storage.compaction.grouping import SegmentSource
from ottla.storage.compaction.transactions import (
    NOTHING_SEEN,
    CleanedTransactions,
    TransactionsSeen,
)
from ottla.storage.compaction.vector_key_filter import Numbers, OffsetFilter, Words, key_digests


def transactions_in(plan: CompactionPlan, number: int, around: Surroundings) -> TransactionsSeen:
    """The transactions that one source leaves open or ends; reads only headers and markers."""
    source = plan.sources[number]
    if source.is_damaged:
        return NOTHING_SEEN
    reader = _reader(plan, number, around)
    transactions = CleanedTransactions(plan.aborted, source.base_offset)
    try:
        for _ in reader.data_batches(transactions, is_checked=False):
            pass  # `transactions` records the batches
    except InvalidBatchError as error:
        raise reader.damaged(0, str(error)) from error
    return transactions.seen


def transactions_before(
    plan: CompactionPlan, seen: Sequence[TransactionsSeen]
) -> dict[int, TransactionsSeen]:
    """The transactions before each source, by its base offset."""
    before = accumulate(seen, TransactionsSeen.then, initial=NOTHING_SEEN)
    return {one.base_offset: left for one, left in zip(plan.sources, before, strict=False)}


def read_keys(
    plan: CompactionPlan, number: int, around: Surroundings
) -> Iterator[tuple[Words, Words, Numbers]]:
    """The two halves of the key's digest, and the offset, of one source's committed records."""
    source = plan.sources[number]
    if source.is_damaged:
        return
    reader = _reader(plan, number, around)
    transactions = CleanedTransactions(plan.aborted, source.base_offset)
    try:
        for batches in _bunches(reader.data_batches(transactions)):
            yield from key_digests(batches)
    except InvalidBatchError as error:
        raise reader.damaged(0, str(error)) from error


def copy_group(
    plan: CompactionPlan,
    group: Sequence[SegmentSource],
    survivors: Numbers,
    seen: TransactionsSeen,
    around: Surroundings,
) -> tuple[CleanedGroup, CompactionStats]:
    """Writes the files of one group, durably; removes them if it fails.

    `survivors` are the offsets of the group's records that no later record of their key replaces,
    in any order. `seen` are the transactions before the group.
    """
    transactions = CleanedTransactions(plan.aborted, group[0].base_offset, seen)
    key_filter = OffsetFilter(np.sort(survivors))
    copying = Copying(plan, key_filter, around, plan.end_offset, transactions)
    try:
        return copying.run(group), copying.stats
    except BaseException:
        copying.take_back()
        raise


def _reader(plan: CompactionPlan, number: int, around: Surroundings) -> SourceReader:
    source, end = list(plan.with_ends())[number]
    return SourceReader(plan.directory, source, end, around)


def _bunches(batches: Iterator[Batch]) -> Iterator[list[Batch]]:
    """Lists of batches of about MAX_GROUP_SIZE bytes."""
    bunch: list[Batch] = []
    size = 0
    for batch in batches:
        bunch.append(batch)
        size += batch.size
        if size >= MAX_GROUP_SIZE:
            yield bunch
            bunch, size = [], 0
    if bunch:
        yield bunch
