"""Giving a lost partition up: an empty log takes its place, once a person has said so.

A start refuses a partition that a checkpoint names and no directory holds, since what its groups
have committed and its producers remember is of records that may yet be put back. The empty log
continues where the lost one ended, so that no offset is given twice.

A crash leaves no directory, or an empty one that the next start undoes, or the log.
"""

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, join, make_durable_directory
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.repair import locked
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_RECOVERY_POINT,
    PARTITION_METADATA,
    DirectoryState,
    log_file_name,
    parse_directory_name,
)
from ottla.storage.files.named_partitions import read_named_partitions
from ottla.storage.files.partition_metadata import write_topic_id


def give_up(file_system: FileSystem, directory: str, name: str, topic_id: Uuid | None) -> int:
    """Makes the empty log of a lost partition; returns the offset at which it begins.

    Raises `UserError` for a partition that is not lost, and `OSError`.
    """
    parsed = parse_directory_name(name)
    if parsed is None or parsed.state is not DirectoryState.LIVE:
        raise UserError(f"{name} is no partition; name one as in orders-0")
    path = join(directory, name)
    key = TopicPartition(parsed.topic, parsed.partition)
    with locked(file_system, directory):
        if file_system.status(path) is not None:
            raise UserError(f"{path} is there, so there is nothing to give up; move it away first")
        offset = read_named_partitions(file_system, directory).offset_of(key)
        if offset is None:
            checkpoint = join(directory, CHECKPOINT_RECOVERY_POINT)
            raise UserError(
                f"{checkpoint} does not name {name}, so it is not lost from {directory}"
            )
        marks = OffsetCheckpoint(file_system, join(directory, CHECKPOINT_HIGH_WATERMARK))
        offset = max(0, offset, marks.read_if_whole().get(key, 0))
        make_durable_directory(file_system, path)
        log = file_system.open(join(path, log_file_name(offset)), create=True)
        log.sync()
        log.close()
        if topic_id is not None and topic_id != ZERO_UUID:
            write_topic_id(file_system, join(path, PARTITION_METADATA), topic_id)
        file_system.sync_directory(path)
    return offset
