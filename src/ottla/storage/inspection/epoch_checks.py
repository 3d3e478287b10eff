"""Whether the leader-epoch checkpoint says what the batches say.

Format page: docs/format/leader-epochs.md. The checkpoint is read after the log, so on a live log it
can only be ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file
from ottla.record.batch import NO_LEADER_EPOCH
from ottla.storage.checkpoints import CheckpointLines
from ottla.storage.inspection.findings import Finding, FindingKind
from ottla.storage.inspection.log_scan import ScannedBatch
from ottla.storage.leader_epochs import EpochEntry, parse_epoch_entry


@dataclass(frozen=True, slots=True)
class EpochBegin:
    """The first batch of an epoch: its entry begins behind `before` and not behind `offset`."""

    epoch: int
    before: int
    offset: int
    place: str


class EpochCheck:
    """Collects where the batches' epochs begin, and compares at the end."""

    def __init__(self) -> None:
        self._begins: dict[int, EpochBegin] = {}
        self._latest = NO_LEADER_EPOCH
        self._last_offset = -1
        self._backward: list[Finding] = []

    def take(self, path: str, scanned: ScannedBatch) -> None:
        batch = scanned.batch
        epoch = batch.partition_leader_epoch
        if epoch > self._latest:
            place = f"{path} at byte {scanned.position}"
            begin = EpochBegin(epoch, self._last_offset, batch.base_offset, place)
            self._begins[epoch] = begin
            self._latest = epoch
        elif batch.magic >= 2 and epoch < self._latest:
            reason = f"leader epoch {epoch} comes after {self._latest}"
            self._backward.append(
                Finding(
                    kind=FindingKind.BATCH_EPOCH,
                    path=path,
                    position=scanned.position,
                    reason=f"{reason} (offset {batch.base_offset})",
                )
            )
        self._last_offset = batch.last_offset

    def findings(
        self, file_system: FileSystem, path: str, *, is_growing: bool
    ) -> Iterator[Finding]:
        """`path` is that of the checkpoint."""
        yield from self._backward
        try:
            entries = read_epoch_entries(file_system, path)
        except FileNotFoundError:
            if self._begins:
                yield _wrong(path, None, "is missing, though batches have leader epochs")
            return
        except CorruptionError as error:
            yield _wrong(path, error.position, error.reason)
            return
        reason = self._contradiction(entries, is_growing=is_growing)
        if reason is not None and not self._backward:
            yield _wrong(path, None, reason)

    def _contradiction(self, entries: list[EpochEntry], *, is_growing: bool) -> str | None:
        """The first one: an entry that is off moves all that follow."""
        first = entries[0] if entries else None
        starts = {entry.epoch: entry.start_offset for entry in entries}
        for begin in self._begins.values():
            start = starts.get(begin.epoch)
            if (
                first is not None
                and begin.epoch <= first.epoch
                and begin.offset <= first.start_offset
            ):
                # What lies before the log's start has no entry any more, or one that begins there.
                continue
            if start is None:
                return f"has no epoch {begin.epoch}, which {begin.place} has"
            if not begin.before < start <= begin.offset:
                return (
                    f"epoch {begin.epoch} begins at offset {start} instead of {begin.offset} "
                    f"({begin.place})"
                )
        for entry in entries:
            if entry.epoch not in self._begins and not is_growing:
                later = (one.before for one in self._begins.values() if one.epoch > entry.epoch)
                last_offset = min(later, default=self._last_offset)
                if not last_offset < entry.start_offset <= self._last_offset + 1:
                    return f"epoch {entry.epoch} begins at {entry.start_offset}, where none does"
        return None


def read_epoch_entries(file_system: FileSystem, path: str) -> list[EpochEntry]:
    """The lines as they are; raises `CorruptionError` where one does not ascend."""
    lines = CheckpointLines(path, read_file(file_system, path))
    entries: list[EpochEntry] = []
    for words in lines:
        entry = parse_epoch_entry(lines, words)
        last = entries[-1] if entries else EpochEntry(-1, -1)
        if entry.epoch <= last.epoch or entry.start_offset <= last.start_offset:
            raise lines.error(
                f"has epoch {entry.epoch} from offset {entry.start_offset}, which does not come "
                f"after epoch {last.epoch} from {last.start_offset}"
            )
        entries.append(entry)
    return entries


def _wrong(path: str, position: int | None, reason: str) -> Finding:
    return Finding(kind=FindingKind.LEADER_EPOCHS, path=path, position=position, reason=reason)
