"""Skips batches that do not contain the bytes that every match must contain.

Searching a decompressed batch for a few bytes takes a small part of the time to decode its records.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.base.partitions import OffsetRange
from ottla.record.batch import Batch, RecordBatch
from ottla.record.record import Record, read_records, unpacked_payload
from ottla.search.words import Words


class Skipped(NamedTuple):
    """Records of which none can match; `offset` is that of the last one in the wanted range."""

    offset: int
    record_count: int


def looked_into(
    batch: Batch, words: Words, wanted: OffsetRange
) -> "Iterator[Record] | Iterator[Skipped]":
    """The records of a batch, or `Skipped` if none can match; raises `InvalidBatchError`."""
    if not words or not isinstance(batch, RecordBatch):
        return read_records(batch)
    payload = bytes(unpacked_payload(batch))
    if all(any(word in payload for word in group) for group in words):
        return read_records(batch, payload=payload)
    first = max(batch.base_offset, wanted.from_offset)
    last = min(batch.last_offset, wanted.until_offset - 1)
    return iter([Skipped(last, min(batch.record_count, last - first + 1))])
