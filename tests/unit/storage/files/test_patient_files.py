"""Files whose user waits for a descriptor, and never repeats what may have been done by half."""

import errno
import logging
from collections.abc import Callable

import pytest

from ottla.base.errors import ShortageError
from ottla.storage.files.patient_files import Patience, patient_files
from ottla.testing.recording import IoCall, IoKind
from tests.support.brokers import disk
from tests.support.shortages import ScarceFileSystem


class Waits:
    """Ends a shortage with the wait of a number, if it is given."""

    def __init__(self, files: ScarceFileSystem, enough: int | None = 3) -> None:
        self.files = files
        self.count = 0
        self._enough = enough

    def __call__(self, _: float) -> bool:
        self.count += 1
        if self.count == self._enough:
            self.files.has_descriptors = True
        return self._enough is None


def scarce() -> tuple[ScarceFileSystem, Waits]:
    files = ScarceFileSystem(disk("/d"))
    return files, Waits(files)


def test_what_needs_a_descriptor_waits_for_it_and_says_so_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, waits = scarce()
    patient = patient_files(files, Patience(waits, "it", "/d"))
    file = patient.open("/d/a", create=True)
    calls: list[Callable[[], object]] = [
        lambda: patient.open("/d/b", create=True),
        lambda: patient.open("/d/a"),
        file.duplicate,
        file.duplicate().duplicate,
    ]
    with caplog.at_level(logging.WARNING):
        for call in calls:
            files.has_descriptors, waits.count = False, 0
            call()
            assert waits.count == 3
    assert [one.split(": ")[1] for one in caplog.messages] == [
        "it waits", "it goes on", "it waits", "it goes on", "it waits", "it goes on",
    ]  # fmt: skip
    assert patient.list("/d") == files.list("/d")


def test_whoever_is_to_wait_no_more_is_refused() -> None:
    files, _ = scarce()
    for patience in (Patience(), Patience(Waits(files, None))):
        files.has_descriptors = False
        with pytest.raises(OSError, match="Too many open files"):
            patient_files(files, patience).open("/d/a", create=True)


def test_a_write_or_sync_that_fails_is_never_repeated() -> None:
    waits = Waits(ScarceFileSystem(disk("/d")))

    class Lacking(ScarceFileSystem):
        kinds: list[IoKind]

        def perform(self, call: IoCall, *_: object) -> None:  # type: ignore[override]
            self.kinds.append(call.kind)
            raise OSError(errno.ENOMEM, "no memory")

    inner = disk("/d")
    inner.open("/d/a", create=True).close()
    files = Lacking(inner)
    files.kinds = []
    file = patient_files(files, Patience(waits)).open("/d/a", writable=True)
    for call in (lambda: file.pwrite(b"a", 0), file.sync, lambda: file.truncate(0)):
        with pytest.raises(OSError, match="no memory"):
            call()
    assert files.kinds == [IoKind.PWRITE, IoKind.SYNC, IoKind.TRUNCATE]
    assert not waits.count


def test_a_deed_that_lacks_room_is_tried_again() -> None:
    _, waits = scarce()
    tries: list[int] = []

    def deed(number: int) -> int:
        tries.append(number)
        if len(tries) < 3:
            raise ShortageError("/d", "no room")
        return number + 1

    assert Patience(waits, "it", "/d").carry_out(deed, 4) == 5
    assert tries == [4, 4, 4]


def test_idle_files_are_not_among_those_that_others_close() -> None:
    files, waits = scarce()
    patient = patient_files(files, Patience(waits))
    assert patient.open_files is not files.open_files
    assert not patient.open_files.is_full
