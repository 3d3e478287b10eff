"""A partition that is checked while a broker replaces its segments."""

from collections import Counter

import pytest

from ottla.base.files import FileSystem, base_name, join, read_file, replace_file
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.partition_check import ATTEMPTS, CheckOptions, check_partition
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS
from ottla.storage.findings import Finding, FindingKind
from ottla.testing import FakeFileSystem, RecordingFileSystem
from ottla.testing.recording import RecordingFile
from tests.support.damaged_logs import PARTITION, Files, sound_files

LIVE = CheckOptions(is_live=True)


class ReplacedMeanwhile(RecordingFileSystem):
    """Has another file in the first segment's place each time one of a partition is opened that
    ends in `name`, so many times."""

    def __init__(self, inner: FakeFileSystem, name: str, log_path: str, count: int) -> None:
        super().__init__(inner)
        self.name = name
        self._log_path = log_path
        self._count = count

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        if path.endswith(self.name) and self._count:
            self._count -= 1
            replace_file(self.inner, self._log_path, read_file(self.inner, self._log_path))
        return super().open(path, writable=writable, create=create)


def damaged(files: Files, *names: str) -> FakeFileSystem:
    disk = files.disk()
    for name in names:
        file = disk.open(name, writable=True)
        file.pwrite(b"damage", 61)
        file.close()
    return disk


def wrong(disk: FileSystem) -> list[Finding]:
    found = check_partition(disk, PARTITION, LIVE).findings
    return [one for one in found if not one.is_note]


@pytest.mark.parametrize("count", [0, 1, ATTEMPTS - 1])
def test_what_is_found_once_the_segments_are_left_alone_counts(count: int) -> None:
    files = sound_files()
    disk = damaged(files, files.log(0))
    assert wrong(ReplacedMeanwhile(disk, LEADER_EPOCHS, files.log(0), count)) == wrong(disk)


def test_a_segment_that_is_replaced_each_time_is_a_note_and_others_are_damaged() -> None:
    files = sound_files()
    disk = damaged(files, files.log(0), files.log(2))
    changing = ReplacedMeanwhile(disk, LEADER_EPOCHS, files.log(0), 100)
    found = check_partition(changing, PARTITION, LIVE).findings
    kinds = {one.path: one.kind for one in found}
    assert kinds[files.log(0)] is FindingKind.STATE
    assert kinds[files.log(2)] is FindingKind.LOG_DAMAGE


class RemovedMeanwhile(RecordingFileSystem):
    """Has a partition removed when a file of it is opened that ends in `name`."""

    def __init__(self, inner: FakeFileSystem, name: str) -> None:
        super().__init__(inner)
        self._name = name

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        if path.endswith(self._name):
            for name in self.inner.list(PARTITION):
                self.inner.remove(join(PARTITION, name))
            self.inner.remove_directory(PARTITION)
        return super().open(path, writable=writable, create=create)


def test_a_partition_that_is_deleted_meanwhile_is_not_there() -> None:
    files = sound_files()
    with pytest.raises(FileNotFoundError):
        check_partition(RemovedMeanwhile(files.disk(), files.log(1)), PARTITION, LIVE)
    disk = files.disk()
    assert disk.lock("data/.lock")
    report = check(RemovedMeanwhile(disk, files.log(1)), "data")
    assert report.is_sound
    assert PARTITION in {one.path for one in report.findings}
    assert PARTITION not in {one.path for one in report.partitions}


class Opened(RecordingFileSystem):
    """Notes which files of segments are opened."""

    def __init__(self, inner: FakeFileSystem) -> None:
        super().__init__(inner)
        self.paths: Counter[str] = Counter()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        self.paths[path] += 1
        return super().open(path, writable=writable, create=create)


def test_each_log_and_index_is_opened_once_and_none_that_is_not_there() -> None:
    disk = Opened(sound_files().disk())
    names = disk.inner.list(PARTITION)
    assert check_partition(disk, PARTITION, CheckOptions()).is_sound
    kinds = (".log", ".index", ".timeindex")
    there = [join(PARTITION, one) for one in names if one.endswith(kinds) and one != INTEGRITY]
    assert {path: count for path, count in disk.paths.items() if path in there} == dict.fromkeys(
        there, 1
    )
    assert {base_name(one) for one in disk.paths} <= {*names}
