"""A data directory of the version before is opened, served, and left without its old files."""

from pathlib import Path

import pytest

import ottla
from ottla.base.files import OsFileSystem, replace_file
from ottla.base.ids import uuid_text
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.checksummed import with_checksum
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import read_integrity

SETTINGS = {"log.segment.bytes": 1000}
COUNT = 30
ENDINGS = (
    ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint", "partition.metadata"
)  # fmt: skip
"""Of the names of all files that Kafka has in a partition, and of today's one of Ottla."""


def make_as_before(path: Path, *, is_clean: bool, is_damaged: bool) -> None:
    """With what earlier versions kept in several files, in place of the one file of today."""
    log = ottla.open(path, SETTINGS)
    log.create_topic("orders", partitions=2)
    for number in range(COUNT):
        log.append("orders", b"%d" % number, partition=number % 2)
    log.flush()
    log.close()
    if not is_clean:
        (path / ".kafka_cleanshutdown").unlink()
    disk = OsFileSystem()
    for index in range(2):
        partition = path / f"orders-{index}"
        known = read_integrity(disk, str(partition))
        assert known is not None
        assert known.topic_id is not None
        (partition / INTEGRITY).unlink()
        content = f"2\n{uuid_text(known.topic_id)}\n0\norders {index}\n-\n".encode()
        older = {"ottla-witness.deleted": content, "ottla-seams.deleted": b"0\n0\n"}
        for name, lines in older.items():
            replace_file(disk, str(partition / name), with_checksum(lines))
        if is_damaged:
            (partition / "ottla-witness.deleted").write_bytes(b"garbled")
        for one in list(partition.glob("*.log")):
            replace_file(disk, str(partition / f"{one.stem}.ottla-witness.deleted"), b"sums")


def names_in(partition: Path) -> set[str]:
    return {one.name for one in partition.iterdir()}


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_directory_of_the_version_before_is_served_and_its_old_files_go(
    tmp_path: Path, *, is_clean: bool, is_damaged: bool
) -> None:
    path = tmp_path / "data"
    make_as_before(path, is_clean=is_clean, is_damaged=is_damaged)
    with ottla.open(path, SETTINGS) as log:
        address = log.listen("127.0.0.1:0").address
        with ottla.Producer(address) as producer:
            assert producer.send("orders", b"new", partition=0).result().offset == COUNT // 2
        with ottla.Consumer(address) as consumer:
            consumer.assign({("orders", 0): 0, ("orders", 1): 0})
            found = consumer.consume(COUNT + 1, timeout=60)
    values = sorted(one.value or b"" for one in found)
    assert values == sorted([*(b"%d" % number for number in range(COUNT)), b"new"])
    for index in range(2):
        names = names_in(path / f"orders-{index}")
        assert [one for one in names if not one.endswith(ENDINGS)] == []
        assert INTEGRITY in names
        known = read_integrity(OsFileSystem(), str(path / f"orders-{index}"))
        assert known is not None
        assert (known.partition, known.is_older) == (("orders", index), False)
    assert check(OsFileSystem(), str(path), deep=True).is_sound
