"""Frames out of a stream, however the stream arrives."""

import random
import struct
import sys
from collections import deque
from itertools import pairwise
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.protocol.framing import (
    CALM,
    FREED_AT_ONCE,
    KEPT_CAPACITY,
    MAX_SPACE,
    FrameReader,
    free_part,
)

MAX_SIZE = 64 * 1024 * 1024


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(reader: FrameReader, data: bytes, chunk: int) -> list[bytes]:
    """Receives `data` at most `chunk` bytes at a time, as a socket would write it."""
    frames = []
    while data:
        view = reader.writable()
        assert len(view) > 0
        size = min(chunk, len(view), len(data))
        view[:size] = data[:size]
        view.release()
        data = data[size:]
        frames += [bytes(frame) for frame in reader.received(size)]
    return frames


PAYLOADS = [b"", b"a", b"b" * 100, b"", b"c" * 7, b"d" * 1000]


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 50, 1000, 100_000])
@pytest.mark.parametrize("capacity", [4, 16, 64, 256 * 1024])
def test_frames_arrive_whole_whatever_the_pieces(chunk: int, capacity: int) -> None:
    reader = FrameReader(MAX_SIZE, capacity=capacity)
    assert feed(reader, framed(*PAYLOADS) * 3, chunk) == PAYLOADS * 3
    assert reader.pending_size == 0


@pytest.mark.slow
@given(st.lists(st.integers(0, 300), max_size=30), st.integers(0, 2**32), st.integers(4, 200))
def test_any_cut_of_any_stream_gives_the_same_frames(
    sizes: list[int], seed: int, capacity: int
) -> None:
    chance = random.Random(seed)
    payloads = [chance.randbytes(size) for size in sizes]
    reader = FrameReader(MAX_SIZE, capacity=capacity)
    data = framed(*payloads)
    frames = []
    while data:
        size = chance.randint(1, 400)
        frames += feed(reader, data[:size], chance.choice((1, 7, 400)))
        data = data[size:]
    assert frames == payloads


def test_a_frame_is_a_view_of_the_buffer() -> None:
    reader = FrameReader(MAX_SIZE)
    data = framed(b"abc")
    view = reader.writable()
    view[: len(data)] = data
    (frame,) = reader.received(len(data))
    view[4] = ord("X")
    assert bytes(frame) == b"Xbc"


def test_frames_stay_valid_until_the_next_receive_even_while_the_buffer_grows() -> None:
    reader = FrameReader(MAX_SIZE, capacity=64)
    data = framed(b"abc") + framed(b"d" * 500)[:40]
    view = reader.writable()
    view[: len(data)] = data
    (frame,) = reader.received(len(data))
    assert bytes(frame) == b"abc"
    assert feed(reader, framed(b"d" * 500)[40:], 1000) == [b"d" * 500]


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_below_zero_or_over_the_limit_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match="must have 0 to 100 bytes"):
        feed(FrameReader(100), struct.pack(">i", size), 4)


def test_a_frame_of_exactly_the_limit_passes() -> None:
    assert feed(FrameReader(100), framed(b"x" * 100), 1000) == [b"x" * 100]


def test_frames_before_a_broken_one_are_given_first() -> None:
    reader = FrameReader(100)
    data = framed(b"good") + struct.pack(">i", -5)
    view = reader.writable()
    view[: len(data)] = data
    frames = reader.received(len(data))
    assert bytes(next(frames)) == b"good"
    with pytest.raises(ProtocolError):
        next(frames)


def test_the_size_of_a_frame_alone_reserves_no_memory() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    feed(reader, struct.pack(">i", MAX_SIZE) + b"x" * 100, 2000)
    assert reader.capacity == 1024
    feed(reader, b"x" * 5000, 2000)
    assert reader.capacity <= 2 * 8192


def test_a_large_frame_stays_where_it_is_while_its_buffer_grows() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    data = bytes(range(256)) * 1000
    assert feed(reader, framed(data)[:5000], 4096) == []
    before = reader.writable().obj
    assert feed(reader, framed(data)[5000:], 4096) == [data]
    assert reader.capacity > len(data)
    assert (reader.writable().obj is before) is (sys.platform == "linux")


def test_a_buffer_that_is_looked_at_is_left_alone_when_it_grows() -> None:
    reader = FrameReader(MAX_SIZE, capacity=64)
    data = framed(b"abc") + framed(bytes(5000))
    feed(reader, framed(b"x" * 500), 1000)
    view = reader.writable()
    view[:100] = data[:100]
    (frame,) = reader.received(100)
    assert feed(reader, data[100:], 1000) == [bytes(5000)]
    assert bytes(frame) == b"abc"


