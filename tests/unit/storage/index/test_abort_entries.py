"""Which entries of a transaction index contradict the aborted transactions of its log."""

from dataclasses import replace

from ottla.storage.index.abort_entries import missing_aborts, offsets_text, wrong_entries
from ottla.storage.index.transaction_index import AbortedTransaction


def aborted(first: int, last: int, producer: int = 1) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer, first_offset=first, last_offset=last, last_stable_offset=first
    )


def test_missing_is_what_no_entry_names_from_its_beginning_on() -> None:
    known = [aborted(0, 5), aborted(3, 9, producer=2), aborted(12, 20)]
    markers = [
        aborted(0, 5),
        aborted(3, 9),
        aborted(10, 20),
        aborted(12, 20, producer=2),
    ]
    assert missing_aborts(known, markers) == markers[1:]
    assert missing_aborts([aborted(8, 20)], [aborted(10, 20)]) == []


def test_only_the_first_few_are_named_to_people() -> None:
    some = [aborted(number, number + 1) for number in range(5)]
    assert offsets_text(some[:2]) == "0 to 1, 1 to 2"
    assert offsets_text(some) == "0 to 1, 1 to 2, 2 to 3 and 2 more"


FOUND = [aborted(0, 5), aborted(3, 9, producer=2)]


def test_entries_of_a_whole_log_are_exactly_its_aborted_transactions() -> None:
    assert list(wrong_entries(FOUND, FOUND, is_whole=True)) == []
    other = replace(FOUND[1], last_stable_offset=7)
    (wrong,) = wrong_entries(FOUND, [FOUND[0], other], is_whole=True)
    assert (wrong.number, wrong.entry, wrong.aborted) == (1, FOUND[1], other)
    (without_marker,) = wrong_entries(FOUND, FOUND[:1], is_whole=True)
    assert (without_marker.entry, without_marker.aborted) == (FOUND[1], None)
    (missing,) = wrong_entries(FOUND[:1], FOUND, is_whole=True)
    assert (missing.number, missing.entry, missing.aborted) == (1, None, FOUND[1])


def test_after_compaction_entries_may_know_more_than_the_log() -> None:
    assert list(wrong_entries(FOUND, FOUND[:1], is_whole=False)) == []
    earlier = [replace(FOUND[0], last_stable_offset=1), aborted(4, 9, producer=2)]
    assert list(wrong_entries(FOUND, earlier, is_whole=False)) == []
    (late,) = wrong_entries(FOUND, [FOUND[0], aborted(2, 9, producer=2)], is_whole=False)
    assert late.entry == FOUND[1]


def test_no_entry_ends_after_the_log() -> None:
    (after,) = wrong_entries(FOUND, FOUND[:1], is_whole=False, end_offset=9)
    assert after.entry == FOUND[1]
