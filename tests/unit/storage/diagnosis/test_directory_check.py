"""A sound directory has no findings, and every damage is named with its file and position."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem, read_file
from ottla.storage.diagnosis.directory_check import CheckReport, check
from ottla.storage.diagnosis.producer_checks import PRODUCER_EXPIRATION_MS
from ottla.storage.files.filenames import INTEGRITY, REMOTE_INDEX_CACHE
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.index.producer_snapshot import format_snapshot, parse_snapshot
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.damaged_logs import (
    DERIVED_CASES,
    LOG_CASES,
    OTHER_CASES,
    PARTITION,
    Case,
    Files,
    forget_checksums,
    sound_files,
)
from tests.support.logs import NOW_MS, TOPIC_ID, append, fill, open_directory


def check_files(files: Files) -> CheckReport:
    return check(files.disk(), "data", deep=True)


def wrong(report: CheckReport) -> list[Finding]:
    return [finding for finding in report.findings if not finding.is_note]


def test_a_sound_directory_has_no_findings_at_all() -> None:
    report = check_files(sound_files())
    assert report.findings == []
    assert report.is_sound
    first, second = report.partitions
    assert first.segment_count == 4
    assert (first.start_offset, first.end_offset, first.record_count) == (0, 38, 38)
    assert (second.segment_count, second.end_offset) == (1, 4)


@pytest.mark.parametrize(
    "case", [*LOG_CASES, *DERIVED_CASES, *OTHER_CASES], ids=lambda case: case.name
)
def test_each_damage_is_named_with_its_file_and_position(case: Case) -> None:
    files = sound_files()
    path, position = case.apply(files)
    report = check_files(files)
    assert not report.is_sound
    found = [one for one in wrong(report) if (one.path, one.position) == (path, position)]
    assert [one.kind for one in found] == [case.kind], wrong(report)
    assert case.reason in found[0].reason
    assert found[0].text.startswith(path)


@pytest.mark.parametrize("case", LOG_CASES, ids=lambda case: case.name)
def test_damage_to_a_log_is_one_finding_and_says_which_offsets_are_lost(case: Case) -> None:
    files = sound_files()
    path, _ = case.apply(files)
    (found,) = [one for one in wrong(check_files(files)) if one.kind is FindingKind.LOG_DAMAGE]
    assert found.lost is not None
    assert found.lost.first >= 0
    is_active = path == files.log(-1)
    assert (found.lost.last is None) == is_active


@pytest.mark.parametrize("number", range(3))
def test_index_entries_of_a_damaged_batch_are_not_blamed(number: int) -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    for at in range(4):
        append(log, b"a", b"b", timestamp_ms=NOW_MS + 1000 * at)
    directory.close()
    position = number * log.segments.first.size // 4
    file = disk.open(f"{PARTITION}/{0:020d}.log", writable=True)
    file.pwrite(b"x", position + 70)
    (found,) = check(disk, PARTITION).findings
    assert (found.kind, found.position) == (FindingKind.LOG_DAMAGE, position)


def test_records_that_were_deleted_up_to_the_end_need_no_epoch(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        log.append("t", b"deleted")
        log.delete_records("t", {0: 1})
    with ottla.open(tmp_path):
        pass  # The last epoch begins where the log ends, and goes.
    for path in (tmp_path, tmp_path / "t-0"):
        report = check(OsFileSystem(), str(path))
        assert wrong(report) == []


def test_records_are_only_unpacked_when_asked() -> None:
    files = sound_files()
    (garbled,) = [case for case in LOG_CASES if case.name == "garbled_records"]
    garbled.apply(files)
    assert check(files.disk(), "data").is_sound
    assert not check(files.disk(), "data", deep=True).is_sound


def test_leftovers_and_strangers_are_notes() -> None:
    files = sound_files()
    name = files.log(0)
    files.content[name + ".deleted"] = bytearray(b"old")
    files.content[name + ".tmp"] = bytearray(b"half")
    files.content[name + ".cut-100"] = bytearray(b"cut")
    files.content[f"{PARTITION}/notes.txt"] = bytearray(b"hello")
    files.content["data/replication-offset-checkpoint.tmp"] = bytearray(b"0")
    files.content["data/letter"] = bytearray(b"dear")
    files.content[f"data/t-5.{'0' * 32}-delete/x"] = bytearray()
    files.content[f"data/t-6.{'0' * 32}-stray/x"] = bytearray()
    del files.content["data/.kafka_cleanshutdown"]
    report = check_files(files)
    assert report.is_sound
    assert len(report.findings) == 9
    assert {one.kind for one in report.findings} == {
        FindingKind.LEFTOVER,
        FindingKind.STRANGER,
        FindingKind.STATE,
    }


def test_the_folder_of_a_tiers_indexes_belongs_to_a_log_directory() -> None:
    files = sound_files()
    files.content[f"data/{REMOTE_INDEX_CACHE}/0_AAECAwQFBgcICQoLDA0ODw.index"] = bytearray(8)
    assert check_files(files).findings == []


def test_room_made_ahead_in_an_index_is_no_damage() -> None:
    files = sound_files()
    files[files.index(0)] += bytes(80)
    files[files.time_index(-1)] += bytes(120)
    assert check_files(files).is_sound


def test_a_snapshot_may_lack_only_producers_that_were_silent_for_long() -> None:
    files = sound_files()
    forget_checksums(files)
    name = files.newest_snapshot
    entries = parse_snapshot(name, bytes(files[name]))
    files[name][:] = format_snapshot(entries[1:])
    (found,) = check_files(files).findings
    assert (found.kind, found.path) == (FindingKind.PRODUCER_SNAPSHOT, name)
    assert "is missing" in found.reason
    assert check(files.disk(NOW_MS + 2 * PRODUCER_EXPIRATION_MS), "data").is_sound


def test_a_partition_can_be_checked_alone_and_under_any_name() -> None:
    files = sound_files()
    disk = files.disk()
    disk.rename(PARTITION, "copy")
    report = check(disk, "copy", deep=True)
    assert report.is_sound
    assert len(report.partitions) == 1


def test_the_end_of_a_log_in_use_is_no_damage() -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 20)
    report = check(disk, "data", deep=True)
    assert report.is_live
    assert report.is_sound
    active = disk.open(log.segments.active.log.path, writable=True)
    active.pwrite(b"\0\0\0half a batch", active.size())
    report = check(disk, "data")
    assert [one.kind for one in report.findings] == [FindingKind.LIVE_TAIL]
    assert report.is_sound
    assert not check(disk.crash(CrashMode.KEEP), "data").is_sound


def test_a_directory_is_left_as_it_was_and_unlocked() -> None:
    files = sound_files()
    disk = files.disk()
    check(disk, "data", deep=True)
    assert disk.status("data/.lock") is None
    assert {path: read_file(disk, path) for path in files.content} == files.content
    open_directory(disk).close()
    check(disk, "data")
    open_directory(disk).close()


def test_a_person_hears_what_cannot_be_checked() -> None:
    with pytest.raises(UserError, match="nowhere is not a directory"):
        check(FakeFileSystem(), "nowhere")


def test_a_topic_has_one_id() -> None:
    files = sound_files()
    files["data/t-1/partition.metadata"][-3:-1] = b"BB"
    (found,) = check_files(files).findings
    assert "remove the file that is wrong" in found.reason
    assert found.topic_id is not None, "the other partition agrees with the integrity file"
    del files.content[f"data/t-1/{INTEGRITY}"]
    reasons = [one.reason for one in check_files(files).findings]
    assert f"has another topic id than {PARTITION}/partition.metadata" in reasons


def test_meta_properties_must_be_there_and_readable() -> None:
    files = sound_files()
    files["data/meta.properties"][:] = b"version=9\n"
    (found,) = check_files(files).findings
    assert (found.kind, found.position) == (FindingKind.META_PROPERTIES, 0)
    del files.content["data/meta.properties"]
    (found,) = check_files(files).findings
    assert found.reason.startswith("is missing")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_changed_byte_of_a_log_is_found(data: st.DataObject) -> None:
    """No checksum covers base offset and leader epoch, but their neighbours betray them.

    Except the last batch's offset, when it grows: that only differs from what was recorded when
    the log was closed.
    """
    files = sound_files()
    number = data.draw(st.integers(0, len(files.bases) - 1))
    content = files[files.log(number)]
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    report = check_files(files)
    if report.is_sound:
        (note,) = report.findings
        assert position < files.positions(-1)[-1] + 8
        assert "but at 38 when it was stopped" in note.reason
    else:
        assert {one.path for one in wrong(report)} & {files.log(number), files.epochs}
