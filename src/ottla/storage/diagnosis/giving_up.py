"""Gives a lost partition up: creates an empty log in its place, on the user's command.

A start refuses a partition that a checkpoint names and that has no directory, since committed
offsets and producers refer to records that may still be put back. The empty log begins at the end
offset of the lost one, so that no offset is reused.

A crash leaves no directory, an empty one that the next start removes, or the log.
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
    """Creates the empty log of a lost partition; returns the offset at which it begins.

    Raises `UserError` if the partition is not lost, and `OSError`.
    """
    parsed = parse_directory_name(name)
    if parsed is None or parsed.state is not DirectoryState.LIVE:
        raise UserError(f"{name} is not a partition; name one such as orders-0")
    path = join(directory, name)
    key = TopicPartition(parsed.topic, parsed.partition)
    with locked(file_system, directory):
        if file_system.status(path) is not None:
            raise UserError(f"{path} exists, so the partition is not lost; move it away first")
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
