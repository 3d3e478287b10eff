"""The aborted transactions whose abort markers are in a segment.

Format page: docs/format/transaction-index.md. Fetch responses to read_committed consumers list
them. The file is created by the first append, and is neither pre-allocated nor mapped. A crash can
truncate the last entry or lose entries; recovery empties the index and refills it from the markers
in the log. Kafka's counterparts: `TransactionIndex`, `AbortedTxn`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct

from ottla.base.errors import CorruptionError
from ottla.base.files import File, FileSystem, replace_file
from ottla.base.values import dataclass
from ottla.storage.index.index_file import IndexFile

ENTRY = Struct(
    ">"
    "h"  # version: 0
    "q"  # producer id
    "q"  # first offset of the transaction, maybe in an earlier segment
    "q"  # last offset: that of the abort marker
    "q"  # last stable offset after the abort
)
assert ENTRY.size == 34

VERSION = 0
ENTRIES_PER_READ = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One producer's records between two offsets in an aborted transaction.

    `last_stable_offset` is the log's after the marker was appended: no transaction that ends after
    this one begins before it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(IndexFile):
    """The `.txnindex` of a segment, its last offsets ascending; opened by its first use.

    Entries are not kept in memory: a fetch finds its first entry by bisection, and reads from
    there. With `writable=False` another process may be writing; the size is read once.
    """

    __slots__ = (
        "_entry_count",
        "_is_absent",
        "_is_unsynced",
        "_last_offset",
        "_noted_in",
        "_size",
    )

    def __init__(
        self, file_system: FileSystem, path: str, *, base_offset: int, writable: bool = True
    ) -> None:
        super().__init__(file_system, path, base_offset, writable=writable)
        self._is_absent = False
        self._is_unsynced = False
        self._size = 0
        self._entry_count = 0
        self._last_offset = -1
        self._noted_in: list[int] | None = None

    def note_in(self, base_offsets: list[int]) -> None:
        """Keeps the base offset in an ascending list from now on, while there may be entries."""
        self._noted_in = base_offsets
        is_known_empty = self._is_absent or (self._file is not None and not self._entry_count)
        self._note(may_have_entries=not is_known_empty)

    def _note(self, *, may_have_entries: bool) -> None:
        noted = self._noted_in
        if noted is None:
            return
        place = bisect_left(noted, self.base_offset)
        is_noted = noted[place : place + 1] == [self.base_offset]
        if may_have_entries and not is_noted:
            noted.insert(place, self.base_offset)
        elif is_noted and not may_have_entries:
            del noted[place]

    @property
    def is_known_absent(self) -> bool:
        """Whether the file was looked for and does not exist."""
        return self._is_absent

    def look_for_file(self) -> None:
        """Makes known whether there is anything; raises `OSError`."""
        self._opened()

    @property
    def entry_count(self) -> int:
        self._opened()
        return self._entry_count

    @property
    def is_empty(self) -> bool:
        return self.entry_count == 0

    @property
    def entries(self) -> list[AbortedTransaction]:
        """Returns all entries; raises `CorruptionError`."""
        return list(self._entries_from(0))

    def append(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction that ends after all others."""
        assert self._writable
        file = self._opened() or self._create()
        assert transaction.last_offset > self._last_offset, "last offsets must ascend"
        self._is_unsynced = True
        if not self._entry_count:
            self._note(may_have_entries=True)
        file.pwrite(_entry(transaction), self._entry_count * ENTRY.size)
        self._entry_count += 1
        self._size = self._entry_count * ENTRY.size
        self._last_offset = transaction.last_offset

    def complete(self, missing: Iterable[AbortedTransaction]) -> None:
        """Adds transactions that end between the others, by a new file in place of this one."""
        content = index_text([*self.entries, *missing])
        self.close()
        replace_file(self._file_system, self._path, content)
        self._note(may_have_entries=True)

    def collect(
        self, fetch_offset: int, upper_bound_offset: int, max_count: int | None = None
    ) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap with offsets [fetch_offset, upper_bound_offset), the first
        `max_count` of them.

        Also returns whether the search is complete: unless an entry's last stable offset has
        reached the upper bound, a transaction that began in the range may end in a later segment,
        whose index must be searched too.
        """
        return collected(
            self._entries_from(self._first_ending_at(fetch_offset)), upper_bound_offset, max_count
        )

    def entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """The transactions that end at or after an offset."""
        return self._entries_from(self._first_ending_at(offset))

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions that end at or after an offset."""
        self._truncate_to_count(self._first_ending_at(offset))

    def sanity_check(self) -> None:
        """Reads all entries; raises `CorruptionError` for a truncated, unknown or misplaced one."""
        self._opened()
        position = self._entry_count * ENTRY.size
        if position != self._size:
            rest = self._size - position
            raise self._corruption(position, f"the last {rest} bytes are not an entry")
        check_order(self._path, self._entries_from(0), self.base_offset)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()
            self.synced()

    def synced(self) -> None:
        """Records that all of the file was synced through another descriptor."""
        self._is_unsynced = False

    def let_go(self) -> None:
        """Closes the file unless it must be synced; see `LogFile`."""
        if not self._is_unsynced and self._file is not None:
            self.close()

    def close(self) -> None:
        """Closes the file; a later use opens it again."""
        self.abandon()

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._is_absent = self._is_unsynced = False
        self._measure(0)

    def _opened(self) -> File | None:
        """The file, or `None` if it does not exist, which is checked once."""
        if self._file is None and not self._is_absent:
            try:
                self._file = self._file_system.open(self._path, writable=self._writable)
            except FileNotFoundError:
                self._is_absent = True
            else:
                self._measure(self._file.size())
            if not self._entry_count:
                self._note(may_have_entries=False)
        return self._file

    def _create(self) -> File:
        self._file = self._file_system.open(self._path, create=True)
        self._is_absent = False
        return self._file

    def _measure(self, size: int) -> None:
        self._size = size
        self._entry_count = size // ENTRY.size
        self._last_offset = self._last_offset_at(self._entry_count - 1)

    def _first_ending_at(self, offset: int) -> int:
        """The number of the first entry that ends at or after an offset."""
        return bisect_left(range(self.entry_count), offset, key=self._last_offset_at)

    def _last_offset_at(self, number: int) -> int:
        entry = self._read(number, 1)
        return int(ENTRY.unpack(entry)[3]) if entry else -1

    def _read(self, number: int, count: int) -> bytes:
        """Reads up to `count` whole entries; fewer if another process has truncated the file."""
        if self._file is None or number < 0:
            return b""
        data = self._file.pread(count * ENTRY.size, number * ENTRY.size)
        return data[: len(data) - len(data) % ENTRY.size]

    def _entries_from(self, first: int) -> Iterator[AbortedTransaction]:
        self._opened()
        for start in range(first, self._entry_count, ENTRIES_PER_READ):
            data = self._read(start, min(ENTRIES_PER_READ, self._entry_count - start))
            yield from parse_entries(self._path, data, start)

    def _truncate_to_count(self, count: int) -> None:
        assert self._writable
        file = self._opened()
        if file is not None and count * ENTRY.size != self._size:
            file.truncate(count * ENTRY.size)
            self._measure(count * ENTRY.size)


