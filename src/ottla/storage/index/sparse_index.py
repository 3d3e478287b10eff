"""The base of the offset index and the time index: fixed entries in a pre-allocated, mapped file.

Format pages: docs/format/offset-index.md, docs/format/time-index.md. Kafka's counterparts:
`AbstractIndex` and `LazyIndex`.

With its first entry the file is allocated at its maximum size; it holds entries in ascending order,
followed by zeros, and is trimmed to its entries when its segment takes no more appends. Before the
first entry it is empty: Kafka's `DumpLogSegments` takes the first eight zeros of a file for an
entry and reports that the log has no such offset, but skips an empty file. Kafka itself allocates
at once. Reads use a mapping, and writes `pwrite`, whose result is visible in the mapping.

**The number of entries.** No entry is all zero bytes, except perhaps a time index's first, and
entries ascend, so the first zero entry is found by bisection. Kafka instead takes the whole file as
entries, which works because it always rebuilds the indexes of an unclean directory; reading a live
index needs the count. `truncate_to` overwrites the removed entries with zeros, or they would be
counted again.

**After a crash** any page may be old or new: there is no checksum, `sanity_check` detects little,
and recovery rebuilds the indexes of every segment at or above the recovery point from the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, ClassVar, Final

from ottla.base.files import Buffer, File, FileSystem
from ottla.storage.index.index_file import IndexFile

DEFAULT_MAX_INDEX_SIZE: Final = 10 * 1024 * 1024
"""Kafka's default of `segment.index.bytes`."""

INT32_MAX = (1 << 31) - 1

WARM_SIZE: Final = 8192
"""How much of the file's end a lookup searches first.

Almost every lookup is near the end (tailing consumers, followers), but a plain bisection touches
the same few pages in the middle first, which change as the file grows and are then cold: Kafka saw
appends wait about a second for them. The last 8 KiB are always touched, so always resident
(`AbstractIndex.warmEntries`).
"""


