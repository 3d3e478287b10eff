"""What became of the transactions near a log's end, from the batches themselves.

A directory that a broker is using, or was using when it died, may lack the last entries of its
transaction indexes; only what lies before the recovery point is sure. So whoever reads one replays
the batches from the newest snapshot at or before that point. Kafka's counterpart:
`UnifiedLog.rebuildProducerState`, as far as it concerns transactions.
"""

from collections.abc import Iterable

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.record.batch import Batch
from ottla.record.control import parse_end_transaction_marker
from ottla.storage.filenames import FileKind, FileSuffix, parse_file_name
from ottla.storage.producer_snapshot import read_snapshot
from ottla.storage.transaction_index import AbortedTransaction


class TransactionTail:
    """Transactions as they stand before `next_offset`; `take` moves it on."""

    def __init__(self, next_offset: int, first_offsets: dict[int, int]) -> None:
        self.next_offset = next_offset
        self.aborted: list[AbortedTransaction] = []
        self._first_offsets = first_offsets

    @classmethod
    def from_snapshot(
        cls, file_system: FileSystem, directory: str, *, log_start_offset: int, until_offset: int
    ) -> "TransactionTail":
        """Begins with the newest readable snapshot in an offset range, or at the log's start."""
        for offset, path in sorted(_snapshots(file_system, directory).items(), reverse=True):
            if not log_start_offset <= offset <= until_offset:
                continue
            try:
                entries = read_snapshot(file_system, path)
            except (CorruptionError, FileNotFoundError):
                continue
            return cls(
                offset,
                {
                    entry.producer_id: entry.transaction_first_offset
                    for entry in entries
                    if entry.transaction_first_offset is not None
                },
            )
        return cls(log_start_offset, {})

    @property
    def oldest_open(self) -> tuple[int, int] | None:
        """The oldest open transaction, as (producer id, first offset)."""
        return min(self._first_offsets.items(), key=lambda one: one[1], default=None)

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return min(self._first_offsets.values(), default=None)

    def take(self, batch: Batch) -> None:
        """Takes the next batch of the log; of a data batch the header is enough."""
        self.next_offset = batch.last_offset + 1
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self._first_offsets.setdefault(batch.producer_id, batch.base_offset)
            return
        marker = parse_end_transaction_marker(batch)
        first_offset = self._first_offsets.pop(batch.producer_id, None)
        if marker is None or marker.is_commit or first_offset is None:
            return
        oldest = self.first_open_offset
        self.aborted.append(
            AbortedTransaction(
                producer_id=batch.producer_id,
                first_offset=first_offset,
                last_offset=batch.last_offset,
                last_stable_offset=batch.last_offset + 1 if oldest is None else oldest,
            )
        )


def _snapshots(file_system: FileSystem, directory: str) -> dict[int, str]:
    found = {}
    for name in file_system.list(directory):
        parsed = parse_file_name(name)
        if (
            parsed is not None
            and parsed.kind is FileKind.PRODUCER_SNAPSHOT
            and parsed.suffix is FileSuffix.LIVE
        ):
            found[parsed.offset] = join(directory, name)
    return found


def overlapping(
    aborted: Iterable[AbortedTransaction], from_offset: int, until_offset: int
) -> list[AbortedTransaction]:
    """Those that overlap with a range, each once, in the order in which they ended."""
    found = {
        (one.last_offset, one.producer_id): one
        for one in aborted
        if one.last_offset >= from_offset and one.first_offset < until_offset
    }
    return [found[key] for key in sorted(found)]
