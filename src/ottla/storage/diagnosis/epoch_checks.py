"""Compares the leader-epoch checkpoint with the epochs of the batches.

Format page: docs/format/leader-epochs.md. The checkpoint is read after the log, so for a log in use
it can only be ahead.
"""

from collections.abc import Iterator
from contextlib import suppress

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.log.epoch_runs import EpochRuns, beyond_end, missing_file, out_of_order
from ottla.storage.log.leader_epochs import LeaderEpochs, read_epoch_entries


class EpochCheck(EpochRuns):
    """Collects the runs of epochs in a log, and then compares them with the checkpoint."""

    def findings(
        self, file_system: FileSystem, path: str, *, offsets: tuple[int, int], is_growing: bool
    ) -> Iterator[Finding]:
        """The findings; `path` is the checkpoint's, `offsets` are the log's start and end."""
        log_start, end_offset = offsets
        epochs: LeaderEpochs | None = None
        try:
            epochs = LeaderEpochs(file_system, path, read_epoch_entries(file_system, path))
        except FileNotFoundError:
            if any(run.epoch >= 0 for run in self.values):
                yield missing_file(path)
        except CorruptionError as error:
            yield finding_of(FindingKind.LEADER_EPOCHS, error)
        if epochs is None:
            yield from (out_of_order(run, None) for run in self.backward)
            return
        yield from self.judge(epochs, log_start).findings()
        beyond = beyond_end(epochs, end_offset)
        if beyond is not None and not is_growing:
            yield beyond


def epoch_check(file_system: FileSystem, path: str) -> EpochCheck:
    """A check of batches against the checkpoint at a path, which is read again at its end."""
    with suppress(CorruptionError):
        epochs = LeaderEpochs.read(file_system, path)
        return EpochCheck(one.start_offset for one in epochs.entries)
    return EpochCheck()
