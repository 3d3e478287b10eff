"""The leader epochs of a log's batches, for comparison with the leader-epoch checkpoint.

Recovery and checks collect the epochs here, and ask `EpochRuns.judge` which of the two is wrong. No
checksum covers the epoch in a batch's header, nor the checkpoint.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise, zip_longest

from ottla.base.values import dataclass
from ottla.record.batch import NO_LEADER_EPOCH, Batch
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs


@dataclass(slots=True)
class EpochRun:
    """Consecutive batches of one epoch; `path` and `position` are those of the first batch."""

    epoch: int
    first_offset: int
    last_offset: int
    path: str
    position: int
    batch_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochVerdict:
    """What is wrong where batches and checkpoint contradict each other.

    A single batch that contradicts the checkpoint is wrong; of more the checkpoint is, and is to be
    rebuilt from them, except for what is out of order among the batches themselves.
    """

    epochs: LeaderEpochs
    """The right epochs: those of the checkpoint, or of the batches."""
    wrong_file: Finding | None
    """The finding about the checkpoint."""
    damaged: list[EpochRun]
    """Batches with an epoch other than the right one."""

    def findings(self) -> Iterator[Finding]:
        if self.wrong_file is not None:
            yield self.wrong_file
        for run in self.damaged:
            # Of several batches in a row nothing shows which side is right.
            right = self.epochs.epoch_for_offset(run.first_offset)
            yield out_of_order(run, right if run.batch_count == 1 else None)


def out_of_order(run: EpochRun, right: int | None) -> Finding:
    """The finding about batches with a wrong epoch; `right` is the right one, if known."""
    should = "" if right is None else f", and should be {right}"
    return Finding(
        kind=FindingKind.BATCH_EPOCH,
        path=run.path,
        position=run.position,
        reason=f"leader epoch {run.epoch} of offset {run.first_offset} is out of order{should}",
        epoch=right,
    )


class EpochRuns:
    """Collects the runs of a log, from its first batch to its last.

    A run ends at each of the `boundaries`, the offsets where epochs begin by the checkpoint. So all
    of its batches agree with that, or none.
    """

    def __init__(self, boundaries: Iterable[int] = ()) -> None:
        self.values: list[EpochRun] = []
        self._boundaries = list(boundaries)
        self._place = (0, 0)

    def take(self, batch: Batch, path: str = "", position: int = 0) -> None:
        """Adds the next batch; its path and position are for those who name it."""
        runs, epoch = self.values, batch.partition_leader_epoch
        if batch.magic < 2:
            # A batch in an old format clears all epochs before it, as on append.
            runs.clear()
            return
        first, last = batch.base_offset, batch.last_offset
        place = bisect_right(self._boundaries, first), bisect_right(self._boundaries, last)
        if runs and runs[-1].epoch == epoch and self._place == place:
            runs[-1].last_offset = last
            runs[-1].batch_count += 1
        else:
            self._place = place
            runs.append(EpochRun(epoch, first, last, path, position))

    def judge(self, epochs: LeaderEpochs, log_start: int) -> EpochVerdict:
        """Compares the batches with a checkpoint that was read."""
        wrong = [run for run in self.values if not _agrees(run, epochs, log_start)]
        if sum(run.batch_count for run in wrong) <= 1:
            return EpochVerdict(epochs=epochs, wrong_file=None, damaged=wrong)
        right = epochs.with_entries([*self.before(epochs), *self.entries])
        damaged = [run for run in self.values if not _agrees(run, right, log_start)]
        file = _wrong_file(epochs, wrong[0])
        return EpochVerdict(epochs=right, wrong_file=file, damaged=damaged)

    def before(self, epochs: LeaderEpochs) -> Iterator[EpochEntry]:
        """The checkpoint's entries of batches before the first one: in a tiered log these are in
        the tier, and nothing else says their epochs.
        """
        first = next((run for run in self.values if run.epoch >= 0), None)
        if first is None:
            return
        for one in epochs.entries:
            if one.start_offset < first.first_offset and one.epoch <= first.epoch:
                yield one

    @property
    def backward(self) -> list[EpochRun]:
        """The runs with a smaller epoch than the run before."""
        return [later for earlier, later in pairwise(self.values) if later.epoch < earlier.epoch]

    @property
    def entries(self) -> list[EpochEntry]:
        """The checkpoint's entries, without epochs that only a damaged batch can have.

        The epoch of a single batch is dropped if the next epoch is smaller. An epoch that is not
        larger than the one before is dropped too.
        """
        found: list[EpochEntry] = []
        runs = [run for run in self.values if run.epoch >= 0]
        for run, following in zip_longest(runs, runs[1:]):
            is_back = following is not None and following.epoch < run.epoch
            if is_back and run.batch_count == 1:
                continue
            if not found or run.epoch > found[-1].epoch:
                found.append(EpochEntry(run.epoch, run.first_offset))
        return found


def missing_file(path: str) -> Finding:
    return _wrong(path, "is missing, though batches have leader epochs")


def beyond_end(epochs: LeaderEpochs, end_offset: int) -> Finding | None:
    """The finding about an epoch that begins after the log's end."""
    last = epochs.entries[-1] if epochs.entries else None
    if last is None or last.start_offset <= end_offset:
        return None
    reason = f"epoch {last.epoch} begins at offset {last.start_offset}, after the log's end at "
    return _wrong(epochs.path, f"{reason}{end_offset}")


def _wrong(path: str, reason: str) -> Finding:
    return Finding(kind=FindingKind.LEADER_EPOCHS, path=path, position=None, reason=reason)


def _agrees(run: EpochRun, epochs: LeaderEpochs, log_start: int) -> bool:
    """Whether a run has the epochs of the checkpoint."""
    # Batches before the log start have no entry any more, or one that begins at the log start.
    earliest, begin = epochs.earliest_epoch, epochs.earliest_start_offset
    if earliest is None or begin is None:
        return run.last_offset < log_start or run.epoch == NO_LEADER_EPOCH
    if run.first_offset < begin and run.epoch > earliest:
        return False
    return agree(epochs, run.epoch, (run.first_offset, run.last_offset))


def _wrong_file(epochs: LeaderEpochs, run: EpochRun) -> Finding:
    offset = run.first_offset
    if epochs.epoch_for_offset(offset) == run.epoch:
        offset = run.last_offset
    stated = epochs.epoch_for_offset(offset)
    says = "no epoch" if stated is None else f"epoch {stated}"
    return _wrong(
        epochs.path,
        f"has {says} for offset {offset}, but its batches have epoch {run.epoch} "
        f"(from {run.path} at byte {run.position})",
    )


def agree(epochs: LeaderEpochs, epoch: int, offsets: tuple[int, int]) -> bool:
    """Whether the checkpoint has an epoch for the first and last offset of its batches.

    True before its first entry: epochs of these offsets are unknown.
    """
    stated = map(epochs.epoch_for_offset, offsets)
    return all(one is None or one == epoch for one in stated)
