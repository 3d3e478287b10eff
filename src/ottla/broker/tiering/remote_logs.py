"""The remote tier of a running broker: its store, the uploads that are known, and the work on them.

`None` in its place means that `remote.log.storage.system.enable` is false. Kafka's counterpart:
`RemoteLogManager`.
"""

import logging
from collections.abc import Iterable, Sequence

from ottla.base.clock import WaitingClock
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.turns import in_turns
from ottla.broker.tiering.building import Build
from ottla.broker.tiering.expiring import deletion
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tier_jobs import TierJobs
from ottla.broker.tiering.tier_troubles import TierTrouble, write_tier_troubles
from ottla.broker.topics.topics import Topic
from ottla.config.broker import BrokerConfig
from ottla.config.tiering import under_prefix
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import PartitionDeleteState, TopicIdPartition
from ottla.storage.remote.settings import remote_storage_of

logger = logging.getLogger(__name__)


class RemoteLogs:
    """`storage` is the tier, which threads read and write without the broker's lock; everything
    else is for one thread at a time, as the broker is.
    """

    def __init__(self, tier: Tier, jobs: TierJobs) -> None:
        self.storage = tier.storage
        self.metadata = tier.metadata
        self.counts = tier.counts
        self.jobs = jobs
        self._tier = tier

    def index_of(self, topic_id: Uuid, partition: int) -> SegmentIndex | None:
        """The uploads of a partition; `None` if there are none that are known."""
        return self.metadata.index_of(topic_id, partition)

    def is_ready(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the list of a partition's uploads has been read from `__remote_log_metadata`.

        Until then reads of the tier must wait, or be tried again.
        """
        return self.metadata.is_ready(topic_id, partition)

    def topics_go(self, topics: Iterable[Topic]) -> None:
        """Records, before topics are deleted, that their uploads are to be deleted too.

        A job deletes them, when the topics no longer exist. So a crash in between leaves nothing,
        and a topic whose directory is only missing loses nothing.
        """
        for topic in topics:
            for index in in_turns(range(topic.partition_count)):
                self.partition_goes(TopicIdPartition(topic.name, topic.topic_id, index))

    def partition_goes(self, partition: TopicIdPartition) -> None:
        """As `topics_go`, for one partition."""
        known = self.index_of(partition.topic_id, partition.partition)
        if known is None or not len(known) or known.deletion is not None:
            return
        marked = PartitionDeleteState.DELETE_PARTITION_MARKED
        try:
            self.metadata.publish(deletion(self._tier, partition, marked), self._tier.now)
        except ApiError as error:
            logger.error(
                "%s is deleted, and its %d uploads stay in the tier %s: %s; delete their objects "
                "there", partition, len(known), self.storage.address, error,
            )  # fmt: skip

    def build(self, wanted: Build) -> None:
        """Begins a follower's replica with what the tier has of its state."""
        self.jobs.build(wanted)

    def write_troubles(self, directory: str, found: Sequence[TierTrouble]) -> None:
        """Says in a file what fails; for a thread. Raises `OSError`."""
        write_tier_troubles(self._tier.file_system, directory, self.storage.address, found)

    def close(self) -> None:
        """Ends all work where it is."""
        self.jobs.close()


def open_remote_storage(
    config: BrokerConfig, file_system: FileSystem, clock: WaitingClock | None = None
) -> RemoteStorage:
    """The tier that the settings name, whose uploads wait by `clock`; raises `UserError`."""
    prefix = config.remote_log_storage_manager_impl_prefix
    return remote_storage_of(
        config.remote_log_storage_manager_class_name,
        under_prefix(config.given, prefix),
        prefix=prefix,
        file_system=file_system,
        clock=clock,
    )
