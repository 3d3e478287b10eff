"""A `.log` file that another segment's has taken the place of is named, kept and not served."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import log_file_name
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import DIRECTORY, SMALL, TOPIC_ID, append, open_directory, values

COUNT = 40


def two_logs(*, is_clean: bool) -> FakeFileSystem:
    """Two partitions whose segments begin at the same offsets, and hold other values."""
    disk = FakeFileSystem()
    directory = open_directory(disk, SMALL)
    for partition in (0, 1):
        log = directory.create_log("t", partition, TOPIC_ID)
        for number in range(COUNT):
            append(log, b"%d-%04d" % (partition, number))
        log.writer.write_out()
    bases = [[one.base_offset for one in log.segments.values] for log in directory.logs.values()]
    assert bases[0] == bases[1]
    assert len(bases[0]) > 2
    if not is_clean:
        return disk.crash(CrashMode.KEEP)
    directory.close()
    return disk


def log_paths(disk: FakeFileSystem, place: int) -> list[str]:
    """The files of the first, a middle or the last segment of both."""
    names = [one for one in disk.list(f"{DIRECTORY}/t-0") if one.endswith(".log")]
    return [join(DIRECTORY, f"t-{partition}", names[place]) for partition in (0, 1)]


def swap(disk: FakeFileSystem, one: str, other: str) -> None:
    content = read_file(disk, one)
    replace_file(disk, one, read_file(disk, other))
    replace_file(disk, other, content)


def served(directory: LogDirectory) -> dict[int, list[bytes | None]]:
    return {key.partition: values(log) for key, log in directory.logs.items()}


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("is_clean", [True, False])
def test_swapped_files_of_two_partitions_are_named_and_not_served(
    is_clean: bool, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = two_logs(is_clean=is_clean)
    paths = log_paths(disk, place)
    swap(disk, *paths)
    for _ in range(2):
        caplog.clear()
        directory = open_directory(disk, SMALL)
        for path in paths:
            assert f"{path} at byte 0: its first batch has checksum" in caplog.text
        for partition, found in served(directory).items():
            assert found
            assert all(one is not None and one.startswith(b"%d-" % partition) for one in found)
        directory.close()
    swap(disk, *paths)
    again = served(open_directory(disk, SMALL))
    assert again == {one: [b"%d-%04d" % (one, n) for n in range(COUNT)] for one in (0, 1)}


def test_a_log_whose_last_file_is_anothers_continues_after_all_that_it_holds() -> None:
    disk = two_logs(is_clean=False)
    swap(disk, *log_paths(disk, -1))
    log = open_directory(disk, SMALL).logs["t", 0]  # type: ignore[index]
    assert append(log, b"more").first_offset == COUNT
    log.writer.write_out()
    assert values(log)[-1] == b"more"


@pytest.mark.parametrize("place", [0, 1, -1])
def test_readers_of_files_refuse_it_or_step_over_it(place: int) -> None:
    disk = two_logs(is_clean=True)
    paths = log_paths(disk, place)
    swap(disk, *paths)
    log = open_for_reading(DIRECTORY, disk).partition("t", 0)
    with pytest.raises(CorruptionError, match="this is the file of another segment"):
        list(log.records.read(0))
    skipped: list[Finding] = []
    log = open_for_reading(DIRECTORY, disk, on_damage=skipped.append).partition("t", 0)
    found = [one.value for one in log.records.read(0)]
    assert skipped[0].path == paths[0]
    assert found
    assert all(one is not None and one.startswith(b"0-") for one in found)


def test_a_check_names_it() -> None:
    disk = two_logs(is_clean=True)
    paths = log_paths(disk, 1)
    swap(disk, *paths)
    found = [one for one in check(disk, DIRECTORY).findings if one.kind is FindingKind.WRONG_FILE]
    assert sorted(one.path for one in found) == paths


def test_a_first_batch_that_is_damaged_is_damage_and_no_other_file() -> None:
    disk = two_logs(is_clean=True)
    path = join(DIRECTORY, "t-0", log_file_name(0))
    content = bytearray(read_file(disk, path))
    content[20] ^= 1
    replace_file(disk, path, bytes(content))
    kinds = {one.kind for one in check(disk, DIRECTORY).findings}
    assert FindingKind.LOG_DAMAGE in kinds
    assert FindingKind.WRONG_FILE not in kinds
