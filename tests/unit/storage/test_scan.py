"""The walk over batches: what it finds, where it ends, and what its checks refuse."""

from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.record import header_walk
from ottla.record.batch import Batch, RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.storage import scan
from ottla.storage.files.log_file import LogFile
from ottla.testing import FakeFileSystem

Entry = tuple[bytes, int]
"""The bytes of a batch and its last offset."""


def batch(base_offset: int, record_count: int, value_size: int) -> Entry:
    builder = RecordBatchBuilder(base_offset)
    for _ in range(record_count):
        builder.append(None, bytes(value_size), 0)
    return builder.build(), base_offset + record_count - 1


def message(offset: int, value_size: int, magic: int) -> Entry:
    return build_message(None, bytes(value_size), magic=magic, offset=offset), offset


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Batches of every format, with gaps between their offsets as compaction leaves them."""
    entries: list[Entry] = []
    offset = 0
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.integers(0, 3))
        size = draw(st.sampled_from([0, 30, 500, 3000, 9000]))
        magic = draw(st.sampled_from([0, 1, 2, 2, 2]))
        count = draw(st.integers(1, 5))
        entries.append(batch(offset, count, size) if magic == 2 else message(offset, size, magic))
        offset = entries[-1][1] + 1
    return entries


def log_of(content: bytes) -> LogFile:
    log = LogFile.open(FakeFileSystem(), "0.log", create=True)
    log.append(content)
    log.write_out()
    return log


def walk(log: LogFile, offset: int) -> tuple[int, Batch] | None:
    return next((one for one in scan.headers(log) if one[1].last_offset >= offset), None)


def outcome(search: Callable[[], tuple[int, Batch] | None]) -> tuple[int, int] | str | None:
    """Position and base offset of what was found, or where a header was cut short."""
    try:
        found = search()
    except CorruptionError as error:
        return str(error)
    return None if found is None else (found[0], found[1].base_offset)


@pytest.mark.slow
@given(logs(), st.data())
def test_a_search_finds_what_a_walk_finds(entries: list[Entry], data: st.DataObject) -> None:
    content = b"".join(one for one, _ in entries)
    cut = data.draw(st.sampled_from([0, 0, 1, 40, 200]))
    log = log_of(content[: max(0, len(content) - cut)])
    offset = data.draw(st.integers(0, entries[-1][1] + 2))
    assert outcome(lambda: scan.search_offset(log, offset, 0)) == outcome(lambda: walk(log, offset))


@pytest.mark.parametrize("position", [8, 16, 23])
def test_nonsense_before_the_wanted_batch_is_named(position: int) -> None:
    """A length, a magic and an offset delta that no batch has."""
    content = bytearray(batch(0, 3, 10)[0] + batch(3, 3, 10)[0])
    content[position] = 0x80
    with pytest.raises(CorruptionError) as caught:
        scan.search_offset(log_of(bytes(content)), 4, 0)
    assert (caught.value.path, caught.value.position) == ("0.log", 0)


def test_a_batch_that_ends_after_the_file_is_not_found() -> None:
    content, last_offset = batch(0, 3, 10)
    log = log_of(content[:-1])
    assert scan.search_offset(log, 0, 0) is None
    assert scan.search_offset(log, last_offset + 1, 0) is None


def test_the_header_of_what_was_found_is_whole() -> None:
    first, second = batch(0, 2, 4000)[0], batch(2, 2, 4000)[0]
    found = scan.search_offset(log_of(first + second), 3, 0)
    assert found is not None
    position, header = found
    assert (position, header.base_offset, header.record_count) == (len(first), 2, 2)
    assert isinstance(header, RecordBatch)


def test_a_walk_ends_before_a_batch_that_is_cut_short_or_names_it() -> None:
    first, second = batch(0, 2, 10)[0], batch(2, 2, 10)[0]
    log = log_of(first + second[:-1])
    assert [position for position, _ in scan.headers(log)] == [0]
    with pytest.raises(CorruptionError, match="beyond the end") as caught:
        list(scan.headers(log, allow_torn_tail=False))
    assert caught.value.position == len(first)


def test_small_and_large_batches_in_turn_are_all_found() -> None:
    sizes = [10, 100_000, 10, 10, 20_000, 20_000, 0, 70_000, 5]
    content = [batch(number, 1, size)[0] for number, size in enumerate(sizes)]
    found = list(scan.headers(log_of(b"".join(content))))
    assert [one.base_offset for _, one in found] == list(range(len(sizes)))
    assert [position for position, _ in found] == [
        sum(map(len, content[:number])) for number in range(len(sizes))
    ]


def test_a_damaged_payload_is_refused_at_its_place_in_the_file() -> None:
    content = bytearray(batch(0, 2, 10)[0] + batch(2, 2, 10)[0])
    content[-1] ^= 1
    with pytest.raises(CorruptionError) as caught:
        list(scan.batches(content, "0.log", 1000, checks=(scan.checksum,)))
    assert (caught.value.path, caught.value.position) == ("0.log", 1000 + len(content) // 2)


@pytest.mark.parametrize(
    ("base_offsets", "position", "reason"),
    [
        ([4, 6], 0, "the segment begins at offset 5"),
        ([5, 6], 1, "offset 6 precedes it"),
        ([5, 5], 1, "offset 6 precedes it"),
        ([5, 12], 1, "the segment ends before offset 13"),
    ],
)
def test_a_batch_out_of_order_is_refused_with_the_reason(
    base_offsets: list[int], position: int, reason: str
) -> None:
    """Each batch has two offsets; a gap between two is none of this check's business."""
    content = [batch(offset, 2, 10)[0] for offset in base_offsets]
    ascending = scan.Ascending(5, limit=13)
    with pytest.raises(CorruptionError, match=reason) as caught:
        list(scan.headers(log_of(b"".join(content)), checks=(ascending,)))
    assert caught.value.position == position * len(content[0])


