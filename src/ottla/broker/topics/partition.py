"""One partition that this broker leads: its log, its place, its leader epoch.

Kafka's counterpart: `Partition`, of which a broker without replicas needs little.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog


class Partition:
    """`is_dirty`: it holds appends that `Broker.write_out` has still to write.

    `messages_in`, `bytes_in` and `bytes_out` count what was appended and read since the start.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "directory",
        "index",
        "is_dirty",
        "leader_epoch",
        "log",
        "messages_in",
        "topic",
    )

    def __init__(self, topic: str, index: int, log: PartitionLog, directory: LogDirectory) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.directory = directory
        self.leader_epoch = log.epochs.latest_epoch or 0
        self.is_dirty = False
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def check_leader_epoch(self, known_epoch: int) -> None:
        """Raises `ApiError` when a client knows another epoch than ours (KIP-320); -1 knows none.

        Kafka: `Partition.checkCurrentLeaderEpoch`.
        """
        if known_epoch < 0 or known_epoch == self.leader_epoch:
            return
        if known_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
