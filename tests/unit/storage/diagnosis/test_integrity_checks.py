"""The integrity file against the files that it speaks of."""

from dataclasses import replace

from ottla.base.files import replace_file
from ottla.storage.diagnosis.integrity_checks import (
    changed_index_findings,
    cut_short_findings,
    read_own,
    wrong_file_findings,
)
from ottla.storage.files.filenames import INTEGRITY, log_file_name
from ottla.storage.files.integrity import Integrity
from ottla.storage.files.log_file import LogFile
from ottla.storage.findings import Finding, FindingKind
from ottla.testing import FakeFileSystem
from tests.support.damaged_logs import PARTITION, Files, sound_files

PATH = f"{PARTITION}/{INTEGRITY}"


def known(files: Files) -> Integrity:
    integrity, findings = read_own(files.disk(), PARTITION)
    assert integrity is not None
    assert findings == []
    return integrity


def wrong_files(files: Files, base_offset: int, integrity: Integrity) -> list[Finding]:
    disk = files.disk()
    file = disk.open(f"{PARTITION}/{log_file_name(base_offset)}")
    log = LogFile(disk, file, file.size())
    return list(wrong_file_findings(log, base_offset, integrity))


def test_a_partition_without_the_file_has_nothing_to_compare() -> None:
    assert read_own(FakeFileSystem(), "data/none-0") == (None, [])


def test_a_damaged_line_is_named_and_what_stands_before_it_is_believed() -> None:
    files = sound_files()
    whole = known(files)
    files[PATH][-3] ^= 1
    integrity, (found,) = read_own(files.disk(), PARTITION)
    assert integrity is not None
    assert integrity.topic_id == whole.topic_id
    # Of the last segment the last line says what its index was.
    assert integrity.segments != whole.segments
    assert integrity.segments.keys() == whole.segments.keys()
    assert (found.kind, found.path) == (FindingKind.CHECKPOINT, PATH)
    assert "a line is damaged" in found.reason


def test_a_file_whose_beginning_is_damaged_says_nothing() -> None:
    files = sound_files()
    files[PATH][:4] = b"\xff\xff\xff\xff"
    integrity, (found,) = read_own(files.disk(), PARTITION)
    assert integrity is None
    assert found.kind is FindingKind.CHECKPOINT


def test_the_log_of_another_segment_is_distinguished_from_the_right_one() -> None:
    files = sound_files()
    integrity = known(files)
    assert wrong_files(files, files.bases[1], integrity) == []
    files[files.log(1)] = bytearray(files[files.log(2)])
    (found,) = wrong_files(files, files.bases[1], integrity)
    assert (found.kind, found.path) == (FindingKind.WRONG_FILE, files.log(1))


def test_a_segment_that_the_file_does_not_list_is_not_judged() -> None:
    files = sound_files()
    integrity = replace(known(files), segments={})
    files[files.log(1)] = bytearray(files[files.log(2)])
    assert wrong_files(files, files.bases[1], integrity) == []


def cut_short(files: Files, log_start_offset: int = 0) -> list[Finding]:
    integrity, _ = read_own(files.disk(), PARTITION)
    assert integrity is not None
    return list(cut_short_findings(files.disk(), PARTITION, integrity, log_start_offset))


def test_an_ended_segment_that_is_shorter_than_it_was_has_lost_records() -> None:
    files = sound_files()
    assert cut_short(files) == []
    size = len(files[files.log(1)])
    del files[files.log(1)][-70:]
    (found,) = cut_short(files)
    assert (found.kind, found.path) == (FindingKind.LOST_OFFSETS, files.log(1))
    assert found.position == size - 70
    assert f"has {size - 70} bytes instead of {size}" in found.reason


def test_below_the_logs_start_nothing_is_lost_and_the_active_segment_may_be_of_any_size() -> None:
    files = sound_files()
    del files[files.log(1)][-70:]
    assert cut_short(files, log_start_offset=files.bases[2]) == []
    other = sound_files()
    del other[other.log(-1)][-70:]
    assert cut_short(other) == []


def test_a_transaction_index_that_changed_is_named_and_one_that_grew_is_not() -> None:
    files = sound_files()
    integrity = known(files)
    path = files.transaction_index
    place = (PARTITION, int(path.rpartition("/")[2].partition(".")[0]))
    disk = files.disk()
    assert list(changed_index_findings(disk, place, integrity)) == []
    replace_file(disk, path, bytes(files[path]) + bytes(34))
    assert list(changed_index_findings(disk, place, integrity)) == []
    files[path][9] ^= 1
    replace_file(disk, path, bytes(files[path]))
    (found,) = changed_index_findings(disk, place, integrity)
    assert (found.kind, found.path) == (FindingKind.TRANSACTION_INDEX, path)
