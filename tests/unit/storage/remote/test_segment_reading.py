import struct
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import OsFileSystem
from ottla.config.broker import BrokerConfig
from ottla.objects.directory_store import DirectoryStore
from ottla.record.batch import batch_at, iter_batches
from ottla.storage.index.producer_snapshot import ProducerSnapshotEntry, format_snapshot
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.index_cache import IndexCache
from ottla.storage.remote.lineage import Piece
from ottla.storage.remote.local_layout import LocalTier
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.segment_reading import FoundRecord, Region, SegmentReading
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.tiers import NOW_MS, Uploaded, local_objects, put, uploaded

SEGMENT = uploaded(100, 40)
"""Offsets 100 to 179, two in each batch."""
SIZE = batch_at(SEGMENT.log).size


def place_of(one: Uploaded, first: int | None = None, last: int | None = None) -> Piece:
    meta = one.metadata
    return Piece(
        meta,
        meta.start_offset if first is None else first,
        meta.end_offset if last is None else last,
    )


def reading_of(path: Path, *segments: Uploaded) -> SegmentReading:
    for one in segments:
        put(path, local_objects(one))
    objects = TierObjects(DirectoryStore(str(path)))
    tier = LocalTier(objects, "kafka-tiered-storage", BlockCache(1 << 20))
    return SegmentReading(tier, IndexCache(tier, OsFileSystem(), None, BrokerConfig))


def read(path: Path, one: Uploaded, offset: int, max_size: int = 1 << 20) -> Region:
    found = reading_of(path, one).read(place_of(one), offset, max_size)
    assert found is not None
    return found


def offsets(region: Region) -> list[int]:
    return [one.base_offset for one in iter_batches(region.data, allow_torn_tail=True)]


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    for offset in range(100, 180):
        found = reading.read(place_of(SEGMENT), offset, 1 << 20)
        assert found is not None
        assert offsets(found) == list(range(offset - offset % 2, 180, 2))
        assert found.next_offset == 180
        assert bytes(found.data) == SEGMENT.log[found.position :]


