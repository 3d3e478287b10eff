"""The table of frames is what the record layer of Kafka's Java client reads and refuses."""

from typing import Any

import pytest

from tests.compat.java import java_class, kafka, needs_java_client
from tests.support.codec_frames import MAGICS, batch_of, frames, verdicts

pytestmark = [pytest.mark.slow, needs_java_client]


def memory_records() -> Any:
    try:
        return kafka("common.record.internal.MemoryRecords")
    except TypeError:
        return kafka("common.record.MemoryRecords")  # of clients before 4.2


def read_by_java(data: bytes) -> list[int] | None:
    import jpype

    supplier = kafka("common.utils.BufferSupplier").NO_CACHING
    buffer = java_class("java.nio.ByteBuffer").wrap(data)
    offsets = []
    try:
        for batch in memory_records().readableRecords(buffer).batches():
            batch.ensureValid()
            records = batch.streamingIterator(supplier)
            while records.hasNext():
                offsets.append(int(records.next().offset()))
    except jpype.JException:
        return None
    return offsets


def test_java_reads_and_refuses_what_the_table_says() -> None:
    known = verdicts()
    found = {
        frame.name: {magic: read_by_java(batch_of(frame, magic)) for magic in known[frame.name]}
        for frame in frames()
    }
    assert {name: one for name, one in found.items() if one != known[name]} == {}
    assert found.keys() == known.keys()
    assert all(set(one) <= set(MAGICS) for one in found.values())
