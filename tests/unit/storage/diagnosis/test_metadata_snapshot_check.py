"""Snapshots of a KRaft cluster's metadata are looked into by `check`, wherever damage lies."""

import pytest

from ottla.base.files import read_file, replace_file
from ottla.base.ids import Uuid
from ottla.metadata.log_writing import snapshot_parts
from ottla.metadata.records import TopicRecord
from ottla.record.batch import batch_at
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.findings import Finding, FindingKind
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, disk

FOLDER = "/d/__cluster_metadata-0"
SNAPSHOTS = [f"{FOLDER}/00000000000000000005-0000000001.checkpoint", "/d/bootstrap.checkpoint"]


@pytest.fixture
def files() -> FakeFileSystem:
    file_system = disk("/d", FOLDER)
    record = TopicRecord(name="t", topic_id=Uuid(bytes(16)))
    for path in SNAPSHOTS:
        content = b"".join(snapshot_parts([(record, 0)], epoch=1, now_ms=NOW_MS))
        replace_file(file_system, path, content)
    replace_file(file_system, f"{FOLDER}/00000000000000000000.log", b"")
    return file_system


def findings(files: FakeFileSystem) -> list[Finding]:
    kind = FindingKind.METADATA_SNAPSHOT
    return [one for one in check(files, "/d").findings if one.kind is kind]


def test_a_whole_snapshot_is_sound(files: FakeFileSystem) -> None:
    assert findings(files) == []


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_each_flipped_or_zeroed_byte_is_named_with_its_batch(
    files: FakeFileSystem, path: str
) -> None:
    content = read_file(files, path)
    for position in range(0, len(content), 7):
        for changed in {0, content[position] ^ 4} - {content[position]}:
            spoilt = content[:position] + bytes([changed]) + content[position + 1 :]
            replace_file(files, path, spoilt)
            assert bool(findings(files)) is not _is_unchecked(content, position), position


def _is_unchecked(content: bytes, position: int) -> bool:
    """Whether a byte is of a batch's offset or leader epoch, which no checksum covers."""
    start = 0
    while (batch := batch_at(content, start)).size <= position - start:
        start += batch.size
    return position - start < 8 or 12 <= position - start < 16


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_a_snapshot_that_ends_after_any_of_its_batches_but_the_last_is_not_whole(
    files: FakeFileSystem, path: str
) -> None:
    content = read_file(files, path)
    end = 0
    while end < len(content):
        replace_file(files, path, content[:end])
        assert [one.text for one in findings(files)] == [
            f"{path} at byte {end}: the snapshot is incomplete"
        ]
        end += batch_at(content, end).size


def test_one_that_is_being_written_or_deleted_is_not_looked_into(files: FakeFileSystem) -> None:
    for suffix in (".part", ".deleted"):
        replace_file(files, f"{FOLDER}/00000000000000000009-0000000001.checkpoint{suffix}", b"x")
    assert findings(files) == []
