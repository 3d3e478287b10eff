"""The remote tier of a running broker: its store, and the uploads that are known.

`None` in its place means that `remote.log.storage.system.enable` is false. Kafka's counterpart:
`RemoteLogManager`.
"""

from ottla.base.errors import UserError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
from ottla.config.broker import BrokerConfig
from ottla.config.tiering import under_prefix
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.opening import CACHE_SIZE
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.tier_objects import TierObjects

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


class RemoteLogs:
    """`storage` is the tier, which threads read and write without the broker's lock; everything
    else is for one thread at a time, as the broker is.
    """

    def __init__(self, storage: RemoteStorage, metadata: RemoteLogMetadata) -> None:
        self.storage = storage
        self.metadata = metadata

    def index_of(self, topic_id: Uuid, partition: int) -> SegmentIndex | None:
        """The uploads of a partition; `None` if there are none that are known."""
        return self.metadata.index_of(topic_id, partition)

    def is_ready(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the list of a partition's uploads has been read from `__remote_log_metadata`.

        Until then reads of the tier must wait, or be tried again.
        """
        return self.metadata.is_ready(topic_id, partition)


def open_remote_storage(config: BrokerConfig, file_system: FileSystem) -> RemoteStorage:
    """The tier that the settings name; raises `UserError`."""
    name = config.remote_log_storage_manager_class_name
    if name != LOCAL_CLASS:
        raise UserError(f"{name}: only {LOCAL_CLASS} is supported")
    prefix = config.remote_log_storage_manager_impl_prefix
    address = under_prefix(config.given, prefix).get("dir")
    if not address:
        raise UserError(f"{prefix}dir: name the directory of the tier")
    objects = TierObjects(DirectoryStore(address, file_system))
    return LocalTier(objects, ROOT, BlockCache(CACHE_SIZE))
