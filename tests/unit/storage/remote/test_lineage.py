"""Which uploads make up a log, and what is missing from it, by the leader epochs of the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.findings import Finding, FindingKind
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.lineage import (
    Chain,
    chain,
    highest_remote_offset,
    is_in_lineage,
    pieces_of,
)
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.support.histories import (
    END,
    cut,
    entries,
    epoch_of,
    ids,
    index_of,
    offsets,
    some_epochs,
    uploads_of,
)
from tests.support.remote_segments import (
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    number_of,
    update,
    upload,
)


def pieces(found: Chain) -> list[tuple[int | None, int, int]]:
    return [(number_of(one.segment), one.first_offset, one.last_offset) for one in found.pieces]


def lost(found: Chain) -> list[tuple[int, int | None]]:
    return [
        (one.lost.first, one.lost.last)
        for one in found.findings
        if one.kind is FindingKind.LOST_OFFSETS and one.lost is not None
    ]


def notes(found: Chain) -> list[str]:
    return [one.text for one in found.findings if one.kind is FindingKind.STATE]


# Whether a whole upload is in the lineage

LOG = {5: 10, 7: 15, 9: 100}
"""Leader epochs of a log, as in the comments of Kafka's `RemoteLogManager`."""


@pytest.mark.parametrize(
    ("start", "end", "epochs", "log"),
    [
        (10, 50, {5: 10, 7: 15}, LOG),
        (14, 150, {5: 14, 7: 15, 9: 100}, LOG),
        (14, 150, {5: 14, 7: 15, 9: 100}, {7: 51, 9: 100}),
        (20, 99, {7: 20}, LOG),
        (120, 150, {9: 120}, LOG),
        (10, 50, {5: 10, 6: 15, 7: 15}, LOG),
        (10, 50, {5: 10, 7: 15}, {5: 10, 6: 15, 7: 15, 9: 100}),
        (10, 50, {5: 10, 7: 15}, {7: 40, 9: 100}),
    ],
)
def test_an_upload_of_the_logs_epochs_is_in_its_lineage(
    start: int, end: int, epochs: dict[int, int], log: dict[int, int]
) -> None:
    assert is_in_lineage(upload(1, start, end, epochs), entries(log), 200)
    assert not is_in_lineage(upload(1, start, end, epochs), entries(log), end)
    assert not is_in_lineage(upload(1, start, end, epochs), [], 200)


@pytest.mark.parametrize(
    ("start", "end", "epochs"),
    [
        (0, 9, {4: 0}),  # of epochs before the log's first one
        (120, 150, {10: 120}),  # of a later epoch
        (10, 50, {5: 10, 6: 15}),  # of an epoch between, that the log does not have
        (14, 50, {5: 14, 7: 16}),  # of an epoch that begins elsewhere
        (14, 150, {5: 14, 9: 100}),  # without an epoch that the log has
        (10, 100, {5: 10, 7: 15}),  # with records after the end of an epoch
        (12, 50, {7: 12}),  # with records before the start of an epoch
    ],
)
def test_an_upload_of_other_epochs_is_not_in_the_lineage(
    start: int, end: int, epochs: dict[int, int]
) -> None:
    assert not is_in_lineage(upload(1, start, end, epochs), entries(LOG), 200)


# The chain

ONE_EPOCH = entries({0: 0})


def test_uploads_follow_each_other_up_to_the_first_local_offset() -> None:
    index = index_of(upload(2, 10, 19), upload(1, 0, 9), upload(3, 20, 29))
    found = chain(index, ONE_EPOCH, 3, 25)
    assert pieces(found) == [(1, 3, 9), (2, 10, 19), (3, 20, 24)]
    assert (found.start_offset, found.findings) == (3, ())


def test_a_chain_without_local_offsets_ends_with_the_tier() -> None:
    index = index_of(upload(1, 0, 9), upload(2, 10, 19))
    assert pieces(chain(index, ONE_EPOCH, 0, None)) == [(1, 0, 9), (2, 10, 19)]
    assert chain(SegmentIndex(PARTITION), (), 0, None).findings == ()


def test_a_log_that_is_all_local_has_no_pieces() -> None:
    found = chain(index_of(upload(1, 0, 9)), ONE_EPOCH, 10, 10)
    assert (found.pieces, found.findings) == ((), ())


