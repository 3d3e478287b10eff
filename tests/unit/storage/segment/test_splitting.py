"""A segment whose offsets lie too far apart for its indexes is split when recovery meets it."""

from dataclasses import replace

import pytest

from ottla.base.files import FileSystem, join, remove_if_present
from ottla.codec.compression import Compression
from ottla.config.setting import INT32_MAX
from ottla.config.topic import TopicConfig
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.splitting import Piece, pieces_of
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.support.logs import NOW_MS, SMALL, open_log, read_all
from tests.support.old_messages import build_wrapper

PARTITION = "data/t-0"
FAR = INT32_MAX + 1
COMPACTED = replace(SMALL, cleanup_policy=("compact",), segment_bytes=1 << 20)
DELETED = replace(COMPACTED, cleanup_policy=("delete",))

OFFSETS = [0, 1, 700, FAR - 1, FAR, FAR + 3, 2 * FAR + 10, 2 * FAR + 11]


def one_record(offset: int) -> bytes:
    builder = RecordBatchBuilder(offset, leader_epoch=0)
    builder.append(b"key", b"%d" % offset, NOW_MS + offset)
    return builder.build()


def one_old_message(offset: int) -> bytes:
    """A wrapper, whose first offset only its inner messages tell."""
    message = build_message(b"key", b"%d" % offset, magic=1, timestamp_ms=NOW_MS + offset)
    return build_wrapper(
        [message],
        magic=1,
        compression=Compression.GZIP,
        offset=offset,
        timestamp_ms=NOW_MS + offset,
    )


def old_log(content: bytes, base_offset: int = 0) -> FakeFileSystem:
    """A partition as it lies after an unclean stop, with one segment of these bytes."""
    file_system = FakeFileSystem()
    log = open_log(file_system, DELETED)
    log.maintenance.close()
    for name in file_system.list(PARTITION):
        # Nor is there an integrity file: as Kafka left it.
        if name.startswith("0"):
            file_system.remove(join(PARTITION, name))
    file = file_system.open(join(PARTITION, f"{base_offset:020d}.log"), writable=True, create=True)
    file.pwrite(content, 0)
    file.sync()
    file.close()
    file_system.sync_directory(PARTITION)
    return file_system.crash(CrashMode.KEEP)


def content_of(log: PartitionLog) -> bytes:
    return b"".join(one.log.read(0, one.log.size) for one in log.segments.values)


def base_offsets(log: PartitionLog) -> list[int]:
    return [one.base_offset for one in log.segments.values]


@pytest.mark.parametrize(
    ("batches", "pieces"),
    [
        ([(0, 5), (100, INT32_MAX)], [Piece(0, 0, 300)]),
        ([(0, 5), (100, FAR)], [Piece(0, 0, 100), Piece(FAR, 100, 300)]),
        ([(0, FAR)], [Piece(0, 0, 0), Piece(FAR, 0, 300)]),
        (
            [(0, 5), (100, FAR), (200, 3 * FAR)],
            [Piece(0, 0, 100), Piece(FAR, 100, 200), Piece(3 * FAR, 200, 300)],
        ),
        ([(0, 5), (100, FAR), (200, 4)], [Piece(0, 0, 100), Piece(FAR, 100, 300)]),
        ([(0, 5), (100, 4), (200, FAR)], [Piece(0, 0, 300)]),
        ([], [Piece(0, 0, 300)]),
    ],
    ids=[
        "what fits stays whole",
        "a piece ends before the first offset that is too far",
        "the first piece keeps the old name, empty if must be",
        "as many pieces as it takes",
        "what goes backwards stays where it is",
        "nothing is split after a step backwards",
        "no batch, no split",
    ],
)
def test_pieces(batches: list[tuple[int, int]], pieces: list[Piece]) -> None:
    last_offsets = dict(batches)
    assert pieces_of(0, batches, 300, last_offsets.__getitem__) == pieces


