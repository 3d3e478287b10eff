"""A log whose directory gets another name while its files stay open.

Kafka's counterpart: `UnifiedLog.renameDir`.
"""

from ottla.base.files import base_name, join
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.partition_log import PartitionLog


def log_renamed(log: PartitionLog, directory: str) -> None:
    """Takes note that the directory was renamed: whatever is opened from now on is found there.

    A flush that was planned before counts for nothing, for it looked under the old name.
    """
    log.directory = directory
    for segment in log.segments.values:
        segment.directory = directory
        for file in (
            *segment.open_indexes,
            segment.transaction_index,
            segment.witness,
            segment.log,
        ):
            file.renamed(join(directory, base_name(file.path)))
    log.epochs.renamed(join(directory, LEADER_EPOCHS))
    log.snapshots.renamed(directory)
    log.seams.renamed(directory)
    log.witness.renamed(directory)
    log.offsets.cut_count += 1
