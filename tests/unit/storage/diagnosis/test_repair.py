"""After a repair a check finds nothing, and everything that could be read still can."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, read_file
from ottla.record.record import read_records
from ottla.storage.damage_scan import ScannedBatch, scan_log
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.rebuild import log_offsets
from ottla.storage.diagnosis.repair import RepairOptions, copy_directory, plan_for, repair
from ottla.storage.diagnosis.repair_plan import RepairPlan
from ottla.storage.files.clean_shutdown import CleanShutdown, read_clean_shutdown
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.findings import FindingKind
from ottla.testing import CrashMode, every_crash_point
from tests.support.damaged_logs import (
    DERIVED_CASES,
    LOG_CASES,
    OTHER_CASES,
    PARTITION,
    Case,
    Files,
    Place,
    bad_record,
    garbled_records,
    hole_in_old_segment,
    index_order,
    lost_segment,
    sound_files,
    torn_old_segment,
    torn_tail,
)
from tests.support.logs import NOW_MS, open_directory, values

OPTIONS = RepairOptions(now_ms=NOW_MS, deep=True)


def stored(disk: FileSystem) -> dict[int, bytes | None]:
    """The values that can be read from the first partition, by offset."""
    found: dict[int, bytes | None] = {}
    for base_offset in log_offsets(disk, PARTITION):
        file = disk.open(f"{PARTITION}/{base_offset:020d}.log")
        for one in scan_log(file, base_offset):
            if isinstance(one, ScannedBatch):
                found |= {record.offset: record.value for record in read_records(one.batch)}
        file.close()
    return found


ALL = stored(sound_files().disk())


def damaged(case: Case) -> Files:
    files = sound_files()
    case.apply(files)
    return files


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", [*LOG_CASES, *DERIVED_CASES, *OTHER_CASES], ids=named)
def test_what_is_repaired_is_sound(case: Case) -> None:
    disk = damaged(case).disk()
    assert repair(disk, "data", OPTIONS).is_sound
    assert check(disk, "data", deep=True).is_sound
    assert plan_for(disk, "data", deep=True)[1].is_empty


@pytest.mark.parametrize("case", DERIVED_CASES, ids=named)
def test_what_can_be_made_from_the_logs_costs_no_record(case: Case) -> None:
    disk = damaged(case).disk()
    repair(disk, "data", OPTIONS)
    assert stored(disk) == ALL


@pytest.mark.parametrize("case", LOG_CASES, ids=named)
def test_damage_to_a_log_costs_only_the_batch_it_is_in(case: Case) -> None:
    files = damaged(case)
    disk = files.disk()
    lost: list[range] = []

    def listen(plan: RepairPlan) -> None:
        for action in plan.actions:
            if action.lost is not None:
                last = action.lost.last
                lost.append(range(action.lost.first, 38 if last is None else last + 1))

    repair(disk, "data", RepairOptions(now_ms=NOW_MS, deep=True, on_plan=listen))
    left = stored(disk)
    assert left == {offset: value for offset, value in ALL.items() if offset in left}
    missing = ALL.keys() - left.keys()
    assert len(missing) <= 2
    assert missing == {offset for one in lost for offset in one}


@pytest.mark.parametrize("case", LOG_CASES, ids=named)
def test_what_is_taken_out_is_kept_beside_the_log(case: Case) -> None:
    files = sound_files()
    path, position = case.apply(files)
    before = bytes(files[path])
    disk = files.disk()
    repair(disk, "data", OPTIONS)
    cut_path = f"{path}.cut-{position}"
    after = read_file(disk, path)
    assert position is not None
    size = len(before) - len(after)
    assert before[:position] + before[position + size :] == after
    taken = before[position : position + size]
    assert (disk.status(cut_path) is not None) == any(taken)
    if any(taken):
        assert read_file(disk, cut_path) == taken


def test_a_log_with_several_kinds_of_damage_is_repaired_at_once() -> None:
    files = sound_files()
    content, positions = files[files.log(0)], files.positions(0)
    content[positions[1] + 70] ^= 1
    content[positions[3] + 7] += 2
    content[positions[5] + 15] ^= 4
    disk = files.disk()
    assert repair(disk, "data", OPTIONS).is_sound
    assert ALL.keys() - stored(disk).keys() == {2, 3}


def test_what_is_taken_out_can_be_discarded() -> None:
    files = sound_files()
    path, position = bad_record(files)
    disk = files.disk()
    repair(disk, "data", RepairOptions(now_ms=NOW_MS, discard=True))
    assert disk.status(f"{path}.cut-{position}") is None


def test_only_what_is_wrong_changes() -> None:
    files = sound_files()
    path, _ = torn_tail(files)
    bad_record(files)
    disk = files.disk()
    repair(disk, "data", OPTIONS)
    stems = (path.removesuffix(".log"), files.log(0).removesuffix(".log"))
    for name, content in files.content.items():
        is_derived = "checkpoint" in name or name.endswith((".snapshot", INTEGRITY, BOOT_NOTE))
        is_touched = name.startswith(stems) or is_derived
        if not is_touched:
            assert read_file(disk, name) == content


def test_a_repaired_directory_opens_and_continues() -> None:
    files = sound_files()
    bad_record(files)
    hole_in_old_segment(files)
    torn_tail(files)
    disk = files.disk()
    assert repair(disk, "data", OPTIONS).is_sound
    assert disk.status("data/.kafka_cleanshutdown") is not None
    directory = open_directory(disk)
    log = directory.logs["t", 0]
    assert log.log_end_offset == 36
    assert len(values(log)) == 36 - 2 - 1
    directory.close()
    assert check(disk, "data", deep=True).is_sound


@pytest.mark.parametrize("apply", [torn_old_segment, lost_segment], ids=lambda one: one.__name__)
def test_the_next_start_keeps_what_lies_after_a_gap(apply: Callable[[Files], Place]) -> None:
    """After an unclean stop it would take the gap for the log's end."""
    files = sound_files()
    apply(files)
    files.content.pop("data/.kafka_cleanshutdown", None)
    files["data/recovery-point-offset-checkpoint"][:] = b"0\n1\nt 0 5\n"
    disk = files.disk()
    assert repair(disk, "data", OPTIONS).is_sound
    left = stored(disk)
    assert 37 in left
    directory = open_directory(disk)
    assert directory.logs["t", 0].log_end_offset == 38
    directory.close()
    assert stored(disk) == left


