"""The aborted transactions of a segment, which readers of committed records must skip.

Format page: docs/format/transaction-index.md. Made by the first abort; a crash can leave it cut
short or behind the log, and recovery rebuilds it. Kafka's counterpart: `TransactionIndex`.
"""

from dataclasses import dataclass
from struct import Struct

from ottla.base.errors import CorruptionError
from ottla.base.files import File, FileSystem, remove_if_present

ENTRY = Struct(
    ">"
    "h"  # version, 0
    "q"  # producer id
    "q"  # first offset of the transaction
    "q"  # offset of its abort marker
    "q"  # last stable offset once it had ended
)
assert ENTRY.size == 34


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries in the order in which the transactions were aborted. Opened by its first use."""

    __slots__ = ("_entries", "_file", "_file_system", "_path", "base_offset")

    def __init__(self, file_system: FileSystem, path: str, *, base_offset: int) -> None:
        self._file_system = file_system
        self._path = path
        self.base_offset = base_offset
        self._file: File | None = None
        self._entries: list[AbortedTransaction] | None = None

    @property
    def path(self) -> str:
        return self._path

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries; raises `CorruptionError`."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    @property
    def is_empty(self) -> bool:
        return not self.entries

    def _read(self) -> list[AbortedTransaction]:
        if self._file_system.status(self._path) is None:
            return []
        file = self._file or self._file_system.open(self._path)
        try:
            content = file.pread(file.size(), 0)
        finally:
            if file is not self._file:
                file.close()
        return parse_transaction_index(self._path, content)

    def append(self, aborted: AbortedTransaction) -> None:
        """Adds a transaction; markers, and so last offsets, ascend."""
        entries = self.entries
        assert not entries or entries[-1].last_offset < aborted.last_offset
        if self._file is None:
            self._file = self._file_system.open(self._path, create=True)
        self._file.pwrite(_packed(aborted), len(entries) * ENTRY.size)
        entries.append(aborted)

    def collect(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap a range, and whether later segments can add none.

        Kafka: `TransactionIndex.collectAbortedTxns`.
        """
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions whose markers lie at or behind an offset."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) == len(self.entries):
            return
        if self._file is None:
            self._file = self._file_system.open(self._path, writable=True)
        self._file.truncate(len(kept) * ENTRY.size)
        self._entries = kept

    def sanity_check(self) -> None:
        """Raises `CorruptionError` unless every entry can be; an absent file is sound."""
        self._entries = None
        for index, entry in enumerate(self.entries):
            if entry.last_offset < self.base_offset:
                reason = f"last offset {entry.last_offset} lies before the segment"
                raise CorruptionError(self._path, index * ENTRY.size, reason)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def renamed(self, path: str) -> None:
        """Takes note that the file was renamed."""
        self._path = path
        if self._file is not None:
            self._file.renamed(path)

    def rename(self, path: str) -> None:
        if self._file_system.status(self._path) is not None:
            self._file_system.rename(self._path, path)
        self.renamed(path)

    def delete(self) -> None:
        self.close()
        remove_if_present(self._file_system, self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._entries = None


def _packed(entry: AbortedTransaction) -> bytes:
    return ENTRY.pack(
        0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
    )


def parse_transaction_index(path: str, content: bytes) -> list[AbortedTransaction]:
    """The entries of a file; raises `CorruptionError` with the position of the first bad one."""
    if len(content) % ENTRY.size:
        whole = len(content) - len(content) % ENTRY.size
        raise CorruptionError(path, whole, f"{len(content)} bytes are no whole entries")
    entries: list[AbortedTransaction] = []
    for position in range(0, len(content), ENTRY.size):
        version, producer_id, first, last, stable = ENTRY.unpack_from(content, position)
        if version != 0:
            raise CorruptionError(path, position, f"version {version} instead of 0")
        if not 0 <= first <= last or stable < 0 or producer_id < 0:
            raise CorruptionError(path, position, f"a transaction from {first} to {last}")
        if entries and last <= entries[-1].last_offset:
            raise CorruptionError(path, position, "last offsets do not ascend")
        entries.append(
            AbortedTransaction(
                producer_id=producer_id,
                first_offset=first,
                last_offset=last,
                last_stable_offset=stable,
            )
        )
    return entries
