"""The send queue: whatever a sink takes at a time, the same bytes leave in the same order."""

from errno import EIO, EPIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.files import FileSlice
from ottla.base.memory_files import MemoryFile
from ottla.server.network.send_queue import INLINE_SIZE, SendQueue, UnreadableFileError
from ottla.testing import FakeFileSystem

CONTENT = bytes(range(256)) * 512


class SlowSink:
    """Takes at most `step` bytes a call and is full after `calls` calls."""

    def __init__(self, step: int = 1 << 30, calls: int = 1 << 30) -> None:
        self.step = step
        self.calls_left = calls
        self.received = bytearray()
        self.file_calls = 0
        self.memory_calls = 0

    def _take(self, data: bytes | memoryview) -> int:
        if self.calls_left == 0:
            raise BlockingIOError
        self.calls_left -= 1
        self.received += data[: self.step]
        return min(self.step, len(data))

    def send(self, data: memoryview) -> int:
        self.memory_calls += 1
        return self._take(data)

    def send_file(self, slice_: FileSlice) -> int:
        self.file_calls += 1
        return self._take(slice_.read())


def slice_of(size: int, position: int = 0) -> FileSlice:
    file = FakeFileSystem().open("f", create=True)
    file.pwrite(CONTENT, 0)
    return FileSlice(file, position, size)


def test_bytes_of_many_answers_leave_in_one_send() -> None:
    queue, sink = SendQueue(), SlowSink()
    for answer in (b"one", b"two", b"three"):
        queue.add(bytearray(answer), [])
    assert queue.send(sink)
    assert sink.received == b"onetwothree"
    assert sink.memory_calls == 1


def test_a_small_slice_is_sent_with_the_bytes_around_it() -> None:
    queue, sink = SendQueue(), SlowSink()
    queue.add(bytearray(b"headtail"), [(4, slice_of(INLINE_SIZE))])
    assert queue.send(sink)
    assert sink.received == b"head" + CONTENT[:INLINE_SIZE] + b"tail"
    assert (sink.memory_calls, sink.file_calls) == (1, 0)


def test_a_large_slice_is_left_to_sendfile() -> None:
    queue, sink = SendQueue(), SlowSink()
    queue.add(bytearray(b"headtail"), [(4, slice_of(INLINE_SIZE + 1, 7))])
    assert queue.size == 8
    assert queue.send(sink)
    assert sink.received == b"head" + CONTENT[7 : INLINE_SIZE + 8] + b"tail"
    assert (sink.memory_calls, sink.file_calls) == (2, 1)


@pytest.mark.parametrize("inline_size", [INLINE_SIZE, 1 << 40])
def test_what_is_in_memory_is_sent_from_there(inline_size: int) -> None:
    """Also over TLS, which takes no files: nothing that large is copied by the loop."""
    view = memoryview(CONTENT)
    queue, sink = SendQueue(inline_size), SlowSink(step=INLINE_SIZE)
    queue.add(bytearray(b"headtail"), [(4, FileSlice(MemoryFile("f", view), 7, INLINE_SIZE + 1))])
    assert any(isinstance(one, memoryview) and one.obj is view.obj for one in queue._chunks)
    assert queue.size == INLINE_SIZE + 9
    assert queue.send(sink)
    assert sink.received == b"head" + CONTENT[7 : INLINE_SIZE + 8] + b"tail"
    assert (queue.size, sink.file_calls) == (0, 0)


def test_a_full_sink_keeps_the_rest_and_the_order() -> None:
    queue = SendQueue()
    queue.add(bytearray(b"abc"), [])
    full = SlowSink(step=2, calls=1)
    assert not queue.send(full)
    queue.add(bytearray(b"def"), [])
    assert queue.size == 4
    free = SlowSink()
    assert queue.send(free)
    assert full.received + free.received == b"abcdef"
    assert not queue
    assert queue.size == 0


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 2 * INLINE_SIZE)), max_size=6),
    st.integers(1, 3 * INLINE_SIZE),
    st.integers(1, 9),
)
def test_any_pace_delivers_the_same_bytes(
    answers: list[tuple[bytes, int]], step: int, calls: int
) -> None:
    queue = SendQueue()
    expected = b""
    received = b""
    for head, size in answers:
        queue.add(bytearray(head + b"end"), [(len(head), slice_of(size))])
        expected += head + CONTENT[:size] + b"end"
        sink = SlowSink(max(step, 64), calls)
        queue.send(sink)
        received += sink.received
    sink = SlowSink()
    assert queue.send(sink)
    assert received + sink.received == expected
    assert queue.size == 0


@pytest.mark.parametrize("size", [10, INLINE_SIZE + 1])
def test_a_file_shorter_than_promised_is_an_error_and_not_an_endless_loop(size: int) -> None:
    queue = SendQueue()
    with pytest.raises(UnreadableFileError):  # noqa: PT012
        queue.add(bytearray(b"x"), [(1, slice_of(size, len(CONTENT)))])
        queue.send(SlowSink())


class BrokenDisk(MemoryFile):
    def __init__(self, code: int) -> None:
        super().__init__("broken", CONTENT)
        self._code = code

    def pread(self, size: int, position: int) -> bytes:
        raise OSError(self._code, "broken")


def test_a_broken_disk_is_told_from_a_broken_connection() -> None:
    for code, expected in ((EIO, UnreadableFileError), (EPIPE, OSError)):
        slice_ = FileSlice(BrokenDisk(code), 0, 10)
        with pytest.raises(expected):
            SendQueue().add(bytearray(b"x"), [(1, slice_)])
        with pytest.raises(expected):  # noqa: PT012
            queue = SendQueue(inline_size=0)
            slice_ = FileSlice(slice_of(10).file, 0, 10)
            queue.add(bytearray(), [(0, slice_)])
            queue.send(BrokenSink(code))


class BrokenSink(SlowSink):
    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def send_file(self, slice_: FileSlice) -> int:
        raise OSError(self._code, "broken")


def test_a_cleared_outbox_holds_nothing() -> None:
    queue = SendQueue()
    queue.add(bytearray(b"abc"), [])
    queue.clear()
    assert queue.send(SlowSink(calls=0))
    assert not queue