def test_records_with_a_right_checksum_are_only_taken_out_when_asked() -> None:
    files = sound_files()
    garbled_records(files)
    disk = files.disk()
    repair(disk, "data", RepairOptions(now_ms=NOW_MS))
    assert not check(disk, "data", deep=True).is_sound
    repair(disk, "data", OPTIONS)
    assert check(disk, "data", deep=True).is_sound


def test_a_directory_in_use_is_refused_unchanged() -> None:
    files = sound_files()
    torn_tail(files)
    disk = files.disk()
    lock = disk.lock("data/.lock")
    assert lock is not None
    for directory in ("data", PARTITION):
        with pytest.raises(UserError, match="data is in use by another process"):
            repair(disk, directory, OPTIONS)
    with pytest.raises(UserError, match="data is in use by another process"):
        copy_directory(disk, "data", "copy")
    assert {path: read_file(disk, path) for path in files.content} == files.content
    lock.release()
    assert repair(disk, "data", OPTIONS).is_sound


def test_a_plan_writes_nothing() -> None:
    files = sound_files()
    torn_tail(files)
    disk = files.disk()
    report, plan = plan_for(disk, "data", deep=True)
    assert not report.is_sound
    assert len(plan.actions) == 6
    assert {path: read_file(disk, path) for path in files.content} == files.content
    assert disk.status("data/.lock") is None


def test_a_copy_is_whole_and_leaves_the_original_alone() -> None:
    files = sound_files()
    torn_tail(files)
    disk = files.disk()
    copy_directory(disk, "data", "other/copy")
    for path, content in files.content.items():
        assert read_file(disk, path.replace("data", "other/copy", 1)) == content
    assert repair(disk, "other/copy", OPTIONS).is_sound
    assert {path: read_file(disk, path) for path in files.content} == files.content
    with pytest.raises(UserError, match="other/copy exists"):
        copy_directory(disk, "data", "other/copy")
    with pytest.raises(UserError, match="data/copy is inside data"):
        copy_directory(disk, "data", "data/copy")


