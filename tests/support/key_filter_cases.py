"""What any key filter has to retain: batches, what is learnt of them, the offsets that stay."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.codec.compression import Compression
from ottla.codec.varint import read_varint, read_varlong
from ottla.record.batch import Batch, batch_at, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.storage.compaction.key_filter import Candidate, KeyFilter, Retained, StoredRecords
from tests.support.logs import NOW_MS

MEMORY = 24 * 100
LOAD_FACTOR = 0.9

Pair = tuple[bytes | None, bytes | None]


def batch_of(base_offset: int, *pairs: Pair, codec: Compression = Compression.NONE) -> Batch:
    builder = RecordBatchBuilder(compression=codec)
    for key, value in pairs:
        builder.append(key, value, NOW_MS)
    content = bytearray(builder.build())
    content[:8] = base_offset.to_bytes(8, "big")
    return batch_at(bytes(content))


def old_message(offset: int, key: bytes | None, value: bytes | None, magic: int = 1) -> Batch:
    return batch_at(build_message(key, value, magic=magic, offset=offset, timestamp_ms=NOW_MS))


def in_one_buffer(*batches: Batch) -> list[Batch]:
    """As a filter is given them."""
    return list(iter_batches(b"".join(bytes(one.bytes_view()) for one in batches)))


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    batches: tuple[Batch, ...]
    retained: tuple[tuple[int, ...], ...]
    """The offsets of each batch."""
    start_offset: int = 0
    end_offset: int = 1000
    keeps_tombstones: bool = True
    keys: int
    keyless: int = 0
    tombstones: tuple[int, ...] = ()
    """The batches in which one is retained."""


LONG_KEYS: tuple[Pair, ...] = tuple((b"k" * size, b"1") for size in range(40))

CASES = [
    Case(
        name="the last record of each key stays",
        batches=(
            batch_of(0, (b"a", b"1"), (b"b", b"1")),
            batch_of(2, (b"a", b"2")),
            batch_of(3, (b"a", b"3"), (b"c", b"1"), (b"a", b"4")),
        ),
        retained=((1,), (), (4, 5)),
        keys=3,
    ),
    Case(
        name="gaps between offsets change nothing",
        batches=(batch_of(7, (b"a", b"1")), batch_of(900, (b"a", b"2"))),
        retained=((), (900,)),
        keys=1,
    ),
    Case(
        name="a record without a key goes",
        batches=(batch_of(0, (None, b"1"), (b"", b"empty"), (None, None)),),
        retained=((1,),),
        keys=1,
        keyless=2,
    ),
    Case(
        name="tombstones stay before their horizon",
        batches=(batch_of(0, (b"a", b"1")), batch_of(1, (b"a", None), (b"b", b"1"))),
        retained=((), (1, 2)),
        keys=2,
        tombstones=(1,),
    ),
    Case(
        name="tombstones go after their horizon and still replace what they delete",
        batches=(batch_of(0, (b"a", b"1")), batch_of(1, (b"a", None), (b"b", b"1"))),
        retained=((), (2,)),
        keeps_tombstones=False,
        keys=2,
    ),
    Case(
        name="what was not learnt stays whatever it is",
        batches=(
            batch_of(0, (b"a", b"1"), (b"b", b"1")),
            batch_of(2, (b"a", b"2"), (None, b"x"), (b"b", None)),
        ),
        retained=((0, 1), (2, 3, 4)),
        end_offset=2,
        keeps_tombstones=False,
        keys=2,
        tombstones=(1,),
    ),
    Case(
        name="keys before the start of the dirty part are not learnt",
        batches=(batch_of(0, (b"a", b"1"), (b"b", b"1")), batch_of(2, (b"b", b"2"))),
        retained=((0,), (2,)),
        start_offset=1,
        keys=1,
    ),
    Case(
        name="keys of any length are told apart",
        batches=(batch_of(0, *LONG_KEYS), batch_of(40, LONG_KEYS[39], (b"k" * 38 + b"x", b"2"))),
        retained=(tuple(range(39)), (40, 41)),
        keys=41,
    ),
    Case(
        name="compressed batches are looked into",
        batches=tuple(
            batch_of(2 * codec, (b"a", b"1"), (b"%d" % codec, b"1"), codec=codec)
            for codec in Compression
        ),
        retained=((1,), (3,), (5,), (7,), (8, 9)),
        keys=6,
    ),
    Case(
        name="messages of old formats beside batches",
        batches=(
            old_message(0, b"a", b"1", magic=0),
            old_message(1, b"b", b"1"),
            batch_of(2, (b"a", b"2")),
            old_message(3, b"c", None),
        ),
        retained=((), (1,), (2,), (3,)),
        keys=3,
        tombstones=(3,),
    ),
]


def offsets_of(batch: Batch, retained: Retained) -> tuple[int, ...]:
    """Of the records that it gives; those of a v2 batch are read where they are stored."""
    found = retained.records() if retained.count else []
    if not isinstance(found, StoredRecords):
        return tuple(one.offset for one in found)
    return tuple(batch.base_offset + _offset_delta(found.data, place) for place in found.places)


def _offset_delta(data: bytes, place: tuple[int, int]) -> int:
    _, position = read_varint(data, place[0])
    _, position = read_varlong(data, position + 1)
    return read_varint(data, position)[0]


def check_case(new_filter: Callable[[int, float], KeyFilter], case: Case) -> None:
    key_filter = new_filter(MEMORY, LOAD_FACTOR)
    assert key_filter.capacity == 90
    batches = in_one_buffer(*case.batches)
    dirty = [one for one in batches if one.base_offset < case.end_offset]
    key_filter.learn(dirty, case.start_offset)
    assert key_filter.size == case.keys
    candidates = [Candidate(one, case.keeps_tombstones) for one in batches]
    found = key_filter.retain(candidates, case.end_offset)
    offsets = tuple(offsets_of(*one) for one in zip(batches, found, strict=True))
    assert offsets == case.retained
    assert [one.count for one in found] == [len(one) for one in case.retained]
    assert [one.is_whole for one in found] == [
        len(stays) == batch.record_count
        for stays, batch in zip(case.retained, batches, strict=True)
    ]
    assert sum(one.keyless_count for one in found) == case.keyless
    tombstones = tuple(number for number, one in enumerate(found) if one.has_tombstone)
    assert tombstones == case.tombstones
