"""Reading files of a topic that is compacted between any two of the reader's calls."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.integrity import INTEGRITY
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import RecordingFileSystem
from ottla.testing.recording import RecordingFile

SETTINGS = {"log.cleaner.enable": False}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": 300,
    "min.cleanable.dirty.ratio": 0.0,
    "delete.retention.ms": 0,
}


class CompactedMeanwhile(RecordingFileSystem):
    """Has a topic compacted before the file that is opened as number `at`, and again whenever the
    reader then looks for what is known of the segments."""

    def __init__(self, at: int, compact: Callable[[], None]) -> None:
        super().__init__(OsFileSystem())
        self._at = at
        self._compact = compact
        self.count = 0

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        if self.count == self._at or (self.count > self._at and path.endswith(INTEGRITY)):
            self._compact()
        self.count += 1
        return super().open(path, writable=writable, create=create)


def append(log: ottla.Log, keys: Iterable[bytes]) -> None:
    """Each value is that of its offset."""
    for key in keys:
        (_, end) = log.offsets("t")[0]
        log.append("t", b"v%d" % end, key=key)


def next_round(log: ottla.Log, number: int) -> None:
    """Replaces the first key that is left, so that another batch is the first one then."""
    append(log, [b"k%d" % number, *[b"filler"] * 8])
    log.compact("t")


def next_round_of(log: ottla.Log, rounds: Iterator[int]) -> None:
    next_round(log, next(rounds))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with ottla.open(tmp_path / "source", SETTINGS) as log:
        log.create_topic("t", config=CONFIG)
        append(log, [b"k%d" % number for number in range(24)])
        next_round(log, 0)
    return tmp_path / "source"


def each_time(
    source: Path, look: Callable[[str, CompactedMeanwhile], None], *, step: int = 1
) -> None:
    """Looks at a copy of the directory for each file that is opened meanwhile, or some of them."""
    at, count = 0, 1
    while at < count:
        home = source.parent / str(at)
        shutil.copytree(source, home)
        with ottla.open(home, SETTINGS) as log:
            files = CompactedMeanwhile(at, partial(next_round_of, log, itertools.count(1)))
            look(str(home), files)
            count = files.count
        shutil.rmtree(home)
        at += step
    assert at > 5 * step


def read_all(home: str, files: CompactedMeanwhile) -> None:
    records = open_for_reading(home, files).partition("t", 0).records.read(0)
    found = [(one.offset, one.value) for one in records]
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
    assert all(value == b"v%d" % offset for offset, value in found)


def check_all(home: str, files: CompactedMeanwhile) -> None:
    findings = check(files, home).findings
    assert [one.text for one in findings if not one.is_note] == []


@pytest.mark.slow
def test_a_segment_that_was_compacted_meanwhile_is_no_file_of_another(source: Path) -> None:
    each_time(source, read_all, step=3)


@pytest.mark.slow
def test_a_log_that_is_compacted_while_it_is_checked_is_sound(source: Path) -> None:
    each_time(source, check_all, step=11)
