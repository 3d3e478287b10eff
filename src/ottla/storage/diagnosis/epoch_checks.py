"""Compares the leader-epoch checkpoint with the epochs of the batches.

Format page: docs/format/leader-epochs.md. The checkpoint is read after the log, so for a log in use
it can only be ahead.
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.record.batch import NO_LEADER_EPOCH
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.log.epoch_runs import EpochRun, EpochRuns, agree
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
                yield _wrong(path, None, "is missing, though batches have leader epochs")
        except CorruptionError as error:
            yield _wrong(path, error.position, error.reason)
        if epochs is not None:
            yield from self._contradictions(epochs, log_start)
            last = epochs.entries[-1] if epochs.entries else None
            if last is not None and last.start_offset > end_offset and not is_growing:
                reason = f"epoch {last.epoch} begins at offset {last.start_offset}, "
                yield _wrong(path, None, f"{reason}after the log's end at {end_offset}")
        elif not self.is_ascending:
            yield from self._backward(None)

    def _contradictions(self, epochs: LeaderEpochs, log_start: int) -> Iterator[Finding]:
        """Batches or a checkpoint with wrong epochs."""
        # A single batch that contradicts both the checkpoint and its neighbours is wrong.
        # Otherwise the checkpoint is wrong, unless the batches are out of order themselves: then
        # nothing shows which is right.
        wrong = [run for run in self.values if not _agrees(run, epochs, log_start)]
        is_alone = len(wrong) == 1 and wrong[0].batch_count == 1 and len(self.values) > 1
        right = epochs.epoch_for_offset(wrong[0].first_offset) if is_alone else None
        if right is not None:
            yield from self._backward(right, wrong)
        elif not self.is_ascending:
            yield from self._backward(None)
        elif wrong:
            run = wrong[0]
            offset = run.first_offset
            if epochs.epoch_for_offset(offset) == run.epoch:
                offset = run.last_offset
            stated = epochs.epoch_for_offset(offset)
            says = "no epoch" if stated is None else f"epoch {stated}"
            yield _wrong(
                epochs.path,
                None,
                f"has {says} for offset {offset}, but its batches have epoch {run.epoch} "
                f"(from {run.path} at byte {run.position})",
            )

    def _backward(self, epoch: int | None, runs: list[EpochRun] | None = None) -> Iterator[Finding]:
        """The findings about batches with a wrong epoch; `epoch` is the right one, if known."""
        for run in self.backward if runs is None else runs:
            should = "" if epoch is None else f", and should be {epoch}"
            yield Finding(
                kind=FindingKind.BATCH_EPOCH,
                path=run.path,
                position=run.position,
                reason=f"leader epoch {run.epoch} of offset {run.first_offset} is out of "
                f"order{should}",
                epoch=epoch,
            )


def _agrees(run: EpochRun, epochs: LeaderEpochs, log_start: int) -> bool:
    """Whether a run has the epochs of the checkpoint."""
    # Batches before the log start have no entry any more, or one that begins at the log start.
    earliest, begin = epochs.earliest_epoch, epochs.earliest_start_offset
    if earliest is None or begin is None:
        return run.last_offset < log_start or run.epoch == NO_LEADER_EPOCH
    if run.first_offset < begin and run.epoch > earliest:
        return False
    return agree(epochs, run.epoch, (run.first_offset, run.last_offset))


def _wrong(path: str, position: int | None, reason: str) -> Finding:
    return Finding(kind=FindingKind.LEADER_EPOCHS, path=path, position=position, reason=reason)
