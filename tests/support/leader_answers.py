"""What a leader answers to followers beside records, decided as the server's handlers decide it."""

from ottla.base.error_codes import ErrorCode
from ottla.broker.replication.fetches import AskEpochEnd, AskOffsets, EpochEnded, Offsets
from ottla.broker.replication.replica_manager import ReplicaManager


def epoch_ended(manager: ReplicaManager, asked: AskEpochEnd) -> EpochEnded:
    error = manager.error_of_leader(asked.partition, asked.leader_epoch)
    hosted = None if error is not ErrorCode.NONE else manager.partitions[asked.partition]
    return EpochEnded(
        partition=asked.partition,
        leader_epoch=asked.leader_epoch,
        epoch=asked.epoch,
        error=error,
        end=None if hosted is None else hosted.local.log.end_offset_for(asked.epoch),
    )


def offsets(manager: ReplicaManager, asked: AskOffsets) -> Offsets:
    error = manager.error_of_leader(asked.partition, asked.leader_epoch)
    if error is not ErrorCode.NONE:
        return Offsets(partition=asked.partition, leader_epoch=asked.leader_epoch, error=error)
    log = manager.partitions[asked.partition].local.log
    return Offsets(
        partition=asked.partition,
        leader_epoch=asked.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
    )