def check_order(path: str, entries: Iterable[AbortedTransaction], base_offset: int) -> None:
    """Raises `CorruptionError` for an entry that cannot be, or not there."""
    last_offset = base_offset - 1
    for number, one in enumerate(entries):
        if one.last_offset <= last_offset:
            reason = f"last offset {one.last_offset} does not come after {last_offset}"
            raise CorruptionError(path, number * ENTRY.size, reason)
        if not 0 <= one.first_offset <= one.last_offset or one.last_stable_offset < 0:
            reason = f"a transaction from {one.first_offset} to {one.last_offset}"
            raise CorruptionError(path, number * ENTRY.size, reason)
        last_offset = one.last_offset


def collected(
    transactions: Iterable[AbortedTransaction],
    upper_bound_offset: int,
    max_count: int | None = None,
) -> tuple[list[AbortedTransaction], bool]:
    """See `TransactionIndex.collect`."""
    found: list[AbortedTransaction] = []
    for transaction in transactions:
        if transaction.first_offset < upper_bound_offset:
            found.append(transaction)
            if len(found) == max_count:
                return found, False
        if transaction.last_stable_offset >= upper_bound_offset:
            return found, True
    return found, False


def index_text(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The content of a transaction index; of two entries with one end offset the last is used."""
    by_end = {one.last_offset: one for one in transactions}
    return b"".join(_entry(one) for _, one in sorted(by_end.items()))


def _entry(one: AbortedTransaction) -> bytes:
    return ENTRY.pack(
        VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset
    )


def parse_entries(path: str, data: bytes, first: int = 0) -> Iterator[AbortedTransaction]:
    """The whole entries of an index from the number `first` on; raises `CorruptionError`."""
    whole = data[: len(data) - len(data) % ENTRY.size]
    for number, fields in enumerate(ENTRY.iter_unpack(whole), first):
        if fields[0] != VERSION:
            reason = f"an entry has unknown version {fields[0]}"
            raise CorruptionError(path, number * ENTRY.size, reason)
        yield AbortedTransaction(
            producer_id=fields[1],
            first_offset=fields[2],
            last_offset=fields[3],
            last_stable_offset=fields[4],
        )
