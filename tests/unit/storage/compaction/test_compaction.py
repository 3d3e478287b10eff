"""A pass over a log: what stays, what goes, and what is refused."""

from dataclasses import replace

import pytest

from ottla.base.files import FileSystem
from ottla.codec.compression import Compression
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.record.record import Record, read_records
from ottla.storage.compaction.compaction import (
    DamagedSegmentError,
    StoppedError,
    Surroundings,
    compact,
)
from ottla.storage.compaction.key_filter import KeyFilter, PlainKeyFilter
from ottla.storage.compaction.offset_map import OffsetMapTooSmallError
from ottla.storage.compaction.planning import MapMemory
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import (
    COMPACTED,
    KEY_FILTERS,
    End,
    Keeper,
    Roll,
    Write,
    clean,
    plan,
    stored,
)
from tests.support.logs import NOW_MS, open_log
from tests.support.old_messages import build_wrapper

HORIZON_MS = NOW_MS + COMPACTED.delete_retention_ms


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def keeper(disk: FakeFileSystem) -> Keeper:
    return Keeper(open_log(disk, replace(COMPACTED, cleanup_policy=("delete",))))


def records(log: PartitionLog) -> list[Record]:
    return [record for batch in iter_batches(stored(log)) for record in read_records(batch)]


def found(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(one.offset, one.key, one.value) for one in records(log)]


def write(
    keeper: Keeper, *pairs: tuple[bytes | None, bytes | None], producer: int | None = None
) -> None:
    keeper.carry_out(Write(tuple(pairs), producer))