def test_an_offset_that_two_uploads_have_is_there_once() -> None:
    index = index_of(upload(1, 0, 12), upload(2, 8, 19), upload(3, 0, 5))
    assert pieces(chain(index, ONE_EPOCH, 0, 20)) == [(1, 0, 7), (2, 8, 19)]


def test_a_segment_over_several_epochs_is_one_piece() -> None:
    index = index_of(upload(1, 0, 19, {0: 0, 2: 5, 3: 12}), upload(2, 20, 29, {3: 20}))
    found = chain(index, entries({0: 0, 2: 5, 3: 12}), 0, 30)
    assert pieces(found) == [(1, 0, 19), (2, 20, 29)]


def test_uploads_of_a_superseded_epoch_are_left_out_and_their_earlier_part_is_used() -> None:
    index = index_of(
        upload(1, 0, 9),
        upload(2, 10, 19, {0: 10, 2: 15}),
        upload(3, 20, 29, {2: 20}),
        upload(4, 15, 29, {4: 15}),
    )
    expected = [(1, 0, 9), (2, 10, 14), (4, 15, 29)]
    found = chain(index, entries({0: 0, 4: 15}), 0, 30)
    assert (pieces(found), found.findings) == (expected, ())
    by_uploads = chain(index, (), 0, 30)
    assert pieces(by_uploads) == expected
    assert notes(by_uploads) == [
        "t-0: there are no leader epochs of the log: those of the uploads are used"
    ]


def test_epochs_before_the_first_one_of_the_log_are_those_of_uploads() -> None:
    index = index_of(
        upload(1, 0, 9, {0: 0}), upload(2, 10, 19, {0: 10, 2: 15}), upload(3, 5, 14, {1: 5})
    )
    found = chain(index, entries({2: 18, 3: 25}), 0, 20)
    assert pieces(found) == [(1, 0, 4), (3, 5, 14), (2, 15, 19)]
    assert notes(found) == [
        "t-0: the leader epochs begin at offset 18: before it those of the uploads are used"
    ]


def test_a_gap_is_reported_with_the_upload_that_was_not_finished() -> None:
    index = index_of(upload(1, 0, 9), upload(2, 10, 19, state=STARTED), upload(3, 20, 24))
    found = chain(index, ONE_EPOCH, 0, 30)
    assert pieces(found) == [(1, 0, 9), (3, 20, 24)]
    assert [one.text for one in found.findings] == [
        "t-0: no upload in the tier has offsets 10 to 19; upload AAAAAAAAAAAAAAAAAAAAAg of offsets "
        "10 to 19 in epochs 0 is COPY_SEGMENT_STARTED",
        "t-0: no upload in the tier has offsets 25 to 29",
    ]


def test_offsets_before_the_first_upload_are_lost_unless_they_were_deleted() -> None:
    index = index_of(*(upload(number, number * 10, number * 10 + 9) for number in range(3)))
    index.update(update(1, DELETING))
    assert lost(chain(index, ONE_EPOCH, 0, 30)) == [(10, 19)]
    index.update(update(0, DELETING))
    found = chain(index, ONE_EPOCH, 0, 30)
    assert (found.start_offset, lost(found), pieces(found)) == (20, [], [(2, 20, 29)])
    assert notes(found) == ["t-0: the log starts at 20, not 0: what precedes was deleted"]
    index.update(update(2, DELETING))
    assert chain(index, ONE_EPOCH, 0, 30).start_offset == 30
    assert lost(chain(index, ONE_EPOCH, 0, 31)) == [(0, 30)]


