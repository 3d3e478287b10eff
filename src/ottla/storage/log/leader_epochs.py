"""The start offset of each leader epoch of a partition.

Format page: docs/format/leader-epochs.md. Followers and consumers ask for the end of an epoch, to
find where their log diverged from the leader's (KIP-101, KIP-279). Every change is durable before
the call returns, except for an epoch without batches (`begin`), so the log never has a batch whose
epoch has no entry. A crash leaves the complete old or new file; either may have epochs after the
log's end or before its start, which recovery truncates. Kafka's counterparts:
`LeaderEpochFileCache`, `LeaderEpochCheckpointFile`. Kafka writes truncations later, in another
thread; here they are rare enough to be written at once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.values import dataclass
from ottla.storage.files.checkpoints import CheckpointLines, checkpoint_text
from ottla.storage.files.filenames import LEADER_EPOCHS


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """The first offset that a leader wrote in an epoch."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """A partition's epochs, ascending, with ascending start offsets."""

    __slots__ = ("_epochs", "_file_system", "_path", "_start_offsets", "is_ahead")

    def __init__(
        self, file_system: FileSystem, path: str, entries: Iterable[EpochEntry] = ()
    ) -> None:
        """Takes entries that are in the file, or are written with the next change."""
        self._file_system = file_system
        self._path = path
        self.is_ahead = False
        """Whether the last epoch has no batch, and is not in the file."""
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for entry in entries:
            self._assign(entry.epoch, entry.start_offset)

    @classmethod
    def read(cls, file_system: FileSystem, path: str) -> "LeaderEpochs":
        """Reads the file; a missing or empty file has no epochs. Raises `CorruptionError`."""
        try:
            return cls(file_system, path, read_epoch_entries(file_system, path))
        except FileNotFoundError:
            return cls(file_system, path)

    @property
    def path(self) -> str:
        return self._path

    @property
    def has_file(self) -> bool:
        return self._file_system.status(self._path) is not None

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(map(EpochEntry, self._epochs, self._start_offsets))

    @property
    def earliest_epoch(self) -> int | None:
        return self._epochs[0] if self._epochs else None

    @property
    def earliest_start_offset(self) -> int | None:
        """The first offset with a known epoch, which is the log start unless files are lost."""
        return self._start_offsets[0] if self._start_offsets else None

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that a batch of an epoch begins at an offset; returns whether the epoch is new.

        Called for every batch, so the common case is one comparison. Entries that contradict the
        new one are removed: they are from a log history that was truncated.
        """
        changed = self._assign(epoch, start_offset)
        if changed or self.is_ahead:
            self._write()
        return changed

    def begin(self, epoch: int, start_offset: int) -> None:
        """As `assign` for an epoch without batches; it is written with the first batch.

        So a broker that takes over a thousand partitions does not sync a thousand files first. A
        crash only loses an epoch in which nothing was written.
        """
        self.is_ahead |= self._assign(epoch, start_offset)

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """As `assign` for each entry, with one write."""
        changes = [self._assign(entry.epoch, entry.start_offset) for entry in entries]
        if any(changes):
            self._write()

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Replaces all entries with others."""
        self._epochs.clear()
        self._start_offsets.clear()
        for entry in entries:
            self._assign(entry.epoch, entry.start_offset)
        self._write()

    def with_entries(self, entries: Iterable[EpochEntry]) -> "LeaderEpochs":
        """Other entries of the same file, which are not written."""
        return LeaderEpochs(self._file_system, self._path, entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """The largest known epoch up to `epoch`, and its end offset.

        For an epoch before the first known one, the result is that epoch and the first start
        offset, as its records are deleted. `None`, Kafka's (-1, -1), for an epoch later than any
        known one.
        """
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        index = bisect_right(self._epochs, epoch)
        if epoch < 0 or index == len(self._epochs):
            return None
        return self._epochs[index - 1] if index else epoch, self._start_offsets[index]

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which an offset was written; `None` before the first known epoch."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else None

    def range_of(self, offset: int) -> tuple[int | None, int, int]:
        """The epoch in which an offset was written, with its start and end offsets."""
        index = bisect_right(self._start_offsets, offset)
        until = self._start_offsets[index] if index < len(self._start_offsets) else 1 << 63
        if index == 0:
            return None, 0, until
        return self._epochs[index - 1], self._start_offsets[index - 1], until

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the epochs that begin at or after the log's new end."""
        index = bisect_left(self._start_offsets, end_offset)
        if index < len(self._epochs):
            del self._epochs[index:], self._start_offsets[index:]
            self._write()

    def truncate_from_start(self, start_offset: int, *, is_written: bool = True) -> None:
        """Removes the epochs that end at or before the log's new start.

        The epoch of the new start begins there afterwards. The file may be left for the next write.
        """
        index = bisect_right(self._start_offsets, start_offset) - 1
        if index < 0 or (index == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:index], self._start_offsets[:index]
        self._start_offsets[0] = start_offset
        if is_written:
            self._write()

    def clear(self) -> None:
        """Removes all epochs, when the log is emptied or goes back to an old message format."""
        self._epochs.clear()
        self._start_offsets.clear()
        self._write()

    def renamed(self, path: str) -> None:
        """Records that a directory above the file was renamed."""
        self._path = path

    def _assign(self, epoch: int, start_offset: int) -> bool:
        epochs, start_offsets = self._epochs, self._start_offsets
        if epochs and epoch == epochs[-1] and start_offset >= start_offsets[-1]:
            return False
        assert epoch >= 0, "batches without an epoch have no entry"
        assert start_offset >= 0
        index = min(bisect_left(epochs, epoch), bisect_left(start_offsets, start_offset))
        del epochs[index:], start_offsets[index:]
        epochs.append(epoch)
        start_offsets.append(start_offset)
        return True

    def _write(self) -> None:
        self.is_ahead = False
        replace_file(self._file_system, self._path, epochs_content(self.entries))


def epochs_content(entries: Iterable[EpochEntry]) -> bytes:
    """The file with these entries; the inverse of `parse_epoch_entries`."""
    return checkpoint_text(f"{one.epoch} {one.start_offset}" for one in entries)


def read_epoch_entries(file_system: FileSystem, path: str) -> list[EpochEntry]:
    """The entries of the file; raises `CorruptionError` and `FileNotFoundError`."""
    return parse_epoch_entries(path, read_file(file_system, path))


def parse_epoch_entries(path: str, content: bytes) -> list[EpochEntry]:
    """The entries of the content of a checkpoint; raises `CorruptionError`.

    Entries out of order are an error; in Kafka such an entry replaces the ones before it.
    """
    lines = CheckpointLines(path, content)
    entries: list[EpochEntry] = []
    last = EpochEntry(-1, -1)
    for words in lines:
        entry = parse_epoch_entry(lines, words)
        if entry.epoch <= last.epoch or entry.start_offset <= last.start_offset:
            raise lines.error(
                f"has epoch {entry.epoch} from offset {entry.start_offset}, which does not come "
                f"after epoch {last.epoch} from {last.start_offset}"
            )
        entries.append(entry)
        last = entry
    return entries


def parse_epoch_entry(lines: CheckpointLines, words: list[str]) -> EpochEntry:
    if len(words) != 2:
        raise lines.error("is not an epoch and an offset")
    entry = EpochEntry(lines.number(words[0], bits=32), lines.number(words[1], bits=64))
    if entry.epoch < 0 or entry.start_offset < 0:
        raise lines.error("has a negative epoch or offset")
    return entry


def start_by_epochs(file_system: FileSystem, directory: str) -> int:
    """The log start by the epoch file, which is truncated before the start moves; 0 if unknown."""
    try:
        epochs = LeaderEpochs.read(file_system, join(directory, LEADER_EPOCHS))
    except CorruptionError:
        return 0
    return epochs.earliest_start_offset or 0
