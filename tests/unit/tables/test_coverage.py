"""Who answers for which offsets, after any loads and reruns."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.tables.entries import Action, LedgerEntry, LoadedPartition
from ottla.tables.ledger.coverage import covered

END = 40


def entry(number: int, from_offset: int, until_offset: int, action: Action) -> LedgerEntry:
    read = LoadedPartition(
        topic="orders",
        topic_id=None,
        partition=0,
        from_offset=from_offset,
        until_offset=until_offset,
        row_count=until_offset - from_offset,
    )
    return LedgerEntry(
        commit_id=number, committed_ms=0, source="", partitions=(read,), files=(), action=action
    )


@given(
    st.lists(st.integers(1, 9), max_size=5),
    st.lists(st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted), max_size=5),
)
def test_every_offset_is_answered_for_by_the_last_commit_that_read_it(
    loads: list[int], reruns: list[list[int]]
) -> None:
    ends = [sum(loads[:number]) for number in range(len(loads) + 1)]
    answers: dict[int, int] = {}
    entries = []
    ranges = [(ends[n], ends[n + 1], Action.LOAD) for n in range(len(loads))]
    ranges += [(min(first, ends[-1]), min(last, ends[-1]), Action.RERUN) for first, last in reruns]
    for number, (first, last, action) in enumerate(ranges):
        entries.append(entry(number, first, last, action))
        answers.update(dict.fromkeys(range(first, last), number))
    pieces = covered(entries).get(0, [])
    assert {
        offset: piece.commit_id
        for piece in pieces
        for offset in range(piece.from_offset, piece.until_offset)
    } == answers
    assert sum(piece.until_offset - piece.from_offset for piece in pieces) == len(answers)
    assert pieces == sorted(pieces, key=lambda piece: piece.from_offset)