def test_gaps_and_messages_of_old_formats_ascend() -> None:
    entries = [message(5, 10, 0), message(6, 10, 1), batch(7, 3, 10), batch(11, 1, 10)]
    log = log_of(b"".join(content for content, _ in entries))
    ascending = scan.Ascending(5, limit=12)
    found = [one.last_offset for _, one in scan.headers(log, checks=(ascending,))]
    assert found == [5, 6, 9, 11]
    assert ascending.next_offset == 12


def whole(chunk: memoryview, bounds: tuple[int, int, int | None]) -> object:
    """What `whole_batches` finds in a chunk, with the gaps that it tells of."""
    base_offset, until_offset, limit = bounds
    span, gaps = scan.Span(base_offset, until_offset, limit), list[object]()
    span.on_gap = lambda *gap: gaps.append(gap)
    try:
        found: object = scan.whole_batches(log_of(bytes(chunk)), chunk, 0, span)
    except CorruptionError as error:
        found = str(error)
    return found, gaps, span.next_offset, span.due_offset


@pytest.mark.skipif(not header_walk.IS_COMPILED, reason="compares compiled code with its source")
@given(
    logs(),
    st.tuples(st.integers(0, 4), st.integers(0, 60), st.none() | st.integers(0, 60)),
    st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)),
    st.integers(0, 80),
)
def test_whole_batches_are_the_same_in_compiled_code(
    entries: list[Entry],
    bounds: tuple[int, int, int | None],
    damage: tuple[int, int] | None,
    cut: int,
) -> None:
    content = bytearray(b"".join(one for one, _ in entries))
    if damage is not None:
        # Headers are small beside values, so half of all damage is to the first of them.
        position = damage[0] % (len(content) if damage[0] % 2 else 61)
        content[position % len(content)] ^= damage[1]
    chunk = memoryview(bytes(content[: len(content) - cut]))
    found = whole(chunk, bounds)
    with mock.patch.object(header_walk, "IS_COMPILED", False):
        assert whole(chunk, bounds) == found


@pytest.mark.parametrize("is_compiled", {header_walk.IS_COMPILED, False})
def test_batches_at_the_end_of_all_offsets_are_read_and_those_after_it_named(
    is_compiled: bool,
) -> None:
    last = 2**63 - 1
    content, _ = batch(last - 1, 2, 0)
    with mock.patch.object(header_walk, "IS_COMPILED", is_compiled):
        found = whole(memoryview(content), (last - 1, 2**63, None))
        after = whole(memoryview(content), (2**63, 2**63, None))
    assert f"last_offset={last}" in str(found)
    assert "is out of place" in str(after)