def test_only_the_last_record_of_a_key_stays_with_its_offset(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"), (b"b", b"1"))
    write(keeper, (b"a", b"2"))
    write(keeper, (b"c", b"1"))
    keeper.finish()
    clean(keeper.log, disk)
    assert found(keeper.log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]


def test_a_tombstone_stays_until_its_horizon_which_the_first_pass_sets(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    write(keeper, (b"a", None), (b"b", b"1"))
    write(keeper, (b"c", b"1"))
    keeper.finish()
    clean(keeper.log, disk)
    assert found(keeper.log) == [(1, b"a", None), (2, b"b", b"1"), (3, b"c", b"1")]
    first = next(iter_batches(stored(keeper.log)))
    assert isinstance(first, RecordBatch)
    assert first.has_delete_horizon
    assert first.base_timestamp_ms == HORIZON_MS
    assert [one.timestamp_ms for one in records(keeper.log)] == [NOW_MS, NOW_MS + 1, NOW_MS]
    clean(keeper.log, disk, now_ms=HORIZON_MS - 1)
    assert (1, b"a", None) in found(keeper.log)
    clean(keeper.log, disk, now_ms=HORIZON_MS)
    assert found(keeper.log) == [(2, b"b", b"1"), (3, b"c", b"1")]


def test_a_record_without_a_key_goes_and_is_counted(keeper: Keeper, disk: FakeFileSystem) -> None:
    write(keeper, (None, b"1"), (b"a", b"1"))
    write(keeper, (b"b", b"1"))
    keeper.finish()
    result = clean(keeper.log, disk)
    assert result is not None
    assert result.stats.keyless_records == 1
    assert (result.stats.records_read, result.stats.records_kept) == (3, 2)
    assert [key for _, key, _ in found(keeper.log)] == [b"a", b"b"]


def test_the_data_of_an_aborted_transaction_goes_and_its_marker_later(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    write(keeper, (b"a", b"2"), producer=0)
    keeper.carry_out(End(0, False))
    write(keeper, (b"b", b"1"), producer=0)
    keeper.carry_out(End(0, True))
    write(keeper, (b"z", b"1"))
    keeper.finish()
    kinds = lambda: [  # noqa: E731
        ("marker" if one.is_control else "data", one.base_offset, one.record_count)
        for one in iter_batches(stored(keeper.log))
    ]
    clean(keeper.log, disk)
    assert kinds() == [
        ("data", 0, 1), ("marker", 2, 1), ("data", 3, 1), ("marker", 4, 1), ("data", 5, 1),
    ]  # fmt: skip
    assert keeper.log.reader.aborted_transactions(0, 100)
    clean(keeper.log, disk)
    horizon = list(iter_batches(stored(keeper.log)))[1]
    assert isinstance(horizon, RecordBatch)
    assert horizon.has_delete_horizon
    clean(keeper.log, disk, now_ms=HORIZON_MS)
    assert ("marker", 2, 1) not in kinds()
    assert not keeper.log.reader.aborted_transactions(0, 100)


def test_an_abort_in_the_compacted_part_says_nothing_of_the_producers_later_transactions(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    write(keeper, (b"x", b"1"), producer=0)
    keeper.carry_out(End(0, False))
    write(keeper, (b"z", b"1"))
    keeper.finish()
    first = clean(keeper.log, disk)
    assert first is not None
    assert keeper.log.reader.aborted_transactions(0, 100), "its marker is still there"
    write(keeper, (b"a", b"2"), producer=0)
    keeper.carry_out(End(0, True))
    keeper.finish()
    clean(keeper.log, disk, cleaned_until=first.end_offset)
    data = [one for one in iter_batches(stored(keeper.log)) if not one.is_control]
    values = [(one.key, one.value) for batch in data for one in read_records(batch)]
    assert values == [(b"z", b"1"), (b"a", b"2")]


def test_a_producers_last_batch_stays_empty_for_its_sequence_number(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"), (b"b", b"1"), producer=3)
    write(keeper, (b"a", b"2"), (b"b", b"2"))
    keeper.finish()
    clean(keeper.log, disk)
    empty = next(iter_batches(stored(keeper.log)))
    assert (empty.record_count, empty.base_offset, empty.last_offset) == (0, 0, 1)
    assert (empty.producer_id, empty.last_sequence) == (3, 1)
    again = open_log(disk.crash(CrashMode.KEEP), COMPACTED)
    assert again.producers.entries[3].last_sequence == 1


def test_the_last_batch_of_a_pass_stays_so_that_the_end_is_known(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    write(keeper, (None, b"2"))
    keeper.finish()
    clean(keeper.log, disk)
    batches = list(iter_batches(stored(keeper.log)))
    assert [(one.base_offset, one.record_count) for one in batches] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("new_key_filter", KEY_FILTERS)
@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_keeps_its_codec(
    keeper: Keeper, disk: FakeFileSystem, codec: Compression, new_key_filter: type[PlainKeyFilter]
) -> None:
    keeper.carry_out(Write(((b"a", b"1" * 50), (b"b", b"2" * 50)), codec=codec))
    write(keeper, (b"a", b"3"))
    write(keeper, (b"c", b"3"))
    keeper.finish()
    key_filter: KeyFilter = new_key_filter(24 * 100, 0.9)
    clean(keeper.log, disk, key_filter=key_filter)
    first = next(iter_batches(stored(keeper.log)))
    first.check()
    assert first.compression is codec
    assert found(keeper.log)[0] == (1, b"b", b"2" * 50)


@pytest.mark.parametrize("new_key_filter", KEY_FILTERS)
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_compacted_too(
    disk: FakeFileSystem, magic: int, new_key_filter: type[PlainKeyFilter]
) -> None:
    log = open_log(disk, replace(COMPACTED, cleanup_policy=("delete",)))
    old = [
        build_message(b"k%d" % number, b"old", magic=magic, offset=number, timestamp_ms=NOW_MS)
        for number in range(3)
    ]
    wrapper = build_wrapper(
        old, magic=magic, compression=Compression.GZIP, offset=2, timestamp_ms=NOW_MS
    )
    new = [(b"k0", b"new"), (b"k1", None), (b"z", b"end")]
    messages = [
        build_message(key, value, magic=magic, offset=3 + number, timestamp_ms=NOW_MS)
        for number, (key, value) in enumerate(new)
    ]
    log.writer.append_as_follower(bytearray(wrapper + b"".join(messages)), now_ms=NOW_MS)
    log.writer.write_out()
    log.writer.roll(NOW_MS)
    log.maintenance.reconfigure(COMPACTED)
    clean(log, disk, key_filter=new_key_filter(24 * 100, 0.9))
    assert found(log)[:2] == [(2, b"k2", b"old"), (3, b"k0", b"new")]
    assert found(log)[-1] == (5, b"z", b"end")
    assert all(one.magic == magic for one in iter_batches(stored(log)))


def test_what_is_compacted_keeps_the_time_of_the_files_it_comes_from(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    keeper.carry_out(Roll())
    write(keeper, (b"b", b"1"))
    keeper.finish()
    paths = [one.log.path for one in keeper.log.segments.values]
    disk.set_modified_ms(paths[0], 111)
    disk.set_modified_ms(paths[1], 222)
    clean(keeper.log, disk)
    status = disk.status(paths[0])
    assert status is not None
    assert status.modified_ms == 222


def test_a_map_that_is_too_small_for_one_batch_says_what_to_do(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    keeper.finish()
    with pytest.raises(OffsetMapTooSmallError, match=r"raise log\.cleaner\.dedupe\.buffer\.size"):
        clean(keeper.log, disk, memory=MapMemory(size=48, load_factor=0.9))


def test_a_small_map_makes_a_pass_end_before_the_batch_that_does_not_fit(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    for number in range(10):
        write(keeper, (b"a%d" % number, b"1"), (b"b%d" % number, b"1"))
    keeper.finish()
    result = clean(keeper.log, disk, memory=MapMemory(size=24 * 10, load_factor=0.9))
    assert result is not None
    assert result.end_offset == 8
    assert result.stats.keys == 8
    assert len(found(keeper.log)) == 20


def test_a_damaged_batch_ends_the_pass_and_names_segment_and_position(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    write(keeper, (b"b", b"1"))
    keeper.finish()
    path = keeper.log.segments.first.log.path
    file = disk.open(path, writable=True)
    file.pwrite(b"\xff", file.size() - 1)
    file.close()
    with pytest.raises(DamagedSegmentError, match="CRC") as caught:
        clean(keeper.log, disk)
    assert (caught.value.path, caught.value.base_offset) == (path, 0)
    assert caught.value.position > 0
    assert not [name for name in disk.list("data/t-0") if name.endswith(".cleaned")]


@pytest.mark.parametrize("first_byte", [0x01, 0x80])
def test_an_offset_that_no_checksum_covers_is_compared_with_its_neighbours(
    keeper: Keeper, disk: FakeFileSystem, first_byte: int
) -> None:
    """Taken for right, it would have made the newer record of the key look replaced."""
    write(keeper, (b"a", b"old"))
    write(keeper, (b"a", b"new"))
    keeper.finish()
    path = keeper.log.segments.first.log.path
    file = disk.open(path, writable=True)
    file.pwrite(bytes([first_byte]), 0)
    file.close()
    with pytest.raises(DamagedSegmentError, match="is out of place"):
        clean(keeper.log, disk)


def test_a_pass_that_is_stopped_takes_back_what_it_has_made(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    write(keeper, (b"a", b"1"))
    keeper.finish()
    made = plan(keeper.log, disk)
    assert made is not None
    looks = iter([None])

    def check() -> None:
        if next(looks, "enough") == "enough":
            raise StoppedError("enough")

    with pytest.raises(StoppedError):
        compact(made, PlainKeyFilter(24 * 100, 0.9), Surroundings(file_system=disk, check=check))
    assert not cleaned_files(disk)


def cleaned_files(disk: FileSystem) -> list[str]:
    return [name for name in disk.list("data/t-0") if name.endswith(".cleaned")]


def test_a_damaged_segment_that_is_left_out_stays_as_it_is(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    for _ in range(3):
        write(keeper, (b"a", b"1"))
        keeper.carry_out(Roll())
    keeper.finish()
    clean(keeper.log, disk, damaged=(1,))
    # The first is replaced by the last; the one in the middle is not looked at.
    assert found(keeper.log) == [(1, b"a", b"1"), (2, b"a", b"1")]


def test_a_batch_may_be_built_of_all_kinds_of_headers_and_keep_them(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    builder = RecordBatchBuilder()
    builder.append(b"a", b"1", NOW_MS, [("h", b"x"), ("h", None)])
    builder.append(b"b", None, NOW_MS - 7, [("", b"")])
    builder.append(b"a", b"2", NOW_MS + 9, [("last", b"y")])
    keeper.log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    keeper.finish()
    clean(keeper.log, disk)
    assert [(one.timestamp_ms, one.headers) for one in records(keeper.log)] == [
        (NOW_MS - 7, (("", b""),)),
        (NOW_MS + 9, (("last", b"y"),)),
    ]
