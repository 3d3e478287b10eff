"""The leader epochs of a log's batches, for comparison with the leader-epoch checkpoint.

Recovery and checks collect the epochs here, rebuild a checkpoint from them, and ask whether a batch
agrees with it. No checksum covers the epoch in a batch's header, nor the checkpoint.
"""

from itertools import pairwise, zip_longest

from ottla.base.values import dataclass
from ottla.record.batch import NO_LEADER_EPOCH, Batch
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


class EpochRuns:
    """Collects the runs of a log, from its first batch to its last."""

    def __init__(self) -> None:
        self.values: list[EpochRun] = []

    def take(self, batch: Batch, path: str = "", position: int = 0) -> None:
        """Adds the next batch; its path and position are for those who name it."""
        runs, epoch = self.values, batch.partition_leader_epoch
        if batch.magic < 2:
            # A batch in an old format clears all epochs before it, as on append.
            runs.clear()
        elif runs and runs[-1].epoch == epoch:
            runs[-1].last_offset = batch.last_offset
            runs[-1].batch_count += 1
        else:
            first = batch.base_offset
            runs.append(EpochRun(epoch, first, batch.last_offset, path, position))

    @property
    def is_ascending(self) -> bool:
        epochs = [NO_LEADER_EPOCH, *(run.epoch for run in self.values)]
        return all(one <= other for one, other in pairwise(epochs))

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


def agree(epochs: LeaderEpochs, epoch: int, offsets: tuple[int, int]) -> bool:
    """Whether the checkpoint has an epoch for the first and last offset of its batches.

    True before its first entry: epochs of these offsets are unknown.
    """
    stated = map(epochs.epoch_for_offset, offsets)
    return all(one is None or one == epoch for one in stated)
