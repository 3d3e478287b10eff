"""The quorum's log of a directory in memory: opened as a node does, closed or killed."""

from ottla.base.files import FileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import SegmentLimits
from ottla.broker.metadata.quorum_opening import OpenedQuorum, open_quorum
from ottla.broker.metadata.quorum_snapshots import QuorumSnapshots, SnapshotWork
from ottla.config.topic import TopicConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_writing import record_batch
from ottla.metadata.records import ConfigRecord
from ottla.quorum.election_state import ElectionState
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import NO_VOTERS, Endpoint, ReplicaKey, Voter, VoterSet
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from tests.support.brokers import NOW_MS, id_of
from tests.support.metadata import image_of

LIMITS = SegmentLimits(size=1 << 20)


def open_only(files: FileSystem, path: str = "/d") -> LogDirectory:
    """A node's directory, without the quorum's log."""
    options = OpenOptions(
        now_ms=NOW_MS,
        node_id=1,
        cluster_id="a-cluster-for-tests-01",
        new_id=lambda: id_of(1),
        random_below=lambda _: 0,
        topic_config=lambda _: TopicConfig(),
        is_replicated=True,
    )
    return LogDirectory.open(path, files, options)


class QuorumDirectory:
    """One use of a directory by a node."""

    def __init__(
        self,
        files: FileSystem,
        path: str = "/d",
        voters: VoterSet = NO_VOTERS,
        limits: SegmentLimits = LIMITS,
        own: Voter | None = None,
    ) -> None:
        self.directory = open_only(files, path)
        self.now_ms = NOW_MS
        try:
            self.opened: OpenedQuorum = open_quorum(
                self.directory, files, voters, lambda: self.now_ms, limits, own
            )
        except BaseException:
            self.directory.abandon()
            raise
        self.log = self.opened.log

    def close(self) -> None:
        self.log.close()
        self.directory.close()


def batch_of(base_offset: int, epoch: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(base_offset, leader_epoch=epoch)
    for value in values or (b"v",):
        builder.append(None, value, NOW_MS)
    return bytes(builder.build())


EPOCH = 3
VOTERS = VoterSet.of([Voter(ReplicaKey(1, id_of(9)), (Endpoint("C", "h", 1),))])
SNAPSHOT_LIMITS = SnapshotLimits(
    bytes_between=1900, interval_ms=60_000, retention_bytes=10_000, retention_ms=600_000
)


class SnapshotNode:
    """A node that leads alone: everything is committed at once."""

    def __init__(
        self, files: FileSystem, limits: SnapshotLimits = SNAPSHOT_LIMITS, path: str = "/d"
    ) -> None:
        self.files = files
        self.path = path
        self.now_ms = NOW_MS
        self.used = QuorumDirectory(files, path, limits=SegmentLimits(size=1 << 16))
        self.log = self.used.log
        self.used.opened.elections.write(ElectionState(EPOCH), 0, NO_VOTERS)
        self.snapshots = QuorumSnapshots(self.log, limits, self.at)

    @property
    def at(self) -> Timestamps:
        return Timestamps(now_ms=self.now_ms, monotonic_ms=float(self.now_ms - NOW_MS))

    def commit(self, number: int, *, count: int = 10) -> None:
        """Some settings of a group, of about 1,000 bytes."""
        records = [
            ConfigRecord(resource_type=32, resource_name=f"t{number}", name=f"{n:070}", value="v")
            for n in range(count)
        ]
        end = self.log.log_end_offset
        self.log.append(record_batch([(one, 0) for one in records], end, EPOCH, self.now_ms))
        self.log.sync()

    @property
    def image(self) -> MetadataImage:
        return image_of(self.files, self.path)

    @property
    def is_due(self) -> bool:
        return self.snapshots.is_due(self.log.log_end_offset, self.at)

    def begin(self) -> SnapshotWork:
        return self.snapshots.begin(self.image, 1, VOTERS, self.at)

    def make(self) -> SnapshotId:
        work = self.begin()
        work.carry_out()
        assert self.snapshots.ended(work)
        return work.id

    def clean(self) -> None:
        """As the machine's effects want it."""
        while (oldest := self.snapshots.outdated(self.at)) is not None:
            self.log.delete_records_before(oldest.end_offset)
            self.log.delete_snapshots_before(oldest)
