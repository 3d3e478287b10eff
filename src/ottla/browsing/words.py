"""Batches skipped as a whole: those whose bytes lack what every match must hold.

To look for a few bytes in an unpacked batch takes a small part of the time of decoding its records.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.base.partitions import OffsetRange
from ottla.record.batch import Batch, RecordBatch
from ottla.record.record import Record, read_records, unpacked_payload

Words = tuple[tuple[bytes, ...], ...]
"""Of each group a batch with a match holds at least one. No group: any batch may have a match."""

NO_WORDS: Words = ()

JSON_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""Those of RFC 4627 besides UTF-8, which `json.loads` still reads."""


class Skipped(NamedTuple):
    """Records of which none can match: `offset` is that of the last, as far as it was asked for."""

    offset: int
    record_count: int


def exactly(text: str) -> Words:
    """For a key, a value or a header that holds these characters as they are, in UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return NO_WORDS
    return ((data,),) if data else NO_WORDS


def in_json(text: str) -> Words:
    """For a JSON string with this content: any character may be escaped, by a backslash."""
    found = exactly(text)
    if not found:
        return NO_WORDS
    return ((*found[0], b"\\", *(text.encode(one) for one in JSON_ENCODINGS)),)


def either(several: list[Words]) -> Words:
    """Where one of several conditions is enough: a group of each."""
    if not all(several):
        return NO_WORDS
    return (tuple(word for words in several for word in words[0]),)


def looked_into(
    batch: Batch, words: Words, wanted: OffsetRange
) -> "Iterator[Record] | Iterator[Skipped]":
    """The records of a batch that may have a match; raises `InvalidBatchError`."""
    if not words or not isinstance(batch, RecordBatch):
        return read_records(batch)
    payload = bytes(unpacked_payload(batch))
    if all(any(word in payload for word in group) for group in words):
        return read_records(batch, payload=payload)
    first = max(batch.base_offset, wanted.from_offset)
    last = min(batch.last_offset, wanted.until_offset - 1)
    return iter([Skipped(last, min(batch.record_count, last - first + 1))])
