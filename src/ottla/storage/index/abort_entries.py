"""Judges the entries of a transaction index by the aborted transactions of its log.

The file has no checksum, and with a missing or wrong entry aborted records look committed. Readers,
the scan of a log that Kafka wrote, and checks ask here. Recovery looks at the batches that single
entries name instead (`transaction_check`), since a replay of the log would take too long. Format
page: docs/format/transaction-index.md.
"""

from collections.abc import Iterable, Iterator, Sequence

from ottla.base.texts import some_text
from ottla.base.values import dataclass
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.index.transaction_index import AbortedTransaction

OFFSETS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongEntry:
    """An entry that contradicts the log, or one that is missing (then `entry` is `None`)."""

    number: int
    """The entry's, or how many there are."""
    entry: AbortedTransaction | None
    aborted: AbortedTransaction | None
    """The transaction as the log has it; `None` if it has no such transaction."""


def wrong_entries(
    entries: Sequence[AbortedTransaction],
    aborted: Iterable[AbortedTransaction],
    *,
    is_whole: bool,
    end_offset: int = MAX_OFFSET,
) -> Iterator[WrongEntry]:
    """The entries that contradict the log, and then those that are missing.

    `aborted` are the log's transactions that end before `end_offset`. Unless the log `is_whole`,
    compaction may have removed markers, and the first batches of transactions: then an entry must
    only begin no later than its transaction.
    """
    by_end = {(one.producer_id, one.last_offset): one for one in aborted}
    for number, one in enumerate(entries):
        other = by_end.pop((one.producer_id, one.last_offset), None)
        is_late = other is not None and one.first_offset > other.first_offset
        if (one != other if is_whole else is_late) or one.last_offset >= end_offset:
            yield WrongEntry(number=number, entry=one, aborted=other)
    for missing in by_end.values():
        yield WrongEntry(number=len(entries), entry=None, aborted=missing)


def missing_aborts(
    entries: Iterable[AbortedTransaction], aborted: Iterable[AbortedTransaction]
) -> list[AbortedTransaction]:
    """The `aborted` transactions without an entry, or whose entry begins too late, by their end."""
    wrong = wrong_entries(list(entries), aborted, is_whole=False)
    missing = [one.aborted for one in wrong if one.aborted is not None]
    return sorted(missing, key=lambda one: one.last_offset)


def offsets_text(aborted: Iterable[AbortedTransaction]) -> str:
    """The offsets of the first transactions, and how many more there are, for messages."""
    every = [f"{one.first_offset} to {one.last_offset}" for one in aborted]
    return some_text(every, OFFSETS_SHOWN)
