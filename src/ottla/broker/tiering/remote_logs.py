"""The remote tier of a running broker: its store, and the uploads that are known.

`None` in its place means that `remote.log.storage.system.enable` is false. Kafka's counterpart:
`RemoteLogManager`.
"""

from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
from ottla.config.broker import BrokerConfig
from ottla.config.tiering import under_prefix
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.settings import remote_storage_of


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
    prefix = config.remote_log_storage_manager_impl_prefix
    return remote_storage_of(
        config.remote_log_storage_manager_class_name,
        under_prefix(config.given, prefix),
        prefix=prefix,
        file_system=file_system,
    )
