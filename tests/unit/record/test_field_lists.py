"""Lists of fields say what the records say that are read one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.field_lists import COUNT, FieldLists, field_lists
from ottla.record.record import Record, read_records
from tests.support.random_batches import regions


def as_records(lists: FieldLists) -> list[Record]:
    return [
        Record(
            offset=offset,
            timestamp_ms=timestamp,
            timestamp_type=kind,
            key=key,
            value=value,
            headers=headers,
            leader_epoch=epoch,
        )
        for offset, timestamp, kind, key, value, headers, epoch in zip(
            lists.offsets,
            lists.timestamps_ms,
            lists.timestamp_types,
            lists.keys,
            lists.values,
            lists.headers,
            lists.leader_epochs,
            strict=True,
        )
    ]


@pytest.mark.slow
@given(regions())
def test_they_hold_what_is_read_record_by_record(drawn: tuple[bytes, int]) -> None:
    region, _ = drawn
    found = [one for lists in field_lists(iter_batches(region)) for one in as_records(lists)]
    assert found == [one for batch in iter_batches(region) for one in read_records(batch)]


@pytest.mark.parametrize("compression", list(Compression))
def test_many_small_batches_are_read_together(compression: Compression) -> None:
    batches = []
    for offset in range(100):
        builder = RecordBatchBuilder(offset, compression=compression)
        builder.append(b"k", b"v", offset, [("h", None)] if offset % 2 else [])
        batches.append(builder.build())
    (lists,) = field_lists(iter_batches(b"".join(batches)))
    assert lists.offsets == lists.timestamps_ms == list(range(100))
    assert lists.headers[:2] == [(), (("h", None),)]


def test_a_batch_of_many_records_comes_in_lists_that_the_next_batch_fills_up() -> None:
    batches = []
    for base in (0, COUNT + 200):
        builder = RecordBatchBuilder(base)
        for offset in range(base, base + COUNT + 200):
            builder.append(None, b"v", offset)
        batches.append(builder.build())
    found = list(field_lists(iter_batches(b"".join(batches))))
    assert [len(one.values) for one in found] == [COUNT, COUNT, 400]
    assert [offset for one in found for offset in one.offsets] == list(range(2 * COUNT + 400))


@given(st.data())
def test_garbled_records_are_refused_and_nothing_else_is_raised(data: st.DataObject) -> None:
    builder = RecordBatchBuilder()
    builder.append(b"key", b"value", 1, [("name", b"x")])
    builder.append(None, b"value", 2)
    batch = bytearray(builder.build())
    position = data.draw(st.integers(57, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    try:
        for lists in field_lists(iter_batches(batch)):
            as_records(lists)
    except InvalidBatchError:
        pass
