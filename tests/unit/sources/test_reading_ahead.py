"""The next item of an iterator, got in another thread while the last one is worked on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import CorruptionError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.record.builder import RecordBatchBuilder
from ottla.sources.log_files import LogFiles
from ottla.sources.reading_ahead import read_ahead
from ottla.sources.topic_choice import TopicChoice


def test_items_come_in_order_and_then_the_error_of_their_iterator() -> None:
    def failing() -> Iterator[int]:
        yield from range(1, 5)
        raise CorruptionError("a", 1, "it is damaged")

    assert list(read_ahead(iter(()))) == []
    assert list(read_ahead(iter([1, 2, 3]))) == [1, 2, 3]
    ahead = read_ahead(failing())
    assert [next(ahead) for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(CorruptionError, match="it is damaged"):
        next(ahead)


def test_the_first_item_is_got_alone_and_each_other_one_while_the_last_is_worked_on() -> None:
    begun = [threading.Event() for _ in range(4)]
    by = []

    def items() -> Iterator[int]:
        for number, event in enumerate(begun):
            by.append(threading.current_thread())
            event.set()
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 0
    assert not begun[1].is_set()
    assert next(ahead) == 1
    assert begun[2].wait(30)
    assert by[0] is threading.current_thread() is not by[2]


def test_whoever_closes_it_leaves_no_thread_and_no_read_behind() -> None:
    ended = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(1, 100)
        finally:
            ended.set()

    ahead = read_ahead(items())
    assert [next(ahead) for _ in range(3)] == [1, 2, 3]
    del ahead

    assert not [one for one in threading.enumerate() if one.name.startswith("read-ahead")]
    assert ended.wait(30)


def test_files_that_are_read_ahead_give_the_same_rows_and_name_the_same_damaged_batch(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    with ottla.open(tmp_path) as log:
        log.create_topic("orders", config={"segment.bytes": 4096})
        for first in range(0, 400, 10):
            builder = RecordBatchBuilder()
            for number in range(first, first + 10):
                builder.append(b"k%d" % number, b"v" * 50, number)
            log.append_batch("orders", 0, builder)

    plain, ahead = _rows(tmp_path, is_ahead=False), _rows(tmp_path, is_ahead=True)
    segment = sorted((tmp_path / "orders-0").glob("*.log"))[3]
    content = bytearray(segment.read_bytes())
    content[-5] ^= 1
    segment.write_bytes(content)
    errors = []
    for is_ahead in (False, True):
        with pytest.raises(CorruptionError) as error:
            _rows(tmp_path, is_ahead=is_ahead)
        errors.append(str(error.value))

    assert plain == ahead == list(range(400))
    assert errors[0] == errors[1]
    assert segment.name in errors[0]


def _rows(path: Path, *, is_ahead: bool) -> list[int]:
    files = LogFiles([str(path)], TopicChoice(subscribed=("orders",)))
    if is_ahead:
        files.read_ahead()
    wanted = {TopicPartition("orders", 0): OffsetRange(from_offset=0, until_offset=400)}
    return [
        offset
        for split in files.splits(wanted)
        for batch in files.read(split, ["offset"])
        for offset in batch.column("offset").to_pylist()
    ]
