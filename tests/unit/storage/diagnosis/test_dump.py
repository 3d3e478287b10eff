"""Rows of files that Ottla wrote, sound and damaged; Kafka's are in the golden tests."""

import pytest

from ottla.base.errors import UserError
from ottla.base.files import read_file
from ottla.record.batch import RecordBatch
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.diagnosis import rows
from ottla.storage.diagnosis.dump import dump_file, files_to_dump
from ottla.storage.diagnosis.rows import Row
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, batch, fill, open_directory, open_log

LOG = "data/t-0/00000000000000000000.log"


def rows_of(path: str, content: bytes, *, deep: bool = False) -> list[Row]:
    disk = FakeFileSystem()
    disk.open(path, create=True).pwrite(content, 0)
    heading, *others = dump_file(disk, path, deep=deep)
    assert isinstance(heading, rows.FileRow)
    assert heading.size == len(content)
    return others


def test_a_batch_shows_its_header() -> None:
    content = batch(b"a", None, base_offset=5, producer_id=3, producer_epoch=1, base_sequence=7)
    assert rows_of("00000000000000000005.log", bytes(content)) == [
        rows.BatchRow(
            position=0,
            base_offset=5,
            last_offset=6,
            count=2,
            size=len(content),
            magic=2,
            compression="none",
            timestamp_type="CreateTime",
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
            producer_id=3,
            producer_epoch=1,
            base_sequence=7,
            last_sequence=8,
            partition_leader_epoch=-1,
            is_transactional=False,
            is_control=False,
            delete_horizon_ms=None,
            crc=int.from_bytes(content[17:21]),
            is_valid=True,
        )
    ]


def test_deep_shows_the_records_after_their_batch() -> None:
    content = batch(b"a", None, producer_id=3, producer_epoch=1, base_sequence=2**31 - 1)
    _, first, second = rows_of("00000000000000000000.log", bytes(content), deep=True)
    assert isinstance(first, rows.RecordRow)
    assert isinstance(second, rows.RecordRow)
    assert (first.offset, first.key, first.value, first.value_size) == (0, b"key", b"a", 1)
    assert (second.offset, second.value, second.value_size) == (1, None, -1)
    assert (first.sequence, second.sequence) == (2**31 - 1, 0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_named(is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=4)
    content = build_end_transaction_marker(
        marker, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS
    )
    _, record = rows_of("00000000000000000000.log", content, deep=True)
    assert isinstance(record, rows.RecordRow)
    assert record.control_type == ("COMMIT" if is_commit else "ABORT")
    assert record.coordinator_epoch == 4


def test_a_bad_batch_is_shown_with_what_is_wrong_and_the_next_one_too() -> None:
    content = batch(b"a") + batch(b"b", base_offset=1)
    content[70] ^= 1
    bad, good = rows_of("00000000000000000000.log.deleted", bytes(content), deep=False)
    assert isinstance(bad, rows.BatchRow)
    assert isinstance(good, rows.BatchRow)
    assert not bad.is_valid
    assert bad.error is not None
    assert bad.error.startswith("CRC ")
    assert good.is_valid


def test_a_torn_tail_is_a_line() -> None:
    whole = batch(b"a")
    _, damage = rows_of("00000000000000000000.log", bytes(whole + whole[:-5]))
    size = len(whole)
    assert damage == rows.DamageRow(
        position=size,
        size=size - 5,
        reason=f"cut short: {size} bytes expected, {size - 5} found",
    )


def test_records_that_cannot_be_read_are_a_line() -> None:
    content = batch(b"a", b"b")
    content[61] = 2  # The first record's size; the checksum is made right again.
    content[17:21] = RecordBatch(content).compute_crc().to_bytes(4)
    _, damage = rows_of("00000000000000000000.log", bytes(content), deep=True)
    assert isinstance(damage, rows.DamageRow)
    assert damage.reason.startswith("the CRC is right, but the records cannot be decoded")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "00000000000000000010.index",
            bytes.fromhex("00000003000000ff") + bytes(24),
            [rows.OffsetIndexRow(offset=13, position=255), rows.FreeRow(position=8, size=24)],
        ),
        (
            "00000000000000000010.timeindex",
            bytes.fromhex("000000000000000500000002") + b"\1\2",
            [
                rows.TimeIndexRow(timestamp=5, offset=12),
                rows.DamageRow(position=12, size=2, reason="2 bytes are not a whole entry"),
            ],
        ),
        (
            "00000000000000000010.txnindex",
            b"\0\0\0",
            [rows.DamageRow(position=0, size=3, reason="3 bytes are not a whole entry")],
        ),
        (
            "00000000000000000010.snapshot",
            b"\0\1",
            [rows.DamageRow(position=2, size=None, reason="the header is cut short")],
        ),
        (
            "leader-epoch-checkpoint",
            b"0\n2\n0 0\n1 x\n",
            [
                rows.LeaderEpochRow(epoch=0, start_offset=0),
                rows.DamageRow(
                    position=8, size=None, reason="line 4 has 'x' for a number of 64 bits"
                ),
            ],
        ),
        (
            "replication-offset-checkpoint",
            b"0\n1\nt 0 12\n",
            [rows.CheckpointRow(topic="t", partition=0, offset=12)],
        ),
        (
            "meta.properties",
            b"#c\nversion=1\n",
            [
                rows.PropertyRow(name="version", value="1"),
                rows.DamageRow(
                    position=0, size=None, reason="there is no node.id or no cluster.id"
                ),
            ],
        ),
        (".kafka_cleanshutdown", b"", []),
        (
            ".kafka_cleanshutdown",
            b'{"version":0,"brokerEpoch":7}',
            [
                rows.PropertyRow(name="version", value="0"),
                rows.PropertyRow(name="brokerEpoch", value="7"),
            ],
        ),
    ],
)
def test_small_files_and_their_damage(name: str, content: bytes, expected: list[Row]) -> None:
    assert rows_of(name, content) == expected


def test_a_log_directory_is_dumped_file_by_file() -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    fill(directory.create_log("t", 0, TOPIC_ID), 12)
    directory.close()
    paths = files_to_dump(disk, "data")
    assert paths[0] == "data/meta.properties"
    assert LOG in paths
    for path in paths:
        heading, *others = dump_file(disk, path, deep=True)
        assert isinstance(heading, rows.FileRow)
        assert not [row for row in others if isinstance(row, rows.DamageRow)]


def test_a_file_that_vanishes_meanwhile_is_a_line() -> None:
    found = list(dump_file(FakeFileSystem(), LOG))
    assert found == [rows.DamageRow(position=0, size=None, reason="the file does not exist")]


def test_a_person_hears_what_cannot_be_dumped() -> None:
    disk = FakeFileSystem()
    disk.open("letter.txt", create=True).close()
    with pytest.raises(UserError, match=r"letter\.txt is not named like a file of a log directory"):
        files_to_dump(disk, "letter.txt")
    with pytest.raises(UserError, match="nowhere does not exist"):
        files_to_dump(disk, "nowhere")


def test_dumping_writes_nothing() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 3)
    before = read_file(disk, LOG)
    for path in files_to_dump(disk, "data"):
        list(dump_file(disk, path))
    assert read_file(disk, LOG) == before