def test_a_partition_that_lies_alone_is_repaired_without_a_lock() -> None:
    files = sound_files()
    torn_tail(files)
    disk = files.disk()
    disk.make_directory("elsewhere")
    disk.rename(PARTITION, "elsewhere/part")
    assert repair(disk, "elsewhere/part", OPTIONS).is_sound
    assert disk.list("elsewhere") == ["part"]
    assert disk.status("elsewhere/part/.lock") is None


@pytest.mark.parametrize(("damage", "epoch"), [(bad_record, -1), (torn_tail, -1), (index_order, 7)])
def test_a_cluster_relies_on_no_directory_from_which_a_repair_has_taken_records(
    damage: Callable[[Files], object], epoch: int
) -> None:
    files = sound_files()
    files["data/.kafka_cleanshutdown"] = bytearray(b'{"version":0,"brokerEpoch":7}')
    damage(files)
    disk = files.disk()
    assert repair(disk, "data", OPTIONS).is_sound
    left = read_clean_shutdown(disk, "data/.kafka_cleanshutdown")
    assert left == CleanShutdown(broker_epoch=epoch)


def test_what_cannot_be_repaired_stays_and_is_reported() -> None:
    files = sound_files()
    files["data/meta.properties"][:] = b"version=9\n"
    torn_tail(files)
    disk = files.disk()
    report = repair(disk, "data", OPTIONS)
    assert [one.kind for one in report.findings if not one.is_note] == [FindingKind.META_PROPERTIES]
    assert disk.status("data/.kafka_cleanshutdown") is None


def test_a_damaged_swap_does_not_replace_anything() -> None:
    files = sound_files()
    swap = files.log(0) + ".swap"
    files[swap] = bytearray(files[files.log(0)])
    files[swap][70] ^= 1
    disk = files.disk()
    report = repair(disk, "data", OPTIONS)
    assert {one.kind for one in report.findings} == {
        FindingKind.DAMAGED_SWAP,
        FindingKind.UNFINISHED_SWAP,
    }
    assert stored(disk) == ALL


@pytest.mark.slow
@pytest.mark.parametrize(
    "apply", [bad_record, torn_tail, torn_old_segment], ids=lambda one: one.__name__
)
def test_a_repair_that_is_cut_off_anywhere_can_be_repeated(
    apply: Callable[[Files], Place],
) -> None:
    """Or left alone: a start that comes in between loses nothing either."""
    files = sound_files()
    path, position = apply(files)
    assert position is not None
    damage = bytes(files[path])[position:][:80]

    def workload(disk: FileSystem, acknowledged: list[object]) -> None:
        repair(disk, "data", OPTIONS)
        acknowledged.append("done")

    expected = stored(files.disk())
    for point in every_crash_point(workload, make_file_system=files.disk, seeds=1):
        disk = point.file_system
        cut_path = f"{path}.cut-{position}"
        is_cut = disk.status(cut_path) is not None and damage in read_file(disk, cut_path)
        assert is_cut or damage in read_file(disk, path), point
        started = disk.crash(CrashMode.KEEP)
        open_directory(started).close()
        assert stored(started) == expected, point
        again = disk.crash(CrashMode.KEEP)
        assert repair(again, "data", OPTIONS).is_sound, point
        assert stored(again) == expected, point


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_damage_to_any_file_is_repaired_or_named(data: st.DataObject) -> None:
    files = sound_files()
    path = data.draw(st.sampled_from(sorted(files.content)))
    content = files[path]
    position = data.draw(st.integers(0, len(content)))
    content[position : position + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    disk = files.disk()
    readable = stored(disk)
    report = repair(disk, "data", OPTIONS)
    _, plan = plan_for(disk, "data", deep=True)
    assert plan.actions == ()
    assert report.is_sound or plan.unmendable
    # A batch whose offset had changed is where it was before.
    before = readable.items() | ALL.items()
    assert all(one in before for one in stored(disk).items())