def test_as_many_bytes_are_read_as_are_wanted(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    for size in (1, SIZE, SIZE + 1, 3 * SIZE + 70, len(SEGMENT.log)):
        found = reading.read(place_of(SEGMENT), 100, size)
        assert found is not None
        assert bytes(found.data) == SEGMENT.log[: max(size, SIZE)]
        whole = list(iter_batches(found.data, allow_torn_tail=True))
        assert found.next_offset == whole[-1].last_offset + 1


def test_a_batch_that_is_too_large_comes_alone_and_says_how_large_it_is(tmp_path: Path) -> None:
    found = reading_of(tmp_path, SEGMENT).read(place_of(SEGMENT), 102, SIZE - 1)
    assert found is not None
    assert offsets(found) == [102]
    assert found.first_size == len(found.data)


def test_a_read_that_goes_on_asks_for_its_range_only(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    asked: list[tuple[int, int]] = []
    storage = reading._storage
    read_log = storage.read_log

    def counted(segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        asked.append((position, size))
        return read_log(segment, position, size)

    storage.read_log = counted  # type: ignore[method-assign]
    due, received = 100, []
    while due < 180:
        found = reading.read(place_of(SEGMENT), due, 9000)
        assert found is not None
        received += offsets(found)
        due = found.next_offset
    assert received == list(range(100, 180, 2))
    first, *others = asked  # The first looks for the offset.
    assert [position for position, _ in others] == [0, 8694, 17388]
    assert first[1] <= 8192


def test_a_piece_ends_where_the_log_has_another_history(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    found = reading.read(place_of(SEGMENT, last=119), 110, 1 << 20)
    assert found is not None
    assert offsets(found) == [110, 112, 114, 116, 118]
    assert found.next_offset == 120
    assert reading.read(place_of(SEGMENT, last=119), 120, 1 << 20) is None


def with_gap(one: Uploaded, first: int, last: int) -> Uploaded:
    """The segment without the batches of some offsets, as a compaction before it was tiered."""
    log, offset_index, position = b"", b"", 0
    for batch in iter_batches(one.log):
        if not first <= batch.base_offset <= last:
            if position:
                relative = batch.last_offset - one.metadata.start_offset
                offset_index += struct.pack(">ii", relative, position)
            log += batch.bytes_view()
            position = len(log)
    indexes = {**one.indexes, IndexType.OFFSET: offset_index}
    return Uploaded(replace(one.metadata, size=len(log)), log, indexes)


def test_a_gap_is_passed_over(tmp_path: Path) -> None:
    one = with_gap(SEGMENT, 120, 139)
    assert offsets(read(tmp_path, one, 125))[0] == 140


def test_the_end_of_a_segment_may_be_a_gap(tmp_path: Path) -> None:
    one = with_gap(SEGMENT, 170, 179)
    assert reading_of(tmp_path, one).read(place_of(one), 175, 1 << 20) is None


def test_the_bound_of_transactions_is_the_next_index_entry(tmp_path: Path) -> None:
    assert read(tmp_path, SEGMENT, 100, 1).upper_bound == 103
    assert read(tmp_path, SEGMENT, 100).upper_bound == 180


def flipped(one: Uploaded, position: int, bit: int = 0) -> Uploaded:
    log = bytearray(one.log)
    log[position] ^= 1 << bit
    return Uploaded(one.metadata, bytes(log), one.indexes)


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_never_served(tmp_path: Path, seed: int) -> None:
    """What is read is what was uploaded, or an error that names the object and the mend."""
    random = Random(seed)
    one = flipped(SEGMENT, random.randrange(len(SEGMENT.log)), random.randrange(8))
    reading = reading_of(tmp_path, one)
    failures: list[str] = []
    due = 100
    while due < 180:
        try:
            found = reading.read(place_of(one), due, 2 * SIZE + 10)
        except CorruptionError as error:
            failures.append(str(error))
            due += 2
            continue
        assert found is not None
        for batch in iter_batches(found.data, allow_torn_tail=True):
            assert batch.base_offset == due
            start = (due - 100) // 2
            whole = [bytes(batch.bytes_view()) for batch in iter_batches(SEGMENT.log)]
            # Neither the CRC nor a neighbour covers the leader epoch.
            assert bytes(batch.bytes_view())[:12] == whole[start][:12]
            assert bytes(batch.bytes_view())[16:] == whole[start][16:]
            due = batch.last_offset + 1
    assert failures or is_in_epoch(SEGMENT.log, one.log)
    for text in failures:
        assert ".log at byte" in text
        assert "orders-0, offsets 100 to 179); put it back from a copy of the tier" in text


def is_in_epoch(one: bytes, other: bytes) -> bool:
    (at,) = (position for position in range(len(one)) if one[position] != other[position])
    starts = [0]
    for batch in iter_batches(one):
        starts.append(starts[-1] + batch.size)
    return any(start + 12 <= at < start + 16 for start in starts)


def test_an_index_that_points_elsewhere_is_named(tmp_path: Path) -> None:
    entries = bytearray(SEGMENT.indexes[IndexType.OFFSET])
    struct.pack_into(">i", entries, 4 + 8 * 5, struct.unpack_from(">i", entries, 4 + 8 * 5)[0] + 1)
    one = Uploaded(
        SEGMENT.metadata, SEGMENT.log, {**SEGMENT.indexes, IndexType.OFFSET: bytes(entries)}
    )
    reading = reading_of(tmp_path, one)
    assert reading.read(place_of(one), 100, SIZE) is not None
    with pytest.raises(CorruptionError, match="orders-0"):
        reading.read(place_of(one), 123, SIZE)


def test_a_log_that_is_missing_or_short_is_named(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    (path,) = tmp_path.rglob("*.log")
    path.write_bytes(SEGMENT.log[:-1])
    with pytest.raises(CorruptionError, match=f"{path.name}.*{len(SEGMENT.log) - 1} bytes"):
        reading.read(place_of(SEGMENT), 100, SIZE)
    path.unlink()
    with pytest.raises(CorruptionError, match=f"{path.name}.*is missing"):
        reading.read(place_of(SEGMENT), 100, SIZE)


def test_a_damaged_copy_of_an_index_is_fetched_again(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    indexes = reading.indexes  # A copy in memory stands for one on the disk.
    assert isinstance(indexes, IndexCache)
    indexes.get(SEGMENT.metadata, IndexType.OFFSET)
    ((name, content),) = indexes._recent.items()
    indexes._recent[name] = content[:4] + b"\x00\x00\x00\x07" + content[8:]
    found = reading.read(place_of(SEGMENT), 103, SIZE)
    assert found is not None
    assert offsets(found) == [102]


def test_the_first_record_at_a_time_is_found(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    piece = place_of(SEGMENT)
    for offset in (100, 101, 137, 178, 179):
        found = reading.find_time(piece, NOW_MS + offset)
        assert found == FoundRecord(offset, NOW_MS + offset)
    assert reading.find_time(piece, NOW_MS - 5) == FoundRecord(100, NOW_MS + 100)
    assert reading.find_time(piece, NOW_MS + 180) is None


def test_a_time_is_looked_for_from_the_log_start_on_and_up_to_the_pieces_end(
    tmp_path: Path,
) -> None:
    reading = reading_of(tmp_path, SEGMENT)
    found = reading.find_time(place_of(SEGMENT, first=151), NOW_MS + 120)
    assert found == FoundRecord(151, NOW_MS + 151)
    assert reading.find_time(place_of(SEGMENT, last=119), NOW_MS + 120) is None


def test_aborted_transactions_are_those_that_overlap(tmp_path: Path) -> None:
    one = uploaded(100, 40, with_aborts=True)
    reading = reading_of(tmp_path, one)
    aborted = AbortedTransaction(
        producer_id=7, first_offset=100, last_offset=179, last_stable_offset=180
    )
    assert reading.aborted(one.metadata, 150, 160) == ([aborted], True)
    assert reading.aborted(one.metadata, 180, 200) == ([], False)
    flagged = replace(one.metadata, has_no_transactions=True)
    assert reading.aborted(flagged, 150, 160) == ([], False)


def test_the_snapshot_says_which_transactions_are_open_at_the_end(tmp_path: Path) -> None:
    def producer(number: int, first: int | None) -> ProducerSnapshotEntry:
        return ProducerSnapshotEntry(
            producer_id=number,
            epoch=0,
            last_sequence=1,
            last_offset=179,
            offset_delta=1,
            timestamp_ms=NOW_MS,
            coordinator_epoch=-1,
            transaction_first_offset=first,
        )

    def first_open(name: str, *firsts: int | None) -> int | None:
        snapshot = format_snapshot([producer(*one) for one in enumerate(firsts)])
        indexes = {**SEGMENT.indexes, IndexType.PRODUCER_SNAPSHOT: snapshot}
        one = Uploaded(SEGMENT.metadata, SEGMENT.log, indexes)
        return reading_of(tmp_path / name, one).first_open_offset(one.metadata)

    assert first_open("none") is None
    assert first_open("ended", None, None) is None
    assert first_open("open", None, 166, 150) == 150
