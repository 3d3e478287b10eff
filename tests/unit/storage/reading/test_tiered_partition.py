"""The files of uploads as those of segments, also where only a part of an upload is the log's."""

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.files.filenames import FileKind, FileName, log_file_name
from ottla.storage.findings import Finding, FindingKind, LostOffsets
from ottla.storage.reading.tiered_partition import TieredPartition
from ottla.storage.remote.lineage import Chain, Piece
from ottla.storage.remote.opening import open_tier
from tests.support.tiered import TieredPlace, batches, uploaded


def partition(tmp_path: Path, *pieces: tuple[int, int, int, int]) -> TieredPartition:
    """Of uploads and the offsets that the log has of each: from, to, first and last."""
    uploads = [uploaded(number, one[0], one[1]) for number, one in enumerate(pieces)]
    place = TieredPlace(tmp_path, uploads, (90, 91))
    found = tuple(
        Piece(upload.metadata, first, last)
        for upload, (_, _, first, last) in zip(uploads, pieces, strict=True)
    )
    chain = Chain(start_offset=pieces[0][2], pieces=found, findings=())
    return TieredPartition(open_tier(str(place.tier)), chain)


def content(tiered: TieredPartition, base_offset: int, kind: FileKind = FileKind.LOG) -> bytes:
    file = tiered.open("path", FileName(offset=base_offset, kind=kind))
    assert file.size() == tiered.status(FileName(offset=base_offset, kind=kind)).size
    return bytes(file.map(file.size()))


def test_a_whole_upload_has_its_log_and_its_indexes(tmp_path: Path) -> None:
    tiered = partition(tmp_path, (0, 9, 0, 9))
    one = uploaded(0, 0, 9)
    assert sorted(tiered.names) == [
        f"{0:020}.index", f"{0:020}.log", f"{0:020}.timeindex", f"{0:020}.txnindex",
    ]  # fmt: skip
    assert content(tiered, 0) == one.log
    assert content(tiered, 0, FileKind.TRANSACTION_INDEX) == b""
    assert len(content(tiered, 0, FileKind.OFFSET_INDEX)) == 8 * 4
    assert tiered.end_offset == 10


def test_a_part_of_an_upload_has_the_batches_of_that_part(tmp_path: Path) -> None:
    tiered = partition(tmp_path, (0, 13, 0, 7), (4, 19, 8, 15))
    assert content(tiered, 0) == b"".join(batches(0, 7))
    assert content(tiered, 8) == b"".join(batches(8, 15))
    assert f"{8:020}.index" not in tiered.names, "it counts from the upload's first offset"


def test_a_log_that_starts_within_its_first_upload_has_all_of_it(tmp_path: Path) -> None:
    tiered = partition(tmp_path, (0, 9, 6, 9))
    assert content(tiered, 0) == uploaded(0, 0, 9).log
    assert tiered.start_offset == 6


def test_what_is_before_the_start_of_a_file_and_behind_its_end_is_not_read(tmp_path: Path) -> None:
    file = partition(tmp_path, (0, 9, 0, 3)).open("path", FileName(offset=0, kind=FileKind.LOG))
    assert file.pread(1 << 20, 0) == b"".join(batches(0, 3))
    assert file.pread(10, file.size()) == b""
    assert file.duplicate().pread(4, 8) == file.pread(4, 8)
    with pytest.raises(ValueError, match="longer than path"):
        file.map(file.size() + 1)
    for deed in (file.fileno, file.sync, lambda: file.truncate(1), lambda: file.pwrite(b"x", 0)):
        with pytest.raises(OSError, match="only read"):
            deed()


def test_a_gap_is_a_segment_that_cannot_be_opened(tmp_path: Path) -> None:
    gap = Finding(
        kind=FindingKind.LOST_OFFSETS,
        path="orders-0",
        position=None,
        reason="no upload in the tier has offsets 10 to 19",
        lost=LostOffsets(first=10, last=19),
    )
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (20, 21))
    chain = Chain(start_offset=0, pieces=(), findings=(gap,))
    tiered = TieredPartition(open_tier(str(place.tier)), chain)
    assert tiered.names == {log_file_name(10)}
    with pytest.raises(CorruptionError, match="no upload in the tier has offsets 10 to 19"):
        tiered.open("path", FileName(offset=10, kind=FileKind.LOG))


@pytest.mark.parametrize("kind", [FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX])
def test_an_unreadable_object_is_told_and_is_zero_bytes_or_no_entries(
    tmp_path: Path, kind: FileKind
) -> None:
    upload = uploaded(1, 0, 9)
    place = TieredPlace(tmp_path, [upload], (10, 11))
    (path,) = place.tier.rglob(FileName(offset=0, kind=kind).text.replace(f"{0:020}", "*"))
    path.unlink()
    found = Chain(start_offset=0, pieces=(Piece(upload.metadata, 0, 9),), findings=())
    told: list[Finding] = []
    tiered = TieredPartition(open_tier(str(place.tier)), found, told.append)
    size = upload.metadata.size if kind is FileKind.LOG else 0
    assert content(tiered, 0, kind) == bytes(size)
    assert {(one.kind, one.path) for one in told} == {(FindingKind.REMOTE_OBJECT, str(path))}
    with pytest.raises(CorruptionError, match="is missing"):
        content(TieredPartition(open_tier(str(place.tier)), found), 0, kind)


def test_a_part_of_an_unreadable_upload_has_its_bytes_as_far_as_they_are_known(
    tmp_path: Path,
) -> None:
    upload = uploaded(1, 0, 13)
    place = TieredPlace(tmp_path, [upload], (14, 15))
    (path,) = place.tier.rglob("*.log")
    content_before = bytearray(path.read_bytes())
    content_before[20] ^= 255  # The magic and the length of the first batch.
    content_before[16] ^= 255
    path.write_bytes(content_before)
    found = Chain(start_offset=8, pieces=(Piece(upload.metadata, 8, 13),), findings=())
    tiered = TieredPartition(open_tier(str(place.tier)), found, lambda _: None)
    assert tiered.segments[0].size > 0