class SparseIndex(IndexFile):
    """An index file that is opened, or created, on first use.

    With `writable=False` the file must exist, and its entries are copied on first use: a mapping of
    a file that a live broker truncates would kill this process with SIGBUS.
    """

    ENTRY: ClassVar[Struct]
    KEY: ClassVar[Struct]
    """The ascending field at the start of an entry."""
    FIRST_MAY_BE_ZERO: ClassVar[bool]
    """Whether an entry of zero bytes is valid as the only one, in a file trimmed to it."""

    __slots__ = (
        "_entry_count",
        "_file_size",
        "_is_allocated",
        "_key_at",
        "_max_entry_count",
        "_max_index_size",
        "_positions",
        "_view",
        "_warm_count",
    )

    def __init__(
        self,
        file_system: FileSystem,
        path: str,
        *,
        base_offset: int,
        max_index_size: int = DEFAULT_MAX_INDEX_SIZE,
        writable: bool = True,
    ) -> None:
        assert max_index_size >= 0
        super().__init__(file_system, path, base_offset, writable=writable)
        self._max_index_size = max_index_size
        self._warm_count = WARM_SIZE // self.ENTRY.size
        self._file_size = 0
        self._view: Buffer
        self._key_at: Callable[[int], tuple[Any, ...]]
        self._forget()

    @property
    def entry_count(self) -> int:
        self._opened()
        return self._entry_count

    @property
    def max_entry_count(self) -> int:
        """How many entries the file has room for now."""
        self._opened()
        return self._max_entry_count

    @property
    def size(self) -> int:
        """The size of the file, or its size once it has an entry: allocated, not used."""
        self._opened()
        return self._file_size

    @property
    def entries_size(self) -> int:
        self._opened()
        return self._entry_count * self.ENTRY.size

    @property
    def is_full(self) -> bool:
        if self._file is None:
            self._open()
        return self._entry_count >= self._max_entry_count

    def resize(self, size: int) -> bool:
        """Makes the file `size` long, rounded down to whole entries; returns whether it changed."""
        file = self._opened()
        assert self._writable
        rounded = size - size % self.ENTRY.size
        assert rounded >= self._entry_count * self.ENTRY.size, "resizing would cut entries off"
        if rounded == self._file_size:
            return False
        if self._entry_count == 0:
            self._empty(file)
            self._set_room(rounded)
            return True
        self._unmap()
        excess = self._file_size % self.ENTRY.size
        if excess and rounded > self._file_size:
            # Half an entry would become a whole one, with the zeros after it.
            file.truncate(self._file_size - excess)
        file.truncate(rounded)
        self._map(file)
        return True

    def trim(self) -> None:
        """Trims the file to its entries, for a segment that takes no more appends."""
        self.resize(self.entries_size)

    def sync(self) -> None:
        """Makes the file durable, including the writes of a process that was killed."""
        self._opened().sync()

    def sanity_check(self) -> None:
        """Raises `CorruptionError` for damage that is detectable without reading the log."""
        self._opened()
        excess = self._file_size % self.ENTRY.size
        if excess:
            reason = f"the size, {self._file_size}, is not a multiple of {self.ENTRY.size}"
            raise self._corruption(self._file_size - excess, reason)
        if self._entry_count:
            self._check_entries()

    def close(self) -> None:
        """Trims the file if it was used for writing, and closes it; a later use reopens it."""
        if self._file is not None and self._writable:
            self.trim()
        self.abandon()

    def abandon(self) -> None:
        if self._file is not None:
            self._unmap()
            self._file.close()
            self._file = None
            self._forget()

    def _check_entries(self) -> None:
        """Raises `CorruptionError` if the first or last entry is impossible."""
        raise NotImplementedError

    def _remember_last(self) -> None:
        """Caches the last entry, with which `append` compares, after other changes."""
        raise NotImplementedError

    def _opened(self) -> File:
        return self._file if self._file is not None else self._open()

    def _open(self) -> File:
        is_new = self._writable and self._file_system.status(self._path) is None
        file = self._file_system.open(self._path, writable=self._writable, create=is_new)
        self._file = file
        try:
            self._take(file, is_new)
        except BaseException:
            # Such as no memory for the map: the next use must not find the file open and empty.
            self.abandon()
            raise
        self._remember_last()
        return file

    def _take(self, file: File, is_new: bool) -> None:
        if not self._writable:
            self._copy(file)
            return
        self._map(file)
        if is_new:
            self._set_room(self._max_index_size - self._max_index_size % self.ENTRY.size)
        else:
            self._entry_count = self._count_entries(self._read_view)

    def _map(self, file: File) -> None:
        self._measure(file)
        self._use(file.map(self._max_entry_count * self.ENTRY.size))

    def _copy(self, file: File) -> None:
        """Copies the entries of a file that another process may extend or truncate meanwhile.

        The zero tail, usually most of a live index, is located first and not read.
        """
        self._measure(file)
        count = self._count_entries(file.pread)
        self._use(file.pread(count * self.ENTRY.size, 0))
        self._entry_count = len(self._view) // self.ENTRY.size

    def _read_view(self, size: int, position: int) -> bytes:
        return bytes(self._view[position : position + size])

    def _allocate(self) -> None:
        """Extends an empty file to its maximum size, before its first entry."""
        file, room = self._opened(), self._file_size
        self._unmap()
        file.truncate(room)
        self._map(file)

    def _measure(self, file: File) -> None:
        self._set_room(file.size())
        self._is_allocated = True

    def _set_room(self, size: int) -> None:
        """Sets the size that the file has, or that `_allocate` will give it."""
        self._file_size = size
        self._is_allocated = False
        self._max_entry_count = size // self.ENTRY.size
        self._positions = range(0, self._max_entry_count * self.ENTRY.size, self.ENTRY.size)

    def _use(self, view: Buffer) -> None:
        self._view = view
        self._key_at = partial(self.KEY.unpack_from, view)

    def _count_entries(self, read: Callable[[int, int], bytes]) -> int:
        """Returns the index of the first zero entry; `read` takes a size and a position."""
        size, room = self.ENTRY.size, self._max_entry_count

        def is_free(index: int) -> bool:
            # A file truncated meanwhile reads short: there is no entry either.
            return not any(entry := read(size, index * size)) or len(entry) < size

        if room == 0:
            return 0
        if room > 1 and not is_free(room - 1):
            return room
        count = bisect_left(range(room), True, 1, room, key=is_free)
        if count == 1 and is_free(0):
            return 1 if self.FIRST_MAY_BE_ZERO and room == 1 else 0
        return count

    def _floor(self, key: int) -> int:
        """The index of the last entry with a key of at most `key`; -1 if there is none."""
        high = self._entry_count
        low = high - self._warm_count
        sought = (key,)
        if low <= 0:
            low = 0
        elif sought < self._key_at(self._positions[low]):
            low, high = 0, low
        # Appends wait for this bisection, so it calls no function written in Python.
        return bisect_right(self._positions, sought, low, high, key=self._key_at) - 1

    def _truncate_to_count(self, count: int) -> None:
        file = self._opened()
        removed = self._entry_count - count
        assert removed >= 0
        if removed:
            file.pwrite(bytes(removed * self.ENTRY.size), count * self.ENTRY.size)
            self._entry_count = count
            self._remember_last()
            if count == 0:
                self._empty(file)

    def _empty(self, file: File) -> None:
        """Truncates a file that has no more entries; `_allocate` extends it again."""
        room = self._file_size
        self._unmap()
        file.truncate(0)
        self._map(file)
        self._set_room(room)

    def _unmap(self) -> None:
        view = self._view
        self._use(b"")
        if isinstance(view, memoryview):
            view.release()

    def _forget(self) -> None:
        self._use(b"")
        self._entry_count = 0
        self._set_room(0)
