"""Notes during which start of the system a log directory is used, and how far its logs are written.

A broker that was only killed has lost nothing that it wrote: as long as the system runs, a hole, a
missing file or a log that ends too early is damage, and not what a power failure leaves. The ends
of the logs are stored in memory that the file is mapped into: that costs no system call, and a
killed process loses none of it. The note is not durable: one that a power failure has lost, or left
old, names no start or an earlier one. Format page: docs/format/filenames.md. Kafka has no
counterpart.
"""

import struct
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import count

from ottla.base.files import FileSystem, Numbers, join, read_file, remove_if_present, replace_file
from ottla.storage.files.filenames import BOOT_NOTE

HEADER_SIZE = 64
"""The id of the system's start, and zeros."""

_ENTRY = struct.Struct("=qqqq")
"""The name of a log's directory as a hash, and the log's end twice: the smaller one counts."""

_ENTRY_NUMBERS = _ENTRY.size // 8
_FIRST_NUMBER = HEADER_SIZE // 8
_SPARE_ENTRIES = 256


class WrittenEnds:
    """The ends of a directory's logs as of the last write to each."""

    def __init__(self, content: bytes) -> None:
        entries = content[HEADER_SIZE:]
        whole = len(entries) // _ENTRY.size * _ENTRY.size
        self._ends: dict[tuple[int, int], int] = {}
        for first, second, end, again in _ENTRY.iter_unpack(entries[:whole]):
            self._ends[first, second] = min(end, again)

    def of(self, directory_name: str) -> int:
        """The end of the log in a partition's directory; 0 if it is not known."""
        return self._ends.get(_key(directory_name), 0)

    def has(self, directory_name: str) -> bool:
        return _key(directory_name) in self._ends


def read_boot_note(file_system: FileSystem, directory: str) -> WrittenEnds | None:
    """The ends of a directory's logs; `None` if the system was started again since."""
    boot_id = file_system.boot_id().encode()
    with suppress(OSError):
        content = read_file(file_system, join(directory, BOOT_NOTE))
        if boot_id and content[:HEADER_SIZE].rstrip(b"\0") == boot_id:
            return WrittenEnds(content)
    return None


def note_end(file_system: FileSystem, directory: str, directory_name: str, end: int) -> None:
    """Has the note of a directory that no broker has open say another end of one log, if it says
    any: a repair has accepted what is lost.
    """
    path = join(directory, BOOT_NOTE)
    with suppress(OSError):
        content = bytearray(read_file(file_system, path))
        last = len(content) - _ENTRY.size
        for at in range(HEADER_SIZE, last + 1, _ENTRY.size):
            *name, _, _ = _ENTRY.unpack_from(content, at)
            if tuple(name) == _key(directory_name):
                _ENTRY.pack_into(content, at, *name, end, end)
                replace_file(file_system, path, content, durably=False)


def is_same_boot(file_system: FileSystem, directory: str) -> bool:
    """Whether the system has not been started again since a broker last opened the directory."""
    return read_boot_note(file_system, directory) is not None


def names_log(file_system: FileSystem, directory: str, directory_name: str) -> bool:
    """Whether the note names a log, also one of an earlier start of the system."""
    with suppress(OSError):
        content = read_file(file_system, join(directory, BOOT_NOTE))
        return WrittenEnds(content).has(directory_name)
    return False


class WrittenEnd:
    """The place of one log's end in the note."""

    __slots__ = ("at", "numbers")

    def __init__(self, numbers: Numbers, at: int) -> None:
        self.numbers = numbers
        self.at = at

    def store(self, offset: int) -> None:
        """Notes an end that is written; 0 if it is about to change, and is not known meanwhile."""
        numbers, at = self.numbers, self.at
        numbers[at] = offset
        numbers[at + 1] = offset


UNNOTED = WrittenEnd([0, 0], 0)
"""The place of a log that is not noted."""


class BootNote:
    """The note of a directory that is open.

    What cannot be written or mapped is not noted: then less is known after a kill.
    """

    def __init__(self, file_system: FileSystem, directory: str, ends: Mapping[str, int]) -> None:
        """Replaces the note; `ends` are the logs' ends by the names of their directories."""
        self._file_system = file_system
        self._directory = directory
        self._places: dict[str, WrittenEnd] = {}
        self._numbers: Numbers = []
        self._size = 0
        self._free: list[int] = []
        self._write(ends)

    def place(self, directory_name: str, end: int) -> WrittenEnd:
        """Notes a log that was opened or created, and where its end is stored from now on."""
        if directory_name not in self._places:
            if not self._free:
                self._grow()
            if not self._free:
                return UNNOTED
            found = WrittenEnd(self._numbers, self._free.pop())
            found.numbers[found.at - 2], found.numbers[found.at - 1] = _key(directory_name)
            self._places[directory_name] = found
        found = self._places[directory_name]
        found.store(end)
        return found

    def remove(self, directory_name: str) -> None:
        """Forgets a log that was deleted or renamed."""
        found = self._places.pop(directory_name, None)
        if found is not None:
            found.store(0)
            self._free.append(found.at)

    def _write(self, ends: Mapping[str, int]) -> None:
        boot_id = self._file_system.boot_id().encode()
        entries = b"".join([_ENTRY.pack(*_key(name), end, end) for name, end in ends.items()])
        if self._map(boot_id.ljust(HEADER_SIZE, b"\0") + entries):
            for name, at in zip(ends, count(_FIRST_NUMBER + 2, _ENTRY_NUMBERS), strict=False):
                self._places[name] = WrittenEnd(self._numbers, at)

    def _grow(self) -> None:
        """Copies what is mapped: there may be thousands of logs, and clients wait."""
        with suppress(OSError):
            content = read_file(self._file_system, join(self._directory, BOOT_NOTE))
            if len(content) == self._size and self._map(content):
                for one in self._places.values():
                    one.numbers = self._numbers

    def _map(self, known: bytes) -> bool:
        """Replaces the file by what is known and as many unused places; returns whether it did."""
        content = known + bytes(_ENTRY.size * _SPARE_ENTRIES + len(known) - HEADER_SIZE)
        path = join(self._directory, BOOT_NOTE)
        try:
            replace_file(self._file_system, path, content, durably=False)
            file = self._file_system.open(path, writable=True)
            try:
                self._numbers = file.map_numbers(len(content) // 8)
            finally:
                file.close()
        except OSError:
            with suppress(OSError):
                remove_if_present(self._file_system, path + ".tmp")
            return False
        self._size = len(content)
        self._free = [*range(len(known) // 8 + 2, len(content) // 8, _ENTRY_NUMBERS)][::-1]
        return True


def _key(directory_name: str) -> tuple[int, int]:
    first, second = struct.unpack("=qq", blake2b(directory_name.encode(), digest_size=16).digest())
    return first, second
