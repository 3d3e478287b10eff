"""The quorum's log of a directory in memory: opened as a node does, closed or killed."""

from ottla.base.files import FileSystem
from ottla.broker.metadata.quorum_log import SegmentLimits
from ottla.broker.metadata.quorum_opening import OpenedQuorum, open_quorum
from ottla.config.topic import TopicConfig
from ottla.quorum.voters import NO_VOTERS, VoterSet
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from tests.support.brokers import NOW_MS, id_of

LIMITS = SegmentLimits(size=1 << 20)


class QuorumDirectory:
    """One use of a directory by a node."""

    def __init__(
        self,
        files: FileSystem,
        path: str = "/d",
        voters: VoterSet = NO_VOTERS,
        limits: SegmentLimits = LIMITS,
    ) -> None:
        options = OpenOptions(
            now_ms=NOW_MS,
            node_id=1,
            cluster_id="a-cluster-for-tests-01",
            new_id=lambda: id_of(1),
            random_below=lambda _: 0,
            topic_config=lambda _: TopicConfig(),
        )
        self.directory = LogDirectory.open(path, files, options)
        self.now_ms = NOW_MS
        self.opened: OpenedQuorum = open_quorum(
            self.directory, files, voters, lambda: self.now_ms, limits
        )
        self.log = self.opened.log

    def close(self) -> None:
        self.log.close()
        self.directory.close()


def batch_of(base_offset: int, epoch: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(base_offset, leader_epoch=epoch)
    for value in values or (b"v",):
        builder.append(None, value, NOW_MS)
    return bytes(builder.build())
