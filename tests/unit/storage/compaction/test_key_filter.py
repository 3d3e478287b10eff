"""The key filter that needs nothing but Python, and which of the three is taken."""

import pytest

from ottla.record.batch import InvalidBatchError, RecordBatch, batch_at
from ottla.storage.compaction import compiled_key_filter
from ottla.storage.compaction.key_filter import (
    PlainKeyFilter,
    StoredRecords,
    new_key_filter,
    stored_records,
)
from ottla.storage.compaction.vector_key_filter import VectorKeyFilter
from tests.support.key_filter_cases import CASES, LOAD_FACTOR, MEMORY, Case, batch_of, check_case


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_each_record_that_a_reader_needs_is_retained_and_no_other(case: Case) -> None:
    check_case(PlainKeyFilter, case)


def test_the_quickest_filter_that_this_install_has_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_compiled = compiled_key_filter.IS_COMPILED
    quickest = compiled_key_filter.CompiledKeyFilter if is_compiled else VectorKeyFilter
    assert isinstance(new_key_filter(MEMORY, LOAD_FACTOR), quickest)
    monkeypatch.setattr(compiled_key_filter, "IS_COMPILED", False)
    assert isinstance(new_key_filter(MEMORY, LOAD_FACTOR), VectorKeyFilter)
    monkeypatch.setattr("ottla.storage.compaction.key_filter.find_spec", lambda name: None)
    assert isinstance(new_key_filter(MEMORY, LOAD_FACTOR), PlainKeyFilter)


def test_records_are_given_as_they_are_stored() -> None:
    batch = batch_of(5, (b"a", b"1"), (b"b", b"22"), (b"c", None))
    assert isinstance(batch, RecordBatch)
    whole = stored_records(batch)
    assert [end - start for start, end in whole.places] == [9, 10, 8]
    assert b"".join(whole.data[start:end] for start, end in whole.places) == bytes(whole.data)
    assert stored_records(batch, [0, 2]) == StoredRecords(
        whole.data, [whole.places[0], whole.places[2]]
    )


def test_a_batch_whose_records_are_cut_short_is_refused() -> None:
    content = bytearray(batch_of(0, (b"a", b"1"), (b"b", b"2")).bytes_view())
    content[57:61] = (3).to_bytes(4, "big")  # Says that there are three.
    batch = batch_at(bytes(content))
    assert isinstance(batch, RecordBatch)
    with pytest.raises(InvalidBatchError, match="cut short"):
        stored_records(batch)