@pytest.mark.slow
@given(st.data(), some_epochs, offsets, offsets)
def test_a_chain_has_each_offset_that_a_finished_upload_has_once(
    data: st.DataObject, log: dict[int, int], first: int, last: int
) -> None:
    log[min(log)] = 0
    uploads = data.draw(uploads_of(log))
    log_start, until = min(first, last), max(first, last)
    found = chain(index_of(*uploads), entries(log), log_start, until)
    covered = dict[int, RemoteLogSegmentMetadata]()
    for piece in found.pieces:
        assert max(covered, default=log_start - 1) < piece.first_offset <= piece.last_offset
        numbers = range(piece.first_offset, piece.last_offset + 1)
        covered |= dict.fromkeys(numbers, piece.segment)
    for offset, segment in covered.items():
        assert segment.state is FINISHED
        assert epoch_of(log, offset) in ids(segment, offset)
    finished = [one for one in uploads if one.state is FINISHED]
    wanted = {
        offset
        for segment in finished
        for offset in range(log_start, until)
        if epoch_of(log, offset) in ids(segment, offset)
    }
    assert set(covered) == wanted
    in_lineage = [one for one in finished if is_in_lineage(one, entries(log), END)]
    for segment in in_lineage:
        here = range(max(segment.start_offset, log_start), min(segment.end_offset + 1, until))
        # Of an upload, epochs before the log's first one are not compared.
        assert wanted.issuperset(one for one in here if not ids(segment, one).isdisjoint(log))
    check_findings(found, set(range(log_start, until)) - wanted)


def check_findings(found: Chain, missing: set[int]) -> None:
    named = list[int]()
    for one in found.findings:
        assert isinstance(one, Finding)
        if one.lost is not None and one.lost.last is not None:
            named += range(one.lost.first, one.lost.last + 1)
    assert named == sorted(named)
    assert set(named) == {offset for offset in missing if offset >= found.start_offset}


@pytest.mark.slow
@given(some_epochs, offsets, offsets)
def test_an_upload_cut_from_a_log_is_in_its_lineage(
    log: dict[int, int], one: int, other: int
) -> None:
    start, end = min(one, other), max(one, other)
    epochs = cut(log, start, end)
    if epochs:
        assert is_in_lineage(upload(1, start, end, epochs), entries(log), END)


@pytest.mark.slow
@given(st.data(), some_epochs)
def test_a_chain_without_the_logs_epochs_has_no_offset_twice_and_later_epochs_win(
    data: st.DataObject, log: dict[int, int]
) -> None:
    uploads = data.draw(uploads_of(log))
    found = chain(index_of(*uploads), (), 0, END)
    due, epoch = 0, -1
    for piece in found.pieces:
        assert due <= piece.first_offset <= piece.last_offset
        epochs = ids(piece.segment, piece.last_offset)
        assert max(epochs) >= epoch
        due, epoch = piece.last_offset + 1, max(epochs)


@pytest.mark.slow
@given(st.data(), some_epochs)
def test_of_a_single_history_the_chain_is_the_same_without_the_logs_epochs(
    data: st.DataObject, log: dict[int, int]
) -> None:
    index = index_of(*data.draw(uploads_of(log, others=False)))
    with_epochs = chain(index, entries(log), min(log.values()), END)
    without = chain(index, (), min(log.values()), END)
    assert without.pieces == with_epochs.pieces
    assert lost(without) == lost(with_epochs)


@pytest.mark.slow
@given(st.data(), some_epochs, offsets)
def test_the_highest_remote_offset_is_the_last_without_a_gap_from_what_is_local(
    data: st.DataObject, log: dict[int, int], local_start: int
) -> None:
    log[min(log)] = 0
    index = index_of(*data.draw(uploads_of(log)))
    uploaded = {
        offset
        for one in pieces_of(index, entries(log), 0, END)
        for offset in range(one.first_offset, one.last_offset + 1)
    }
    expected = local_start - 1
    while expected + 1 in uploaded:
        expected += 1
    if expected < local_start:
        expected = max((one for one in uploaded if one < local_start), default=-1)
    found = highest_remote_offset(index, entries(log), local_start, END)
    if expected < 0:
        assert found is None
    else:
        assert found == EpochEntry(epoch_of(log, expected) or 0, expected)


def test_a_segment_that_was_not_copied_is_before_the_highest_remote_offset() -> None:
    index = index_of(upload(1, 0, 9), upload(2, 20, 29))
    assert highest_remote_offset(index, ONE_EPOCH, 0, 30) == EpochEntry(0, 9)
    assert highest_remote_offset(index, ONE_EPOCH, 20, 30) == EpochEntry(0, 29)
    assert highest_remote_offset(index, ONE_EPOCH, 12, 30) == EpochEntry(0, 9)
    assert highest_remote_offset(SegmentIndex(PARTITION), ONE_EPOCH, 0, 30) is None
    assert highest_remote_offset(index, (), 0, 30) is None