@pytest.mark.parametrize("config", [COMPACTED, DELETED], ids=["compacted", "deleted"])
@pytest.mark.parametrize("build", [one_record, one_old_message], ids=["v2", "v1"])
def test_every_record_is_kept_and_found(build: object, config: TopicConfig) -> None:
    assert callable(build)
    content = b"".join(build(offset) for offset in OFFSETS)
    log = open_log(old_log(content), config)
    assert base_offsets(log) == [0, FAR, 2 * FAR + 10]
    assert content_of(log) == content
    assert [record.offset for record in read_all(log)] == OFFSETS
    for place, offset in enumerate(OFFSETS):
        assert [record.offset for record in read_all(log, offset)] == OFFSETS[place:]
        found = log.reader.find_timestamp(NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    assert log.log_end_offset == OFFSETS[-1] + 1


def test_batches_of_many_offsets_stay_whole() -> None:
    builder = RecordBatchBuilder(FAR - 2, leader_epoch=0)
    for number in range(4):
        builder.append(b"key", b"%d" % number, NOW_MS)
    log = open_log(old_log(one_record(0) + builder.build()), COMPACTED)
    assert base_offsets(log) == [0, FAR - 2]
    assert [record.offset for record in read_all(log)] == [0, *range(FAR - 2, FAR + 2)]


def test_a_torn_tail_is_cut_off_as_ever() -> None:
    content = one_record(0) + one_record(FAR)
    log = open_log(old_log(content + one_record(FAR + 1)[:-1]), COMPACTED)
    assert base_offsets(log) == [0, FAR]
    assert content_of(log) == content


def test_a_damaged_batch_beyond_the_span_is_no_reason_to_split() -> None:
    damaged = bytearray(one_record(FAR))
    damaged[-1] ^= 1
    disk = old_log(one_record(0) + damaged)
    # As a power failure leaves it: after a kill, a whole batch with a wrong checksum is kept.
    remove_if_present(disk, join("data", BOOT_NOTE))
    log = open_log(disk, COMPACTED)
    assert base_offsets(log) == [0]
    assert content_of(log) == one_record(0)


def test_the_base_offset_of_a_segment_need_not_be_that_of_its_first_batch() -> None:
    log = open_log(old_log(one_record(70) + one_record(FAR + 50), base_offset=50), COMPACTED)
    assert base_offsets(log) == [50, FAR + 50]
    assert log.log_start_offset == 50
    log = open_log(old_log(one_record(FAR + 50), base_offset=50), COMPACTED)
    assert base_offsets(log) == [50, FAR + 50]
    assert [record.offset for record in read_all(log, 50)] == [FAR + 50]


def test_a_log_that_was_split_continues() -> None:
    disk = old_log(b"".join(map(one_record, OFFSETS)))
    log = open_log(disk, COMPACTED)
    log.writer.append_as_follower(bytearray(one_record(OFFSETS[-1] + 5)), now_ms=NOW_MS)
    log.maintenance.close()
    again = open_log(disk.crash(CrashMode.KEEP), COMPACTED)
    assert [record.offset for record in read_all(again)] == [*OFFSETS, OFFSETS[-1] + 5]
    assert base_offsets(again) == [0, FAR, 2 * FAR + 10]


@pytest.mark.slow
@pytest.mark.parametrize("config", [COMPACTED, DELETED], ids=["compacted", "deleted"])
def test_a_crash_at_any_call_loses_nothing(config: TopicConfig) -> None:
    content = b"".join(map(one_record, OFFSETS))
    disk = old_log(content)

    def split(file_system: FileSystem, _: list[object]) -> None:
        open_log(file_system, config)

    points = 0
    for point in every_crash_point(
        split, make_file_system=lambda: disk.crash(CrashMode.KEEP), seeds=3
    ):
        points += 1
        again = open_log(point.file_system, config)
        assert content_of(again) == content, point
        assert base_offsets(again) == [0, FAR, 2 * FAR + 10], point
        assert [record.offset for record in read_all(again)] == OFFSETS, point
    assert points > 50