def test_no_more_is_received_at_a_time_than_others_can_wait_for() -> None:
    reader = FrameReader(4 * MAX_SPACE)
    feed(reader, framed(bytes(4 * MAX_SPACE - 100))[: 3 * MAX_SPACE], MAX_SPACE)
    assert 0 < len(reader.writable()) <= MAX_SPACE


def test_frames_of_one_large_size_keep_their_buffer() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    assert feed(reader, framed(b"x" * 50_000) * 10, 65_536) == [b"x" * 50_000] * 10
    grown = reader.capacity
    assert feed(reader, framed(b"x" * 50_000) * 10, 65_536) == [b"x" * 50_000] * 10
    assert reader.capacity == grown > 50_000


def test_a_grown_buffer_is_given_back_when_only_small_frames_come() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    feed(reader, framed(b"x" * 50_000), 65_536)
    for _ in range(CALM - 1):
        feed(reader, framed(b"small"), 1000)
        reader.writable()
        reader.writable()
    assert reader.capacity > 1024
    feed(reader, framed(b"small"), 1000)
    reader.writable()
    assert reader.capacity == 1024


def test_a_huge_buffer_is_given_back_at_once() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    feed(reader, framed(bytes(KEPT_CAPACITY)), 1 << 20)
    reader.writable()
    assert reader.capacity == 1024


def test_a_buffer_of_another_size_is_taken_where_nothing_lies_in_the_one_before() -> None:
    reader = FrameReader(MAX_SIZE, capacity=1024)
    reader.limit(100, 64)
    assert (reader.capacity, reader.excess) == (64, 0)
    assert feed(reader, framed(b"abc") + b"\0", 50) == [b"abc"]
    reader.limit(MAX_SIZE, 2048)
    assert reader.capacity == 64, "a byte lies in it"
    assert feed(reader, framed(b"defg")[1:], 50) == [b"defg"]
    reader.writable()
    assert (reader.capacity, reader.excess) == (2048, 0)
    feed(reader, framed(bytes(5000))[:4000], 1000)
    assert reader.excess == reader.capacity - 2048 > 0


def test_growth_is_reported_before_it_happens() -> None:
    reader = FrameReader(MAX_SIZE, capacity=64)
    stream = framed(b"x" * 1000, b"y")
    while stream:
        before, growth = reader.capacity, reader.growth()
        view = reader.writable()
        assert reader.capacity == before + growth
        size = min(7, len(view), len(stream))
        view[:size] = stream[:size]
        stream = stream[size:]
        for _ in reader.received(size):
            pass
    assert reader.is_empty
    assert reader.capacity > 64
    reader.give_back()
    assert reader.capacity == 64


def test_a_large_buffer_is_freed_in_parts_when_nobody_uses_its_frames() -> None:
    reader, discarded = FrameReader(8 * FREED_AT_ONCE, capacity=1024), deque[mmap]()
    reader.discarded = discarded
    view = framed(bytes(3 * FREED_AT_ONCE))
    while view:
        into = reader.writable()
        size = min(len(into), len(view))
        into[:size] = view[:size]
        into.release()
        view = view[size:]
        frames = list(reader.received(size))
    (frame,) = frames
    reader.writable()
    assert (reader.capacity, len(discarded)) == (1024, 1)
    assert not free_part(discarded), "its frame is used"
    assert len(frame) == 3 * FREED_AT_ONCE
    frame.release()
    frames.clear()
    sizes = [len(discarded[0])]
    while free_part(discarded):
        sizes.append(len(discarded[0]))
    assert not discarded
    if sys.platform == "linux":
        assert [one - other for one, other in pairwise(sizes)] == [FREED_AT_ONCE] * (len(sizes) - 1)
        assert sizes[-1] <= FREED_AT_ONCE


def test_what_a_closed_connection_has_received_is_freed_in_parts_too() -> None:
    reader, discarded = FrameReader(8 * FREED_AT_ONCE, capacity=1024), deque[mmap]()
    reader.discarded = discarded
    feed(reader, framed(bytes(3 * FREED_AT_ONCE))[: 2 * FREED_AT_ONCE], 1 << 20)
    reader.close()
    assert [len(one) >= 2 * FREED_AT_ONCE for one in discarded] == [True]
